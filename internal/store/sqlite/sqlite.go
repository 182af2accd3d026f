// Package sqlite is the store in one file, for one process, or, for tests, in memory.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// migrate brings the schema up to date, as postgres.Migrate does.
func migrate(ctx context.Context, db *sql.DB) error {
	return sqldb.Migrate(ctx, goose.DialectSQLite3, db, migrations.SQLite, "sqlite")
}

// DB is the log in one file, for one process; the default if no Postgres is configured. One connection writes, one transaction after the
// other, and a commit returns after the data is on the disk (synchronous=FULL). Other connections read meanwhile (WAL). The log's clock
// is that of the program. Safe for concurrent use.
type DB struct {
	sqldb.DB

	writer  *sql.DB
	readers readPool
	now     func() time.Time
	hook    atomic.Pointer[Hook]
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
		return nil, fmt.Errorf("store: log file: %w", err)
	}
	writer, err := openPool(path, writerPragmas, 1)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, writer); err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	reader, err := openPool(path, readerPragmas, readers)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return newDB(writer, reader, now), nil
}

func newDB(writer, reader *sql.DB, now func() time.Time) *DB {
	s := &DB{writer: writer, now: now}
	s.DB = sqldb.DB{Dialect: sqldb.SQLite, Engine: s, Native: s}
	s.readers = readPool{DB: reader, fault: s.fault}
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
	db, err := newPreparingPool(dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Close implements sqldb.Engine.
func (s *DB) Close() error {
	return errors.Join(s.readers.Close(), s.writer.Close())
}

// Write implements sqldb.Engine. It waits for the one writing connection until ctx ends. A transaction that has begun runs to its end even if ctx
// ends, which takes milliseconds, so that its outcome is known. Now is read after the write lock was taken.
func (s *DB) Write(ctx context.Context, f func(sqldb.Tx) error) error {
	fault := s.fault(ctx, Asking)
	if err := nothingDone[fault]; err != nil {
		return err
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return store.Unavailable(sqliteCause(err))
	}
	defer conn.Close()
	asking := ctx
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil) // IMMEDIATE, by _txlock
	if err != nil {
		return store.Unavailable(sqliteCause(err))
	}
	if err := f(s.tx(ctx, tx)); err != nil {
		return store.Unavailable(sqliteCause(errors.Join(err, tx.Rollback())))
	}
	late := s.fault(asking, Committing)
	if err := nothingDone[late]; err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := commitError(tx.Commit()); err != nil || fault != Lost && late != Lost {
		return err
	}
	return errLost
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
	return 0, s.Write(ctx, func(sqldb.Tx) error { return nil })
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
