package doctor

import "testing"

// What a driver says of two tries in the same words is said once.
func TestUniqueLines(t *testing.T) {
	for said, want := range map[string]string{
		"failed to connect:\n\t127.0.0.1:1: refused\n\t127.0.0.1:1: refused": "failed to connect: 127.0.0.1:1: refused",
		"one line": "one line", "a\nb": "a b",
	} {
		if got := uniqueLines(said); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
