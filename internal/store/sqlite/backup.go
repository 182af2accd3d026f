package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"sendcode/internal/store"
	"sendcode/migrations"
)

// Backup copies the store at path, as it is at one instant, to an empty file. Another process may
// write the store meanwhile. Backup syncs the copy at intervals, because one sync at the end would
// delay the other process's commits; the caller syncs once more. A panic in Backup ends the
// process, so only commands call it, never the running service.
func Backup(ctx context.Context, path, to string) error {
	db, err := OpenReadOnly(path, time.Now)
	if err != nil {
		return err
	}
	copied, synced := make(chan struct{}), make(chan error, 1)
	go func() { synced <- syncUntil(copied, to) }()
	_, err = db.readers.ExecContext(ctx, `VACUUM INTO ?`, to)
	close(copied)
	return errors.Join(store.WrapUnavailable(withCause(err)), <-synced, db.Close())
}

const backupSyncEvery = 50 * time.Millisecond

// syncUntil syncs the file every backupSyncEvery until end is closed.
func syncUntil(end <-chan struct{}, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	tick := time.NewTicker(backupSyncEvery)
	defer tick.Stop()
	for err == nil {
		select {
		case <-end:
			return f.Close()
		case <-tick.C:
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// QuickCheck returns an error if the file is damaged. PRAGMA quick_check reads the whole file, but
// doesn't check that indexes have an entry for every row.
func (db *DB) QuickCheck(ctx context.Context) error {
	var result string
	if err := db.readers.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err != nil || result == "ok" {
		return err
	}
	return errors.New(result)
}

// CheckSchema fails unless the file has exactly the schema of this program. The error wraps
// store.ErrSchema and says what to do.
func (db *DB) CheckSchema(ctx context.Context) error {
	return migrations.Check(ctx, db.readers, migrations.SQLite, "sqlite")
}

// BytesADay estimates how many bytes the file grew by in the last 24 hours: the sends in them times
// the file's size per send; 0 without sends. It doesn't subtract what retention deletes.
func (db *DB) BytesADay(ctx context.Context) (n float64, err error) {
	err = db.readers.QueryRowContext(ctx, `
SELECT coalesce((SELECT count(*) FROM sends WHERE logged_at > ?) * page_count * page_size * 1.0 / (SELECT count(*) FROM sends), 0)
FROM pragma_page_count(), pragma_page_size()`, db.now().Add(-24*time.Hour).UnixMicro()).Scan(&n)
	return n, err
}

// OpenReadOnly opens an existing file, which another process may write. It neither migrates the
// schema nor compares it with the program's. now is the database's clock.
func OpenReadOnly(path string, now func() time.Time) (*DB, error) {
	pool, err := openPool(path, commonPragmas+"&mode=ro", readerConnections)
	if err != nil {
		return nil, err
	}
	return New(pool, pool, now), nil
}

// OpenToMove opens an existing file to copy its rows to Postgres, even if SetMoved has marked it.
// The caller holds the file's lock. OpenToMove doesn't migrate.
func OpenToMove(path string, now func() time.Time) (*DB, error) {
	pool, err := openPool(path, writerPragmas, 1)
	if err != nil {
		return nil, err
	}
	return New(pool, pool, now), nil
}

// Query is for a store from OpenToMove, which has one connection. The caller must close the rows
// before the next call.
func (db *DB) Query(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	return db.readers.QueryContext(ctx, statement, args...)
}

// SetMoved marks the file as moved to Postgres, or removes the mark. Open fails on a marked file.
// The mark is user_version in the file's header, so copies have it too.
func (db *DB) SetMoved(ctx context.Context, moved bool) error {
	_, err := db.writer.ExecContext(ctx, map[bool]string{false: `PRAGMA user_version = 0`, true: `PRAGMA user_version = 1`}[moved])
	return err
}

// Moved reports whether SetMoved marked the file.
func (db *DB) Moved(ctx context.Context) (moved bool, err error) {
	err = db.readers.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&moved)
	return moved, err
}

// ErrMoved is the error of Open for a marked file.
var ErrMoved = errors.New("sendcode move has moved this file's rows to Postgres, and two services would send its mails twice: " +
	"set SENDCODE_DATABASE_URL; to go on with a file, put back a backup from before (docs/operations.md#to-postgres)")
