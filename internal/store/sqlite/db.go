package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
)

// words are those of SQLite. Its clock is a parameter.
var words = sqldb.Dialect{
	Words: map[string]string{
		"true": "1", "false": "0", "skip locked": "", "lock": "", "among": "IN (", "end": ")",
		"of event": "LEFT JOIN sends s ON s.id = e.send_id LEFT JOIN verifications v ON v.id = e.verification_id",
	},
	Stretch: func(column string, q store.StatsQuery) string {
		return fmt.Sprintf("(%s + %d) / %d", column, q.Offset.Microseconds(), q.Each.Microseconds())
	},
	Span:     "s.finished_at - s.logged_at",
	Failures: "failures f CROSS JOIN sends s ON s.id = f.id",
	At:       func(t time.Time) any { return sqldb.Micros(t) },
	Since:    func(string, time.Duration) string { return "1 = 1" }, // there are no partitions

}

// liteConn runs statements in a transaction or on a reader.
type liteConn struct {
	ctx context.Context
	q   interface {
		ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	}
}

// Run implements sqldb.Conn.
func (c liteConn) Run(statement string, args []any, each func(sqldb.Scan) error) (n int64, err error) {
	if each == nil {
		result, err := c.q.ExecContext(c.ctx, statement, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
	rows, err := c.q.QueryContext(c.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if err := each(rows.Scan); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

// Reading implements engine.
func (s *DB) Reading(ctx context.Context, f func(sqldb.Conn, time.Time) error) error {
	return store.Unavailable(sqliteCause(f(liteConn{ctx, s.readers}, store.Micro(s.now()))))
}

// Writing implements engine.
func (s *DB) Writing(ctx context.Context, f func(sqldb.Conn, time.Time) error) error {
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error { return f(liteConn{ctx, tx}, now) })
}

// Running implements engine.
func (s *DB) Running(ctx context.Context, steps []*sqldb.Step) error {
	return s.DB.Write(ctx, func(q sqldb.Tx) (err error) {
		for _, x := range steps {
			if x.Changed, err = q.Run(x.Statement, x.Args, x.Each); err != nil {
				return err
			}
		}
		return nil
	})
}

// sqliteTx is a Tx in a transaction of the writer.
func sqliteTx(ctx context.Context, tx *sql.Tx, now time.Time) sqldb.Tx {
	return sqldb.Tx{Conn: liteConn{ctx, tx}, Dialect: &words, Now: now}
}

func sqliteRejected(ctx context.Context, tx *sql.Tx, s store.Send, now time.Time, within time.Duration) ([]gate.Rejection, error) {
	args := sqldb.RejectedArgs(s.App, s.Channel, s.Recipient)
	args["after"] = now.Add(-within.Truncate(time.Microsecond))
	return sqldb.All(sqliteTx(ctx, tx, now), sqldb.RejectionFields, sqldb.RejectedSQL, args)
}

func sqliteLockedOut(ctx context.Context, tx *sql.Tx, v store.Verification, now time.Time) (store.Lockout, error) {
	return sqliteTx(ctx, tx, now).LockedOut(v, now)
}
