//go:build nightly

// Only make nightly runs this test: 5,000 sends take seconds of processor time, and the contract
// has the same case with 50.

package sqlite_test

import (
	"testing"

	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
)

// 500 mailboxes that are missing among 5,000 good ones are suppressed after the hour.
func TestBurstOfMissingAmongManyGood(t *testing.T) {
	clock := &storetest.TestClock{At: storetest.Epoch}
	db := sqlitetest.Open(t, clock.Now)
	storetest.BurstOfMissing(t, storetest.NewFixture(db).Beside(db.Replica()).Clocked(storetest.Epoch, clock.Step), 5000)
}
