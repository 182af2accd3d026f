// Package sqlite is the store in one file, for one process.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// Migrate brings the schema up to date, as postgres.Migrate does.
func Migrate(ctx context.Context, db *sql.DB) error {
	return sqldb.Migrate(ctx, goose.DialectSQLite3, db, migrations.SQLite, "sqlite")
}

// DB is the log in one file, for one process; the default if no Postgres is configured. One connection writes, one transaction after the
// other, and a commit returns after the data is on the disk (synchronous=FULL). Other connections read meanwhile (WAL). The log's clock
// is that of the program. Safe for concurrent use.
type DB struct {
	sqldb.DB

	writer  *sql.DB
	readers *sql.DB
	now     func() time.Time
}

// Pragmas of each connection. https://www.sqlite.org/pragma.html
const (
	commonPragmas = "_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	writerPragmas = commonPragmas + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_txlock=immediate"
	readerPragmas = commonPragmas + "&_pragma=query_only(1)"
	readers       = 4
)

// Open opens the store in the file at path and migrates its schema. The directory must exist; only the file's owner may read it.
// now is the log's clock.
func Open(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("store: database file: %w", err)
	}
	writer, err := openPool(path, writerPragmas, 1)
	if err != nil {
		return nil, err
	}
	if err := Migrate(ctx, writer); err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	reader, err := openPool(path, readerPragmas, readers)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return New(writer, reader, now), nil
}

// New returns the store on two pools with its schema, which may be the same one. writer has one connection, whose transactions are
// IMMEDIATE. now is the store's clock.
func New(writer, readers *sql.DB, now func() time.Time) *DB {
	s := &DB{writer: writer, readers: readers, now: now}
	s.DB = sqldb.DB{Dialect: sqldb.SQLite, Engine: s, Native: s}
	return s
}

// makePrivate creates the file if it is missing, and lets only its owner read and write it. SQLite gives its -wal and -shm files the
// same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// openPool opens a pool with this many connections to the file at path. It reads nothing yet.
func openPool(path, pragmas string, connections int) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// A URI with the path escaped, so that a "?" in the path does not begin the parameters.
	dsn := (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: pragmas}).String()
	return OpenPool(dsn, connections)
}

// Close implements sqldb.Engine.
func (s *DB) Close() error {
	return errors.Join(s.readers.Close(), s.writer.Close())
}

// Write implements sqldb.Engine. It waits for the one writing connection until ctx ends. A transaction that has begun runs to its end even
// if ctx ends, which takes milliseconds, so that its outcome is known. Now is read after the write lock was taken.
func (s *DB) Write(ctx context.Context, f func(sqldb.Tx) error) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return store.Unavailable(sqliteCause(err))
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil) // IMMEDIATE, by _txlock
	if err != nil {
		return store.Unavailable(sqliteCause(err))
	}
	if err := f(s.tx(ctx, tx)); err != nil {
		return store.Unavailable(sqliteCause(errors.Join(err, tx.Rollback())))
	}
	return commitError(tx.Commit())
}

// commitError wraps the error of a COMMIT in fault.Unavailable, and also in fault.Uncertain unless it surely was not committed.
func commitError(err error) error {
	if err == nil || commitUndone(err) {
		return store.Unavailable(sqliteCause(err))
	}
	return store.Uncertain(sqliteCause(err))
}

// EnsurePartitions implements sqldb.Native. A file needs no partitions.
func (s *DB) EnsurePartitions(context.Context) (until time.Time, err error) { return until, nil }

// CountHours implements sqldb.Native. SQLite stores no counts; the empty transaction only reports whether the store can write.
func (s *DB) CountHours(ctx context.Context, _ time.Duration, _ int) (int, error) {
	return 0, s.Engine.Write(ctx, func(sqldb.Tx) error { return nil })
}

// SendsQuery implements sqldb.Engine.
func (s *DB) SendsQuery(f sqldb.SendFilter) (string, sqldb.Args) { return f.Query(sqldb.SQLite) }

// DropPartition implements sqldb.Engine. A file has no partitions.
func (s *DB) DropPartition(context.Context, time.Duration) (name string, err error) { return "", nil }

// Partitions implements sqldb.Engine.
func (s *DB) Partitions(context.Context) ([]store.Partition, error) { return nil, nil }

// BeforeErase implements sqldb.Engine.
func (s *DB) BeforeErase(sqldb.Tx, recipient.Hash) error { return nil }

// RemoveTraces implements sqldb.Engine. Freed space is overwritten (secure_delete); so this only copies the write-ahead log into the
// database file and empties it, unless a reader still needs it.
func (s *DB) RemoveTraces(ctx context.Context) error {
	_, err := s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return store.Unavailable(sqliteCause(err))
}
