package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// words is the dialect of SQLite. The log's time is a parameter, since its clock is the program's.
var words = sqldb.Dialect{
	Words: map[string]string{
		"true": "1", "false": "0", "skip locked": "", "lock": "", "among": "IN (", "end": ")",
		"of event": "LEFT JOIN sends s ON s.id = e.send_id LEFT JOIN verifications v ON v.id = e.verification_id",
	},
	Stretch: func(column string, offset, each time.Duration) string {
		return fmt.Sprintf("(%s + %d) / %d", column, offset.Microseconds(), each.Microseconds())
	},
	Instant:  func(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) },
	Took:     "s.finished_at - s.logged_at",
	Time:     func(took int64) time.Duration { return time.Duration(took) * time.Microsecond },
	Failures: "failures f CROSS JOIN sends s ON s.id = f.id",
	At:       func(t time.Time) any { return t.UnixMicro() },
	Since:    func(string) string { return "1 = 1" }, // there are no partitions

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

// Read implements sqldb.Engine.
func (s *DB) Read(ctx context.Context, f func(sqldb.Tx) error) error {
	return store.Unavailable(sqliteCause(f(sqldb.Tx{Conn: liteConn{ctx, s.readers}, Dialect: &words, Now: store.Micro(s.now())})))
}

// Run implements sqldb.Engine.
func (s *DB) Run(ctx context.Context, steps ...*sqldb.Step) error {
	return s.Write(ctx, func(q sqldb.Tx) (err error) {
		for _, x := range steps {
			if x.Changed, err = q.Run(x.Statement, x.Args, x.Each); err != nil {
				return err
			}
		}
		return nil
	})
}
