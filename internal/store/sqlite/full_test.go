package sqlite

import (
	"path/filepath"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
)

// If the database must not grow, the statement that needs a new page fails, before the commit.
func TestSQLiteStatementFailsAtMaximumSize(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	f.Admit(t, f.Intent(1))
	var pages int
	storetest.OK(t, db.writer.QueryRow(`PRAGMA page_count`).Scan(&pages))
	storetest.Must(db.writer.Exec(`PRAGMA max_page_count = 1`))(t) // the limit can't be less than the present number of pages
	storetest.IsFull(t, f.Ping(t.Context()))
	taken := storetest.FillWithSends(t, f, 2, 1000)
	storetest.Must(db.writer.Exec(`PRAGMA max_page_count = 1000000`))(t)
	storetest.WritableWithRows(t, f, 1+taken)
	f.Admit(t, f.Intent(5000))
}

// After some errors of a commit, such as a failed sync, the commit may be in the file, so it isn't
// certainly undone.
func TestCommitUndoneCode(t *testing.T) {
	for code, want := range map[int]bool{
		// FULL, NOMEM, READONLY, CANTOPEN, BUSY, CONSTRAINT, its foreign keys, and IOERR_WRITE
		13: true, 7: true, 8: true, 14: true, 5: true, 19: true, 787: true, 10 | 3<<8: true,
		// IOERR, IOERR_FSYNC, IOERR_DIR_FSYNC, IOERR_SHMSIZE, CORRUPT
		10: false, 10 | 4<<8: false, 10 | 5<<8: false, 10 | 19<<8: false, 11: false,
	} {
		if commitUndoneCode(code) != want {
			t.Errorf("code %d: %v", code, !want)
		}
	}
}

// On a full disk the commit itself fails, and is known to have failed.
func TestSQLiteDiskIsFull(t *testing.T) {
	servertest.OnSmallDisk(t, 6<<20, func(disk *servertest.Disk) { fillUnderSQLite(t, disk) })
}

func fillUnderSQLite(t *testing.T, disk *servertest.Disk) {
	path, clock := filepath.Join(disk.Dir, "sendcode.db"), &storetest.TestClock{At: storetest.Epoch}
	db := openSQLite(t, path, clock)
	f := storetest.NewFixture(db).Clocked(storetest.Epoch, nil)
	f.Admit(t, f.Intent(1))
	rows := 1
	for round := range 8 { // the commit fails at another byte each time
		storetest.OK(t, disk.Fill())
		storetest.OK(t, disk.Free(int64(round)*5000))
		rows += storetest.FillWithSends(t, f, 100*(round+1), 90)
		storetest.IsFull(t, f.Ping(t.Context()))
		storetest.OK(t, disk.MakeRoom())
		storetest.WritableWithRows(t, f, rows)
	}
	f.Admit(t, f.Intent(5000))
	storetest.OK(t, db.Close())
	again := openSQLite(t, path, clock)
	storetest.WritableWithRows(t, storetest.NewFixture(again).Clocked(storetest.Epoch, nil), rows+1)
}
