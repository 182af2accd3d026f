package internal_test

import (
	"testing"

	"sendcode/internal/codes/code/codetest"
)

// So many calls as a code has positions change each of them, and one alone; no two wrong codes are
// alike.
func TestWrongCodesDifferAtEachPosition(t *testing.T) {
	for right, most := range map[string]int{"000000": 6 * 9, "739154": 6 * 9, "BCDFGHXZ": 8 * 19} {
		seen := map[string]bool{right: true}
		wrong, changed := codetest.WrongCodes(t.Name()), map[int]int{}
		for range most {
			other, differs := wrong(right), []int{}
			for i := range right {
				if other[i] != right[i] {
					differs = append(differs, i)
				}
			}
			if len(other) != len(right) || len(differs) != 1 || seen[other] {
				t.Fatalf("%s as a wrong code for %s; seen before: %v", other, right, seen[other])
			}
			seen[other] = true
			changed[differs[0]]++
		}
		for i := range right {
			if changed[i] != most/len(right) {
				t.Errorf("%s: position %d changed in %d of %d wrong codes", right, i, changed[i], most)
			}
		}
	}
}
