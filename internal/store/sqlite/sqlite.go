// Package sqlite is the store in one SQLite file, for one process: the connections, and the
// statements that differ from those of Postgres.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// Migrate returns the errors of migrations.Migrate.
func Migrate(ctx context.Context, db *sql.DB) error {
	return migrations.Migrate(ctx, goose.DialectSQLite3, db, migrations.SQLite, "sqlite")
}

// DB is the database in one file, for one process, and the default without Postgres. One connection
// writes, one transaction after the other, which waiting writes share (see Write). A commit returns
// once the data is on the disk (synchronous=FULL). Other connections read meanwhile (WAL). The
// database's clock is the program's. Safe for concurrent use.
type DB struct {
	sqldb.DB

	writer  *sql.DB
	readers *sql.DB
	now     func() time.Time
	writes  *batch.Batcher[write, struct{}]
	written atomic.Int64 // writes so far; each write's number is its key in the batcher, so that no two share a key

	countDeletions int // how often counts of hours were forgotten; only used in writing transactions
}

// These are pragmas of each connection (https://www.sqlite.org/pragma.html). With temp_store=MEMORY
// the undo data of the writer's savepoints is in memory; it is small, as it has only one write's
// pages.
const (
	commonPragmas = "_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	writerPragmas = commonPragmas +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=temp_store(MEMORY)&_txlock=immediate"
	readerPragmas     = commonPragmas + "&_pragma=query_only(1)"
	readerConnections = 4
)

// Open migrates the schema. The directory must exist. Only the file's owner gets access. now is the
// database's clock. Error: ErrMoved if SetMoved has marked the file.
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
	reader, err := openPool(path, readerPragmas, readerConnections)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	s := New(writer, reader, now)
	moved, err := s.Moved(ctx)
	if moved {
		err = ErrMoved
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New uses two pools of connections to one file with the schema, or the same pool twice. writer
// must have one connection and IMMEDIATE transactions. now is the database's clock.
func New(writer, readers *sql.DB, now func() time.Time) *DB {
	s := &DB{writer: writer, readers: readers, now: now}
	s.DB = sqldb.DB{Dialect: sqldb.SQLite, Engine: s, PerDatabase: s}
	s.writes = batch.New(1, s.writeInOrder)
	s.writes.Precedence = func(x write) int { return int(min(x.precedence, sqldb.InOrder)) } // a write with Behind must not wait for ever
	// a write that has begun uses the caller's variables, so the caller waits for its end, which
	// takes milliseconds
	s.writes.WaitsOnceBegun = true
	return s
}

// makePrivate creates the file if it is missing, and lets only its owner read and write it, and the
// -wal and -shm files, to which SQLite gives the same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// openPool doesn't access the file yet.
func openPool(path, pragmas string, connections int) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// escaped, so that a "?" in the path doesn't begin the URI's parameters
	dsn := (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: pragmas}).String()
	return OpenPool(dsn, connections)
}

// Close implements sqldb.Engine. It waits until all queued writes have their answers.
func (db *DB) Close() error {
	db.writes.Close()
	return errors.Join(db.readers.Close(), db.writer.Close())
}

// Write implements sqldb.Engine. If ctx ends before the batch with f has begun, f doesn't run.
// After that, f runs to its end, which takes milliseconds. A batch of waiting writes runs in up to
// three transactions: those with sqldb.Ahead, then InOrder, then Behind, each in the order of
// arrival. A write sees the rows of those before it, and its Tx.Now is when it begins. If f fails,
// only its changes are undone.
func (db *DB) Write(ctx context.Context, _ string, precedence sqldb.Precedence, f func(sqldb.Tx) error) error {
	_, err := db.writes.Submit(ctx, write{f, precedence}, db.written.Add(1))
	return err
}

type write struct {
	run        func(sqldb.Tx) error
	precedence sqldb.Precedence
}

type queuedWrite = batch.Call[write, struct{}]

// writeInOrder runs the writes of each precedence in a transaction, so that an attempt's outcome
// (sqldb.Ahead) doesn't wait for new sends, and no send waits for a write with sqldb.Behind.
func (db *DB) writeInOrder(writes []*queuedWrite) {
	byPrecedence := map[sqldb.Precedence][]*queuedWrite{}
	for _, x := range writes {
		byPrecedence[x.In.precedence] = append(byPrecedence[x.In.precedence], x)
	}
	for _, precedence := range slices.Sorted(maps.Keys(byPrecedence)) {
		db.writeBatch(byPrecedence[precedence])
	}
}

// writeBatch gives every write an answer or an error.
func (db *DB) writeBatch(writes []*queuedWrite) {
	failures, err := db.writeInTransaction(writes)
	for i, x := range writes {
		if failures[i] != nil {
			x.SetAnswer(struct{}{}, store.WrapUnavailable(withCause(failures[i])))
		} else {
			x.SetAnswer(struct{}{}, err)
		}
	}
}

// writeInTransaction runs the writes in one transaction. It returns the errors of writes that
// failed by themselves, and err for all others.
func (db *DB) writeInTransaction(writes []*queuedWrite) (failures []error, err error) {
	ctx := context.Background()
	failures = make([]error, len(writes))
	conn, err := db.writer.Conn(ctx)
	if err != nil {
		return failures, store.WrapUnavailable(withCause(err))
	}
	defer func() { _ = conn.Close() }()
	tx, err := conn.BeginTx(ctx, nil) // IMMEDIATE, by _txlock
	if err != nil {
		return failures, store.WrapUnavailable(withCause(err))
	}
	defer func() { _ = tx.Rollback() }() // after a panic; otherwise the transaction has ended
	// The writes use conn, because database/sql would start a goroutine for each query on tx.
	if len(writes) == 1 {
		failures[0] = writes[0].In.apply(db.tx(ctx, conn))
		if failures[0] != nil {
			failures[0] = errors.Join(failures[0], tx.Rollback())
			return failures, nil
		}
		return failures, commit(tx)
	}
	for i, x := range writes {
		if failures[i], err = db.writeShared(ctx, conn, x.In.apply); err != nil {
			return failures, store.WrapUnavailable(withCause(errors.Join(err, tx.Rollback())))
		}
	}
	return failures, commit(tx)
}

// apply turns a panic into the write's error, so that the transaction's other writes are committed.
func (w write) apply(q sqldb.Tx) (err error) {
	defer panics.Recover(panics.Batch, func() { err = panics.Err })
	return w.run(q)
}

// writeShared runs a write in a transaction with others. If only this write fails, writeShared
// undoes it and returns failure. With err the whole transaction is lost: SQLite rolls it back if
// the disk is full or fails.
func (db *DB) writeShared(ctx context.Context, conn *sql.Conn, f func(sqldb.Tx) error) (failure, err error) {
	q := db.tx(ctx, conn)
	if err := q.ExecAll(nil, "SAVEPOINT one"); err != nil {
		return nil, err
	}
	failure = f(q)
	if failure == nil {
		return nil, q.ExecAll(nil, "RELEASE one")
	}
	if err := q.ExecAll(nil, "ROLLBACK TO one", "RELEASE one"); err != nil {
		return failure, errors.Join(failure, err)
	}
	return failure, nil
}

// commit returns an error that wraps fault.Unavailable and, if the transaction may be committed,
// fault.Uncertain.
func commit(tx *sql.Tx) (err error) {
	defer panics.Recover(panics.Batch, func() { err = store.WrapUncertain(panics.Err) })
	err = tx.Commit()
	if err == nil || commitUndone(err) {
		return store.WrapUnavailable(withCause(err))
	}
	return store.WrapUncertain(withCause(err))
}

// EnsurePartitions implements sqldb.PerDatabase. A file needs no partitions.
func (db *DB) EnsurePartitions(context.Context) (until time.Time, err error) { return until, nil }

// DropPartition implements sqldb.Engine. A file has no partitions.
func (db *DB) DropPartition(context.Context, time.Duration) (name string, err error) { return "", nil }

// Pools implements sqldb.Engine.
func (db *DB) Pools() (all []store.PoolStats) {
	for name, pool := range map[string]*sql.DB{"sqlite_writer": db.writer, "sqlite_readers": db.readers} {
		p := pool.Stats()
		all = append(all, store.PoolStats{Name: name, InUse: p.InUse, Idle: p.Idle, Waits: p.WaitCount})
	}
	return all
}

// PurgeDeleted implements sqldb.Engine. SQLite overwrites freed space (secure_delete), so only the
// write-ahead log is left: it is copied into the database file and emptied. If a reader, such as a
// backup, still needs the log, PurgeDeleted waits up to 50 ms, while no other write runs, and
// leaves it to a later call.
func (db *DB) PurgeDeleted(ctx context.Context) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	conn, err := db.writer.Conn(ctx)
	if err != nil {
		return store.WrapUnavailable(withCause(err))
	}
	for _, pragma := range []string{`busy_timeout = 50`, `wal_checkpoint(TRUNCATE)`, `busy_timeout = 5000`} { // the last is the setting of commonPragmas
		_, failed := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA `+pragma)
		err = errors.Join(err, failed)
	}
	return store.WrapUnavailable(withCause(errors.Join(err, conn.Close())))
}
