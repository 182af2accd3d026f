package app_test

import (
	"testing"

	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
)

// A service on a SQLite file encrypts the stored rows with the first key of its ring.
func TestServeRekeysTheFile(t *testing.T) {
	t.Parallel()
	const old, fresh = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", "k2:KsX548KrTLEYf3plsNe9tow4CUSACpuzYDGYoWlrspU="
	s := apptest.Embedded(t)
	s.Env["SENDCODE_INDEX_KEY"], s.Env["SENDCODE_SECRET_KEYS"] = "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=", old
	s.Start(1)
	s.Ask(0, apptest.Ana)
	s.Stop(0)
	s.Env["SENDCODE_SECRET_KEYS"] = fresh + "," + old
	s.Start(1)
	s.Await("the row to be under k2", func() bool {
		counts, err := app.CountRowsByKey(s.Context(), s.Replicas[1].DB())
		return err == nil && counts["k2"] == 1 && len(counts) == 1
	})
}
