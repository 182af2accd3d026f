// Package sqlitetest opens a store in memory for a test.
package sqlitetest

import (
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
)

// Open opens an empty store in memory, with now as its clock, and closes it when the test ends. In a synctest bubble, pass the
// bubble's t.
func Open(t testing.TB, now func() time.Time) *sqlite.DB {
	t.Helper()
	log, err := sqlite.OpenMemory(now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}
