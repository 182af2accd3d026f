package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/pressly/goose/v3"

	"sendcode/internal/store"
)

// MigrationsTable is the table in which goose records the applied migrations. Its name is not
// goose's default, so that other programs can use goose in the same database.
const MigrationsTable = "sendcode_schema"

// WrapError wraps the error of a migration, so that the text of the error mentions migrations. If
// err is nil, the result is nil.
func WrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: migrations: %w", err)
}

type reportKey struct{}

// WithReport returns a context for Migrate. Migrate then calls report with the name of each file
// that it has applied.
func WithReport(ctx context.Context, report func(file string)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Migrate applies the migrations in the directory that are not yet applied, and records their
// fingerprints. It returns store.ErrSchema if a migration was applied from a file that differs from
// this program's file.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, dir string) error {
	own, err := Fingerprints(files, dir)
	if err != nil {
		return WrapError(err)
	}
	provider, err := newProvider(dialect, db, files, dir)
	if err != nil {
		return WrapError(err)
	}
	if version, err := provider.GetDBVersion(ctx); err != nil {
		return WrapError(err)
	} else if version > 0 {
		if err := compareApplied(ctx, db, own); err != nil {
			return err
		}
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return WrapError(err)
	}
	for version, sum := range own {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(`
INSERT INTO schema_fingerprints (version, sha256) VALUES (%d, '%s') ON CONFLICT DO NOTHING`, version, sum)); err != nil {
			return WrapError(err)
		}
	}
	if report, ok := ctx.Value(reportKey{}).(func(string)); ok {
		for _, m := range applied {
			report(filepath.Base(m.Source.Path))
		}
	}
	return nil
}

// Check returns an error that wraps store.ErrSchema if a migration of this program is missing or
// different in the database. If the database has all migrations of this program and also later
// migrations, the error wraps store.ErrLaterSchema. Check only reads.
func Check(ctx context.Context, db *sql.DB, files fs.FS, dir string) error {
	own, err := Fingerprints(files, dir)
	if err != nil {
		return WrapError(err)
	}
	applied, err := readApplied(ctx, db)
	if err != nil {
		return err
	}
	if err := CheckFingerprints(own, applied); err != nil {
		return err
	}
	if last := slices.Max(slices.Collect(maps.Keys(applied))); own[last] == "" {
		return fmt.Errorf("%w: migration %d is of a later version, beside which this one works: install that version again",
			store.ErrLaterSchema, last)
	}
	return nil
}

// Fingerprints returns the SHA-256 of each migration file in a directory, in hex. The keys are the
// versions of the migrations.
func Fingerprints(files fs.FS, dir string) (map[int64]string, error) {
	names, err := fs.Glob(files, dir+"/*.sql")
	sums := map[int64]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		sums[version] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return sums, err
}

// FingerprintsSQL reads the fingerprints of the applied migrations.
const FingerprintsSQL = `SELECT version, sha256 FROM schema_fingerprints`

// compareApplied reads the fingerprints that the database has and calls CheckFingerprints. It
// ignores migrations that are not yet applied.
func compareApplied(ctx context.Context, db *sql.DB, own map[int64]string) error {
	applied, err := readApplied(ctx, db)
	if err != nil {
		return err
	}
	both := maps.Clone(own)
	maps.Copy(both, applied)
	return CheckFingerprints(own, both)
}

// readApplied returns the fingerprints of the migrations that a database has. The keys are the
// versions of the migrations.
func readApplied(ctx context.Context, db *sql.DB) (map[int64]string, error) {
	rows, err := db.QueryContext(ctx, FingerprintsSQL)
	if err != nil {
		return nil, WrapError(err)
	}
	defer rows.Close()
	applied := map[int64]string{}
	for rows.Next() {
		var version int64
		var sum string
		if err := rows.Scan(&version, &sum); err != nil {
			return nil, WrapError(err)
		}
		applied[version] = sum
	}
	return applied, WrapError(rows.Err())
}

// CheckFingerprints compares the fingerprints of the program's own migrations with the fingerprints
// in the database. The error wraps store.ErrSchema if a migration is missing or different. The
// database may have later migrations, because later migrations only add to the schema.
func CheckFingerprints(own, applied map[int64]string) error {
	for _, version := range slices.Sorted(maps.Keys(own)) {
		switch applied[version] {
		case own[version]:
		case "":
			return fmt.Errorf("%w: migration %d of this program is not applied: run sendcode migrate",
				store.ErrSchema, version)
		default:
			return fmt.Errorf(
				"%w: migration %d was applied from another file than this program's, so another build made this schema: "+
					"start that build, or begin with an empty database (see UPGRADING.md)",
				store.ErrSchema, version)
		}
	}
	return nil
}

// newProvider returns goose's provider for the migrations in a directory.
func newProvider(dialect goose.Dialect, db *sql.DB, files fs.FS, dir string) (*goose.Provider, error) {
	own, err := fs.Sub(files, dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, own, goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
}
