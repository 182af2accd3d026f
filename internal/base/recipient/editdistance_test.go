package recipient

import "testing"

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"gmail", "gmail", 0},
		{"gmial", "gmail", 1},
		{"gmal", "gmail", 1},
		{"gmaiil", "gmail", 1},
		{"gmaul", "gmail", 1},
		{"ca", "abc", 3},
		{"zürich", "zurich", 1},
		{"policies", "polices", 1},
		{"brand", "breaker", 4},
	} {
		if got, back := EditDistance(c.a, c.b), EditDistance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, not %d", c.a, c.b, got, back, c.want)
		}
	}
}
