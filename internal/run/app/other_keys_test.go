package app_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
)

// A process with another index key, or with other bytes for a known key ID, does not start, and
// rekey refuses it, too. An unknown key ID is added to the check values.
func TestNewRefusesOtherKeys(t *testing.T) {
	t.Parallel()
	const (
		index, otherIndex = "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=", "vJ0d1cHk4nTq8yWm2xRzPb6sLf3gEo9uAaXiNtKwQhU="
		one, other        = "q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", "KsX548KrTLEYf3plsNe9tow4CUSACpuzYDGYoWlrspU="
	)
	s := apptest.Embedded(t)
	withKeys := func(ring, index string) {
		s.Env["SENDCODE_SECRET_KEYS"], s.Env["SENDCODE_INDEX_KEY"] = ring, index
	}
	withKeys("k1:"+one, index)
	s.Start(1)
	s.Stop(0)
	for what, c := range map[string]struct{ ring, index, said string }{
		"another index key": {
			"k1:" + one, otherIndex,
			"with other keys: index key: set SENDCODE_INDEX_KEY to the key with which the database was written",
		},
		"other bytes": {"k1:" + other, index, "with other keys: key k1: in SENDCODE_SECRET_KEYS key k1 has another value than before"},
		"both":        {"k1:" + other + ",k9:" + one, otherIndex, "with other keys: index key, key k1: "},
	} {
		withKeys(c.ring, c.index)
		a, err := s.New(s.Config())
		if err == nil {
			s.Serve(a)
		}
		for _, said := range []string{fmt.Sprint(err), fmt.Sprint(app.Rekey(s.Context(), s.Config(), io.Discard))} {
			if !strings.Contains(said, c.said) || !strings.Contains(said, "docs/operations.md#keys") ||
				strings.Contains(said, one[:12]) || strings.Contains(said, other[:12]) {
				t.Errorf("%s: %s", what, said)
			}
		}
	}
	withKeys("k2:"+other+",k1:"+one, index)
	s.Start(1) // k2 gets a check value, and k9 gets none
	known, err := s.Replicas[1].DB().KeyCheckValues(s.Context())
	apptest.Must(t, err)
	if len(known) != 3 || known["key k2"] == nil {
		t.Errorf("the database knows %d keys", len(known))
	}
}
