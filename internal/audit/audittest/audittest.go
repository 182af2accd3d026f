// Package audittest opens a log for a test.
package audittest

import (
	"testing"
	"time"

	"sendcode/internal/audit"
)

// Open opens an empty log in memory and closes it when the test ends. now is its clock. In a bubble, t is the bubble's.
func Open(t testing.TB, now func() time.Time) *audit.SQLite {
	t.Helper()
	log, err := audit.OpenSQLiteMemory(now)
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
