package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

type statementConn struct {
	ctx context.Context
	now time.Time
	q   querier
}

type querier interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// tx returns a Tx for the transaction q or, if q is a pool, for statements that each run on their
// own. Its Now is the present.
func (db *DB) tx(ctx context.Context, q querier) sqldb.Tx {
	now := store.TruncateToMicroseconds(db.now())
	return sqldb.Tx{Conn: statementConn{ctx, now, q}, Dialect: sqldb.SQLite, Now: now}
}

// Run implements sqldb.Conn.
func (c statementConn) Run(statement string, params sqldb.Args, each func(sqldb.Scan) error) (n int64, err error) {
	text := positionalText(statement)
	args, err := toDriverArgs(text.names, params, c.now)
	if err != nil {
		return 0, err
	}
	if each == nil {
		result, err := c.q.ExecContext(c.ctx, text.sql, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
	rows, err := c.q.QueryContext(c.ctx, text.sql, args...)
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

// toDriverArgs converts parameters for the driver, in the order of names: instants and durations to
// µs, lists to JSON. It fails if a parameter is missing.
func toDriverArgs(names []string, params sqldb.Args, now time.Time) ([]any, error) {
	args := make([]any, len(names))
	for i, name := range names {
		v, found := params[name]
		if name == "now" {
			v, found = now, true
		}
		if !found {
			return nil, fmt.Errorf("parameter @%s is missing", name)
		}
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
		args[i] = v
	}
	return args, nil
}

func jsonList[T any](list []T, text func(T) string) string {
	b, _ := json.Marshal(sqlgen.MapSlice(list, text)) // strings can always be marshaled
	return string(b)
}

// pointReads are reads for which a send, a check, a status request or a page of the console waits.
// They find few rows through an index, in microseconds.
var pointReads = map[string]bool{
	"Begin": true, "ReadHistory": true, "Verification": true, "VerificationsByID": true,
	"VerificationToCheck": true, "CarrierHold": true, "Lockout": true, "PrefixPaused": true, "Session": true,
}

// Read implements sqldb.Engine. Without a transaction, two statements of f may see different
// states. In pointReads, ctx ends only the wait for a connection: for a statement that ctx could
// end, the driver and database/sql would each start a goroutine.
func (db *DB) Read(ctx context.Context, name string, f func(sqldb.Tx) error) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	// If reads and writes share the only connection, f doesn't keep it between statements, because
	// writes need it too.
	if !pointReads[name] || db.readers == db.writer {
		return store.WrapUnavailable(withCause(f(db.tx(ctx, db.readers))))
	}
	conn, err := db.readers.Conn(ctx)
	if err == nil {
		err = errors.Join(f(db.tx(context.WithoutCancel(ctx), conn)), conn.Close())
	}
	return store.WrapUnavailable(withCause(err))
}

// ReadShared implements sqldb.Engine.
func (db *DB) ReadShared(ctx context.Context, name string, x *sqldb.Statement) error {
	return db.Engine.Read(ctx, name, func(q sqldb.Tx) error {
		_, err := q.Run(x.SQL, x.Args, x.Each)
		return err
	})
}

// Run implements sqldb.Engine.
func (db *DB) Run(ctx context.Context, name string, precedence sqldb.Precedence, steps ...*sqldb.Statement) error {
	return db.Engine.Write(ctx, name, precedence, func(q sqldb.Tx) (err error) {
		for _, x := range steps {
			if x.RowsAffected, err = q.Run(x.SQL, x.Args, x.Each); err != nil {
				return err
			}
		}
		return nil
	})
}
