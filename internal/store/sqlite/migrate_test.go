package sqlite

import (
	"context"
	"io/fs"
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
