package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// SchemaTable is where the applied migrations are kept, under a name of our own beside other users of goose.
const SchemaTable = "sendcode_schema"

// WrapMigration adds to an error that it came from a migration; nil stays nil.
func WrapMigration(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: migrations: %w", err)
}

// Migrate applies the directory's migrations that have not been applied yet.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, dir string) error {
	provider, err := NewProvider(dialect, db, files, dir)
	if err != nil {
		return WrapMigration(err)
	}
	_, err = provider.Up(ctx)
	return WrapMigration(err)
}

// NewProvider returns goose's provider for the migrations in a directory.
func NewProvider(dialect goose.Dialect, db *sql.DB, files fs.FS, dir string) (*goose.Provider, error) {
	own, err := fs.Sub(files, dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, own, goose.WithTableName(SchemaTable), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
}
