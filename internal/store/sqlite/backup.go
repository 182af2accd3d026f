package sqlite

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/store"
)

// Backup copies the store in the file at path to the empty file at to, as it is at one instant. It
// only reads, also while another process writes. It does not wait until the copy is on the disk.
func Backup(ctx context.Context, path, to string) error {
	db, err := OpenBeside(path, time.Now)
	if err != nil {
		return err
	}
	_, err = db.readers.ExecContext(ctx, `VACUUM INTO ?`, to)
	return errors.Join(store.WrapUnavailable(sqliteCause(err)), db.Close())
}

// OpenBeside opens the store in an existing file to read alone, beside a process that may write it.
// It neither migrates nor compares the schema. now is the database's clock.
func OpenBeside(path string, now func() time.Time) (*DB, error) {
	pool, err := openPool(path, commonPragmas+"&mode=ro", readerConnections)
	if err != nil {
		return nil, err
	}
	return New(pool, pool, now), nil
}
