package sqlite_test

import (
	"testing"

	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
)

func TestSQLiteMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Fixture {
		clock := &storetest.TestClock{At: storetest.Epoch}
		db := sqlitetest.Open(t, clock.Now)
		return storetest.NewFixture(db).Beside(db.Replica()).Clocked(storetest.Epoch, clock.Step)
	})
}
