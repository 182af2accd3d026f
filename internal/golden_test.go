package internal_test

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/kit/golden"
)

// Of a long file only the lines that differ are printed, and those around them; of a file that
// differs everywhere, the first ones.
func TestGoldenDiff(t *testing.T) {
	var long strings.Builder
	for n := range 700 {
		fmt.Fprintf(&long, "line %d\n", n)
	}
	want := long.String()
	for name, c := range map[string]struct {
		got   string
		lines int
		texts []string
	}{
		"the same": {want, 0, nil},
		"one line": {strings.Replace(want, "line 350\n", "line of a change\n", 1), 12,
			[]string{"-line 350\n", "+line of a change\n", " line 349\n"}},
		"one line more": {want + "the end\n", 8, []string{"--- a.txt", "+the end\n", " line 699\n"}},
		"all": {strings.ReplaceAll(want, "line", "other"), 61,
			[]string{"-line 0\n", "… and 1344 more lines\n"}},
		"nothing": {"", 61, []string{"-line 0\n", "… and 644 more lines\n"}},
	} {
		got := golden.Diff("a.txt", want, c.got)
		if n := strings.Count(got, "\n"); n > c.lines {
			t.Errorf("%s: %d lines, want at most %d:\n%s", name, n, c.lines, got)
		}
		for _, text := range c.texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s: no %q in\n%s", name, text, got)
			}
		}
	}
}
