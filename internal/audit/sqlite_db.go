package audit

import (
	"context"
	"database/sql"
	"time"
)

// sqliteWords are those of SQLite. Its clock is a parameter.
var sqliteWords = dialect{
	words: map[string]string{
		"true": "1", "false": "0", "skip locked": "", "lock": "", "among": "IN (", "end": ")",
		"of event": "LEFT JOIN sends s ON s.id = e.send_id LEFT JOIN verifications v ON v.id = e.verification_id",
	},
	failures: "failures f CROSS JOIN sends s ON s.id = f.id",
	at:       func(t time.Time) any { return µs(t) },
	since:    func(string, time.Duration) string { return "1 = 1" }, // there are no partitions

}

// liteConn runs statements in a transaction or on a reader.
type liteConn struct {
	ctx context.Context
	q   interface {
		ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	}
}

func (c liteConn) run(statement string, args []any, each func(scan) error) (n int64, err error) {
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

// reading implements engine.
func (s *SQLite) reading(ctx context.Context, f func(conn, time.Time) error) error {
	return unavailable(sqliteCause(f(liteConn{ctx, s.readers}, micro(s.now()))))
}

// writing implements engine.
func (s *SQLite) writing(ctx context.Context, f func(conn, time.Time) error) error {
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error { return f(liteConn{ctx, tx}, now) })
}

// running implements engine.
func (s *SQLite) running(ctx context.Context, steps []*step) error {
	return s.DB.write(ctx, func(q Tx) (err error) {
		for _, x := range steps {
			if x.changed, err = q.run(x.statement, x.args, x.each); err != nil {
				return err
			}
		}
		return nil
	})
}

// sqliteTx is a Tx in a transaction of the writer.
func sqliteTx(ctx context.Context, tx *sql.Tx, now time.Time) Tx {
	return Tx{conn: liteConn{ctx, tx}, dialect: &sqliteWords, now: now}
}

func sqliteRejected(ctx context.Context, tx *sql.Tx, s Send, now time.Time, within time.Duration) ([]rejection, error) {
	args := rejectedArgs(s.App, s.Channel, s.Recipient)
	args["after"] = now.Add(-within.Truncate(time.Microsecond))
	return all(sqliteTx(ctx, tx, now), rejectionFields, rejectedSQL, args)
}

func sqliteLockedOut(ctx context.Context, tx *sql.Tx, v Verification, now time.Time) (Lockout, error) {
	return sqliteTx(ctx, tx, now).lockedOut(v, now)
}
