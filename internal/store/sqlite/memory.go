package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// memoryPragmas are the pragmas of a database in memory. A rollback works as in a file, and nothing is synced.
const memoryPragmas = "_pragma=foreign_keys(1)&_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_txlock=immediate"

// OpenMemory opens an empty store in memory, for tests: a real SQLite with the same schema, statements and transactions, but one
// connection for writing and reading. So a read that is under way, as in CountedSends while yield runs, blocks every other call. It
// starts nothing that outlives Close, so it can be used in a bubble of testing/synctest.
func OpenMemory(now func() time.Time) (*DB, error) {
	image, err := emptySchema()
	if err != nil {
		return nil, err
	}
	db, err := memoryDB()
	if err != nil {
		return nil, err
	}
	err = onConnection(db, func(c serializer) error { return c.Deserialize(image) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: log in memory: %w", err), db.Close())
	}
	return newDB(db, db, now), nil
}

// memoryDB opens an in-memory database over one connection; each connection would be a database of its own.
func memoryDB() (*sql.DB, error) {
	db, err := newPreparingPool("file::memory:?" + memoryPragmas)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // the connection is the database
	db.SetMaxIdleConns(1)
	return db, nil
}

// emptySchema returns the image of an empty, migrated database. The migrations run once in a process; OpenMemory copies the image.
var emptySchema = sync.OnceValues(func() (image []byte, err error) {
	db, err := memoryDB()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := migrate(context.Background(), db); err != nil {
		return nil, err
	}
	err = onConnection(db, func(c serializer) error {
		image, err = c.Serialize()
		return err
	})
	return image, err
})

// Image returns the whole database as the bytes of a file, so that tests can search it for erased data.
func (s *DB) Image() (image []byte, err error) {
	err = onConnection(s.writer, func(c serializer) error {
		image, err = c.Serialize()
		return err
	})
	return image, err
}

// serializer has the methods of the driver's connection that database/sql does not have.
type serializer interface {
	Serialize() ([]byte, error)
	Deserialize(image []byte) error
}

func onConnection(db *sql.DB, do func(serializer) error) error {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return do(c.(serializer)) })
}
