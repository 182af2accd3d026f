package sqlite

import (
	"context"
	"database/sql"
	"flag"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"sendcode/internal/store/storetest"
	"sendcode/migrations"
)

// A later migration is applied once, and a program that does not have it still opens the file.
func TestMigrateLaterFile(t *testing.T) {
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	db := openSQLite(t, path, clock)
	storetest.MigrateLater(t, migrations.SQLite, "sqlite", func(ctx context.Context, files fs.FS) error {
		return migrations.Migrate(ctx, goose.DialectSQLite3, db.writer, files, "sqlite")
	})
	storetest.OK(t, db.Close())
	f := storetest.NewFixture(openSQLite(t, path, clock)).Clocked(storetest.Epoch, nil)
	f.Admit(t, f.Intent(1))
}

var writeFrozen = flag.Bool("write-frozen", false, "write testdata/frozen.db.gz anew: only before migration 1 is released")

const (
	frozenFile = "testdata/frozen.db.gz"
	tablesSQL  = `SELECT group_concat(name, ' ') FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
)

// A file of the first schema, which later migrations change, opens and has all that was written.
func TestOpenFileOfFirstSchema(t *testing.T) {
	if *writeFrozen {
		writeFrozenFile(t)
	}
	path := storetest.FrozenFile(t, frozenFile)
	file := storetest.Must(sql.Open("sqlite", path))(t)
	for table, rows := range storetest.RowCounts(t, file, tablesSQL) {
		if rows == 0 && table != "write_probe" {
			t.Errorf("the file has no row of %s", table)
		}
	}
	storetest.OK(t, file.Close())
	db := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenLater})
	storetest.ReadFrozen(t, storetest.NewFixture(db).Clocked(storetest.FrozenLater, nil).Numbered(1000))
}

func writeFrozenFile(t *testing.T) {
	path, small := storetest.TempFile(t), filepath.Join(t.TempDir(), "small.db")
	early := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenAt})
	late := openSQLite(t, path, &storetest.TestClock{At: storetest.FrozenLater})
	storetest.FillFrozen(t, storetest.NewFixture(early).Beside(early).Clocked(storetest.FrozenAt, nil),
		storetest.NewFixture(late).Clocked(storetest.FrozenLater, nil).Numbered(500))
	storetest.Must(late.writer.Exec(`VACUUM INTO '` + small + `'`))(t)
	storetest.PackFile(t, small, frozenFile)
}
