package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// memoryPragmas are those of a database in memory: a rollback works as in the file, and nothing waits for a disk.
const memoryPragmas = "_pragma=foreign_keys(1)&_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_txlock=immediate"

// OpenMemory opens an empty log in memory, for tests. It is a SQLite in all but the file: the same schema, statements
// and transactions, over one connection that writes and reads. A read that is under way (Counting calls yield in it)
// therefore makes every other call wait. Several services that share one log are replicas. What the log starts ends with
// Close, so it works in a bubble of testing/synctest that opens and closes it.
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

func memoryDB() (*sql.DB, error) {
	db, err := sqlitePool("file::memory:?" + memoryPragmas)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // the connection is the database
	db.SetMaxIdleConns(1)
	return db, nil
}

// emptySchema is the image of a migrated database. The migrations run once in a process; a log starts from the image.
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

// Image is the whole database as it would lie in a file, for tests of what must not be in it.
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
