package audit

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"sendcode/migrations"
)

// schemaTable is where the applied migrations are kept, under a name of our own beside other users of goose.
const schemaTable = "sendcode_schema"

// migrateSQLite brings the schema up to date. A schema newer than this program stays: migrations only add.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	return migrate(ctx, goose.DialectSQLite3, db, migrations.SQLite, "sqlite")
}

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, dir string) error {
	own, err := fs.Sub(files, dir)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, own, goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("audit: migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("audit: migrations: %w", err)
	}
	return nil
}
