package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

type pgConn struct {
	ctx    context.Context // the context of the statements
	caller context.Context // the caller's context; after its end no further statement begins
	*pgxpool.Conn
	clockSQL string
}

// Run implements sqldb.Conn.
func (c pgConn) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	if err := c.caller.Err(); err != nil {
		return 0, err
	}
	rows, _ := c.Query(c.ctx, replaceNow(statement, c.clockSQL, args), toNamedArgs(args)) // rows reports the error
	return drainRows(rows, each)
}

// replaceNow replaces @now by clockSQL, which is SQL for the current time, unless args has a
// value for @now.
func replaceNow(statement, clockSQL string, args sqldb.Args) string {
	if _, given := args["now"]; given {
		return statement
	}
	return strings.ReplaceAll(statement, "@now", clockSQL)
}

func toNamedArgs(args sqldb.Args) pgx.NamedArgs {
	values := make(pgx.NamedArgs, len(args))
	for name, v := range args {
		switch x := v.(type) {
		case recipient.Hash:
			v = x[:]
		case [32]byte:
			v = x[:]
		case []uuid.UUID:
			v = sqlgen.MapSlice(x, func(id uuid.UUID) [16]byte { return id })
		case []recipient.Hash:
			v = sqlgen.MapSlice(x, func(h recipient.Hash) []byte { return h[:] })
		}
		values[name] = v
	}
	return values
}

// drainRows reads and closes rows, calls each (if not nil) for every row, up to its first error,
// and returns how many rows were changed or returned.
func drainRows(rows pgx.Rows, each func(sqldb.Scan) error) (int64, error) {
	defer rows.Close()
	for each != nil && rows.Next() {
		if err := each(rows.Scan); err != nil {
			return 0, err
		}
	}
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// Read implements sqldb.Engine.
func (db *DB) Read(ctx context.Context, _ string, f func(sqldb.Tx) error) error {
	return db.readOnPool(ctx,
		func(own context.Context, c *pgxpool.Conn) error {
			return f(sqldb.Tx{Conn: pgConn{own, ctx, c, db.clockSQL}})
		})
}

// Write implements sqldb.Engine. BEGIN and the query of the clock share a round trip.
func (db *DB) Write(ctx context.Context, _ string, _ sqldb.Precedence, f func(sqldb.Tx) error) error {
	return db.changeOnPool(ctx, func(own context.Context, c *pgxpool.Conn) error {
		now, err := db.beginTransaction(own, c)
		if err != nil {
			return err
		}
		if err := f(sqldb.Tx{Conn: pgConn{own, ctx, c, db.clockSQL}, Now: now}); err != nil {
			_, _ = c.Exec(own, "ROLLBACK")
			return err
		}
		tag, err := c.Exec(own, commitSQL)
		return errors.Join(commitError(err), errorUnlessCommitted(err, tag))
	})
}

// beginTransaction also reads the database's clock, in the same round trip.
func (db *DB) beginTransaction(ctx context.Context, c *pgxpool.Conn) (now time.Time, err error) {
	var b pgx.Batch
	b.Queue(beginTransactionSQL)
	b.Queue("SELECT " + db.clockSQL)
	results := c.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return now, err
	}
	return now, results.QueryRow().Scan(sqlgen.ScannerFor(&now))
}

// Run implements sqldb.Engine, in one round trip.
func (db *DB) Run(ctx context.Context, _ string, _ sqldb.Precedence, steps ...*sqldb.Statement) error {
	return db.changeOnPool(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var b pgx.Batch
		b.Queue(beginTransactionSQL)
		for _, s := range steps {
			b.Queue(replaceNow(s.SQL, db.clockSQL, s.Args), toNamedArgs(s.Args))
		}
		b.Queue(commitSQL)
		results := c.SendBatch(ctx, &b)
		defer results.Close()
		if _, err := results.Exec(); err != nil {
			return err
		}
		for _, s := range steps {
			if err := readStepResult(s, results); err != nil {
				return err
			}
		}
		tag, err := results.Exec()
		return errors.Join(commitError(err), errorUnlessCommitted(err, tag))
	})
}

// readStepResult sets s.RowsAffected.
func readStepResult(s *sqldb.Statement, results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	s.RowsAffected, err = drainRows(rows, s.Each)
	return err
}

// errorUnlessCommitted is needed because a server may answer a COMMIT without an error but with
// another tag, such as ROLLBACK.
func errorUnlessCommitted(err error, tag pgconn.CommandTag) error {
	if err == nil && tag.String() != "COMMIT" {
		return errors.New("store: a transaction was not committed")
	}
	return nil
}

// Clock returns the database's time.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	return sqldb.ReadWithResult(ctx, &db.DB, "Clock", sqldb.Tx.Clock)
}
