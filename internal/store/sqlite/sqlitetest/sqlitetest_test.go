package sqlitetest

import (
	"testing"

	"sendcode/internal/store/storetest"
)

func TestSQLiteMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Fixture {
		clock := &storetest.TestClock{At: storetest.Epoch}
		db := Open(t, clock.Now)
		return storetest.NewFixture(db).Beside(db.Replica()).Clocked(storetest.Epoch, clock.Step)
	})
}
