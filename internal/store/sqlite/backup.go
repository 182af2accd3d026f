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

// Backup copies the store in the file at path. The parameter to is the path of the copy, an empty
// file. The copy shows the store at one instant. Backup only reads the store, and another process
// may write the store at the same time. Backup syncs the copy at intervals, because one sync at the
// end would delay the commits of the other process. The caller must sync the copy once more after
// Backup. A panic in Backup ends the process, so only commands call Backup, never the running
// service.
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

// backupSyncEvery is the time between two syncs of a copy that is being written.
const backupSyncEvery = 50 * time.Millisecond

// syncUntil syncs the file at path every backupSyncEvery until end is closed.
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

// QuickCheck returns an error if the file is damaged. It runs PRAGMA quick_check, which reads the
// whole file but does not check that indexes have an entry for every row.
func (db *DB) QuickCheck(ctx context.Context) error {
	var said string
	if err := db.readers.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said); err != nil || said == "ok" {
		return err
	}
	return errors.New(said)
}

// CheckSchema returns an error unless the file has exactly the schema of this program. The error
// wraps store.ErrSchema and says what to do.
func (db *DB) CheckSchema(ctx context.Context) error {
	return migrations.Check(ctx, db.readers, migrations.SQLite, "sqlite")
}

// BytesADay estimates by how many bytes the file grew in the last 24 hours. It multiplies the
// number of sends in these hours by the file's size per send. If there are no sends, it returns 0.
// It does not subtract the rows that retention deletes.
func (db *DB) BytesADay(ctx context.Context) (n float64, err error) {
	err = db.readers.QueryRowContext(ctx, `
SELECT coalesce((SELECT count(*) FROM sends WHERE logged_at > ?) * page_count * page_size * 1.0 / (SELECT count(*) FROM sends), 0)
FROM pragma_page_count(), pragma_page_size()`, db.now().Add(-24*time.Hour).UnixMicro()).Scan(&n)
	return n, err
}

// OpenReadOnly opens the store in an existing file only for reading. Another process may write the
// file at the same time. OpenReadOnly neither migrates the schema nor compares it with the
// program's schema. The function now is the database's clock.
func OpenReadOnly(path string, now func() time.Time) (*DB, error) {
	pool, err := openPool(path, commonPragmas+"&mode=ro", readerConnections)
	if err != nil {
		return nil, err
	}
	return New(pool, pool, now), nil
}

// OpenToMove opens the store in an existing file, to copy its rows to Postgres. The caller must
// hold the file's lock. Like OpenReadOnly it does not migrate. It also opens a file that SetMoved
// has marked.
func OpenToMove(path string, now func() time.Time) (*DB, error) {
	pool, err := openPool(path, writerPragmas, 1)
	if err != nil {
		return nil, err
	}
	return New(pool, pool, now), nil
}

// Query runs a query. On a store from OpenToMove, which has one connection, the next call waits
// until the rows are closed.
func (db *DB) Query(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	return db.readers.QueryContext(ctx, statement, args...)
}

// SetMoved marks the file as moved to Postgres, or removes the mark. Open fails on a marked file.
// The mark is in user_version of the file's header, so copies of the file have the mark, too.
func (db *DB) SetMoved(ctx context.Context, moved bool) error {
	_, err := db.writer.ExecContext(ctx, map[bool]string{false: `PRAGMA user_version = 0`, true: `PRAGMA user_version = 1`}[moved])
	return err
}

// Moved reports whether the file is marked by SetMoved.
func (db *DB) Moved(ctx context.Context) (moved bool, err error) {
	err = db.readers.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&moved)
	return moved, err
}

// ErrMoved is the error of Open for a file that SetMoved has marked.
var ErrMoved = errors.New("sendcode move has moved this file's rows to Postgres, and two services would send its mails twice: " +
	"set SENDCODE_DATABASE_URL; to go on with a file, put back a backup from before (docs/operations.md#to-postgres)")
