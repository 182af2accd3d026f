package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/sqldb"
)

// statementConn runs statements in a transaction or on a reader.
type statementConn struct {
	ctx context.Context
	now time.Time
	q   querier
}

type querier interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// tx returns a Tx on a transaction or a reader, at the present time.
func (s *DB) tx(ctx context.Context, q querier) sqldb.Tx {
	now := store.TruncateToMicroseconds(s.now())
	return sqldb.Tx{Conn: statementConn{ctx, now, q}, Dialect: sqldb.SQLite, Now: now}
}

// Run implements sqldb.Conn.
func (c statementConn) Run(statement string, params sqldb.Args, each func(sqldb.Scan) error) (n int64, err error) {
	args := toDriverArgs(params, c.now)
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

// toDriverArgs converts parameters to those of the driver: instants and durations to numbers of µs,
// lists to JSON. It adds now as @now.
func toDriverArgs(params sqldb.Args, now time.Time) []any {
	args := append(make([]any, 0, len(params)+1), sql.Named("now", now.UnixMicro()))
	for name, v := range params {
		switch x := v.(type) {
		case time.Time:
			v = x.UnixMicro()
		case time.Duration:
			v = x.Microseconds()
		case recipient.Hash:
			v = x[:]
		case [32]byte:
			v = x[:]
		case []string:
			v = jsonList(x, func(s string) string { return s })
		case []uuid.UUID:
			v = jsonList(x, uuid.UUID.String)
		case []recipient.Hash:
			v = jsonList(x, func(h recipient.Hash) string { return hex.EncodeToString(h[:]) })
		}
		args = append(args, sql.Named(name, v))
	}
	return args
}

func jsonList[T any](list []T, text func(T) string) string {
	b, _ := json.Marshal(columns.MapSlice(list, text)) // strings can always be marshaled
	return string(b)
}

// Read implements sqldb.Engine: f runs outside of a transaction, so two of its statements may see
// different states.
func (s *DB) Read(ctx context.Context, _ string, f func(sqldb.Tx) error) error {
	ctx, cancel := store.Bounded(ctx)
	defer cancel()
	return store.WrapUnavailable(withCause(f(s.tx(ctx, s.readers))))
}

// ReadShared implements sqldb.Engine.
func (s *DB) ReadShared(ctx context.Context, name string, x *sqldb.Statement) error {
	return s.Engine.Read(ctx, name, func(q sqldb.Tx) error {
		_, err := q.Run(x.SQL, x.Args, x.Each)
		return err
	})
}

// Run implements sqldb.Engine.
func (s *DB) Run(ctx context.Context, name string, turn sqldb.Turn, steps ...*sqldb.Statement) error {
	return s.Engine.Write(ctx, name, turn, func(q sqldb.Tx) (err error) {
		for _, x := range steps {
			if x.RowsAffected, err = q.Run(x.SQL, x.Args, x.Each); err != nil {
				return err
			}
		}
		return nil
	})
}
