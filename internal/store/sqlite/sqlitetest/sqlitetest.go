// Package sqlitetest has a store in memory, whose calls a test can make fail.
package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
)

type DB struct {
	*sqlite.DB
	pool *sql.DB
	now  func() time.Time
	hook atomic.Pointer[hook]
}

// Open opens an empty store, on the clock now, until the test ends. In a synctest bubble, pass the
// bubble's t.
func Open(t testing.TB, now func() time.Time) *DB {
	t.Helper()
	db, err := New(now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// New is Open for programs that aren't tests, which must close the DB. It is a real SQLite with the
// schema, statements and transactions of a file. But one connection writes and reads, so a read
// under way blocks every other call. After Close, none of its goroutines runs.
func New(now func() time.Time) (*DB, error) {
	image, err := emptySchema()
	if err != nil {
		return nil, err
	}
	pool, err := openMemory()
	if err != nil {
		return nil, err
	}
	if err := onConnection(pool, func(c serializer) error { return c.Deserialize(image) }); err != nil {
		return nil, errors.Join(fmt.Errorf("a database in memory: %w", err), pool.Close())
	}
	return withFaults(pool, now), nil
}

func withFaults(pool *sql.DB, now func() time.Time) *DB {
	d := &DB{DB: sqlite.New(pool, pool, now), pool: pool, now: now}
	d.Engine = engine{d.DB, d}
	return d
}

// Replica is another process's view: a second DB on the same connection, with a hook of its own.
// Closing either closes the connection of both.
func (d *DB) Replica() *DB { return withFaults(d.pool, d.now) }

// memoryPragmas let a rollback work as in a file, and sync nothing.
const memoryPragmas = "_pragma=foreign_keys(1)&_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_txlock=immediate"

// openMemory opens a database over one connection, since a second connection would open another
// database.
func openMemory() (*sql.DB, error) { return sqlite.OpenPool("file::memory:?"+memoryPragmas, 1) }

// emptySchema is migrated once in a process; New copies the image.
var emptySchema = sync.OnceValues(func() (image []byte, err error) {
	pool, err := openMemory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := sqlite.Migrate(context.Background(), pool); err != nil {
		return nil, err
	}
	return serialize(pool)
})

// Image returns the bytes that the database would have as a file, so that tests can search them for
// erased data.
func (d *DB) Image() ([]byte, error) { return serialize(d.pool) }

// SetBack removes sends and verifications from an instant on, as a failover to a lagging standby
// does, or a restored backup.
func (d *DB) SetBack(to time.Time) (err error) {
	for _, statement := range []string{
		`DELETE FROM outbox WHERE id IN (SELECT id FROM sends WHERE logged_at >= ?)`,
		`DELETE FROM failures WHERE logged_at >= ?`,
		`DELETE FROM sends WHERE logged_at >= ?`, `DELETE FROM verifications WHERE created_at >= ?`,
	} {
		_, failed := d.pool.ExecContext(context.Background(), statement, to.UnixMicro())
		err = errors.Join(err, failed)
	}
	return err
}

func serialize(pool *sql.DB) (image []byte, err error) {
	err = onConnection(pool, func(c serializer) error {
		image, err = c.Serialize()
		return err
	})
	return image, err
}

// serializer has the methods of the driver's connection that database/sql does not offer.
type serializer interface {
	Serialize() ([]byte, error)
	Deserialize(image []byte) error
}

func onConnection(pool *sql.DB, do func(serializer) error) error {
	conn, err := pool.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return do(c.(serializer)) })
}
