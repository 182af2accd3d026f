package audit

import (
	"context"
	"time"
)

// DB is the part of the store that is the same in both databases. Each statement is written once; a database brings its
// dialect and its ways to run statements. Postgres and SQLite embed it.
type DB struct {
	dialect dialect
	engine  engine
}

// engine runs statements in one database. It maps errors to the store's own.
type engine interface {
	// reading runs f with a connection that only reads. It may run f twice. now is the instant of @now where the dialect has no
	// expression for it.
	reading(ctx context.Context, f func(c conn, now time.Time) error) error
	// writing runs f once, in a READ COMMITTED transaction that begins now, and rolls back if f fails.
	writing(ctx context.Context, f func(c conn, now time.Time) error) error
	// running runs statements in one transaction and, where the database can, in one round trip. It sets their changed.
	running(ctx context.Context, steps []*step) error
}

// conn runs one statement with numbered parameters. each is called for every row; nil: rows are not read.
type conn interface {
	run(statement string, args []any, each func(scan) error) (changed int64, err error)
}

// scan reads the columns of a row.
type scan = func(dest ...any) error

// Tx runs the statements of one read or of one transaction.
type Tx struct {
	conn    conn
	dialect *dialect
	now     time.Time // on the log's clock, when the transaction began; of a read clock tells it
}

// read runs what only reads.
func (db *DB) read(ctx context.Context, f func(q Tx) error) error {
	return db.engine.reading(ctx, func(c conn, now time.Time) error { return f(Tx{c, &db.dialect, now}) })
}

// write runs f in one transaction.
func (db *DB) write(ctx context.Context, f func(q Tx) error) error {
	return db.engine.writing(ctx, func(c conn, now time.Time) error { return f(Tx{c, &db.dialect, now}) })
}

// step is a statement that is known before the one ahead of it has run.
type step struct {
	statement string
	args      Args
	each      func(scan) error // nil: rows are not read
	changed   int64            // rows that it changed or returned
}

// run runs steps in one transaction.
func (db *DB) run(ctx context.Context, steps ...*step) error {
	return db.engine.running(ctx, steps)
}

// one runs a single statement and says whether it changed a row.
func (db *DB) one(ctx context.Context, statement string, args Args) (changed bool, err error) {
	s := step{statement: statement, args: args}
	err = db.run(ctx, &s)
	return s.changed > 0 && err == nil, err
}

// run binds the parameters by their names and runs the statement.
func (q Tx) run(statement string, args Args, each func(scan) error) (int64, error) {
	text, values := q.dialect.bind(statement, args, q.now)
	return q.conn.run(text, values, each)
}

// exec runs a statement whose number of changed rows does not matter.
func (q Tx) exec(statement string, args Args) error {
	_, err := q.run(statement, args, nil)
	return err
}

// change runs a statement and says whether it changed a row.
func (q Tx) change(statement string, args Args) (bool, error) {
	n, err := q.run(statement, args, nil)
	return n > 0, err
}

// lock waits for the lock of that key until the end of the transaction.
func (q Tx) lock(key int64) error {
	if q.dialect.lock == "" {
		return nil
	}
	return q.exec(q.dialect.lock, Args{"key": key})
}

// clock is the log's clock now.
func (q Tx) clock() (now time.Time, err error) {
	if !q.now.IsZero() {
		return q.now, nil
	}
	_, err = q.run(`SELECT @now`, nil, func(read scan) error { return read(timeField{&now}) })
	return now, err
}

// into appends each row to a list.
func into[T any](list *[]T, fields func(*T) []any) func(scan) error {
	return func(read scan) error {
		var x T
		if err := read(fields(&x)...); err != nil {
			return err
		}
		*list = append(*list, x)
		return nil
	}
}

// all reads all rows.
func all[T any](q Tx, fields func(*T) []any, statement string, args Args) (rows []T, err error) {
	if _, err = q.run(statement, args, into(&rows, fields)); err != nil {
		return nil, err
	}
	return rows, nil
}

// single reads the first row, or ErrNotFound.
func single[T any](q Tx, fields func(*T) []any, statement string, args Args) (x T, err error) {
	rows, err := all(q, fields, statement, args)
	if err != nil {
		return x, err
	}
	if len(rows) == 0 {
		return x, ErrNotFound
	}
	return rows[0], nil
}

// readAll is all in a read of its own.
func readAll[T any](ctx context.Context, db *DB, fields func(*T) []any, statement string, args Args) (rows []T, err error) {
	err = db.read(ctx, func(q Tx) error {
		rows, err = all(q, fields, statement, args)
		return err
	})
	return rows, err
}

// readSingle is single in a read of its own.
func readSingle[T any](ctx context.Context, db *DB, fields func(*T) []any, statement string, args Args) (x T, err error) {
	err = db.read(ctx, func(q Tx) error {
		x, err = single(q, fields, statement, args)
		return err
	})
	return x, err
}
