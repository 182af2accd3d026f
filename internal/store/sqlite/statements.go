package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"regexp"
	"strings"
	"sync"

	"modernc.org/sqlite"
)

// maxPreparedStatements is for each connection.
const maxPreparedStatements = 256

// OpenPool keeps each connection's statements prepared, since SQLite takes longer to compile a
// statement than to run it.
func OpenPool(dsn string, connections int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(stmtCachingConnector{connector})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// positional has ? for each parameter, and their names in that order. With named parameters, the
// driver would make a string of each name, and search for it, at every run.
type positional struct {
	sql   string
	names []string
}

var (
	parameters = regexp.MustCompile(`'[^']*'|(LIMIT )?@([a-z_0-9]+)`)
	positions  sync.Map // by the text with names; one for each statement of the program
)

// positionalText makes a parameter of LIMIT an expression: SQLite's planner reads the value of a
// bare parameter, and would compile the statement again for each value.
func positionalText(statement string) positional {
	if x, ok := positions.Load(statement); ok {
		return x.(positional)
	}
	x := positional{}
	x.sql = parameters.ReplaceAllStringFunc(statement, func(found string) string {
		if found[0] == '\'' {
			return found
		}
		before, name, _ := strings.Cut(found, "@")
		x.names = append(x.names, name)
		if before != "" {
			return before + "0 + ?"
		}
		return "?"
	})
	positions.Store(statement, x)
	return x
}

type stmtCachingConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c stmtCachingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &stmtCachingConn{sqliteConn: conn.(sqliteConn), idle: map[string]preparedStmt{}}, nil
}

type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	Serialize() ([]byte, error)
	Deserialize(image []byte) error
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// stmtCachingConn keeps statements prepared. database/sql uses a connection from one goroutine at a
// time.
type stmtCachingConn struct {
	sqliteConn
	idle map[string]preparedStmt // prepared statements that don't run now, by text
}

// takeStatement takes an idle statement, or prepares one.
func (c *stmtCachingConn) takeStatement(ctx context.Context, text string) (preparedStmt, error) {
	if stmt, ok := c.idle[text]; ok {
		delete(c.idle, text)
		return stmt, nil
	}
	stmt, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.(preparedStmt), nil
}

// putStatement puts a statement back after its run, closing another one if there are too many.
func (c *stmtCachingConn) putStatement(text string, stmt preparedStmt) error {
	if _, twice := c.idle[text]; twice {
		return stmt.Close()
	}
	if len(c.idle) >= maxPreparedStatements {
		for other, stmt := range c.idle {
			delete(c.idle, other)
			if err := stmt.Close(); err != nil {
				return err
			}
			break
		}
	}
	c.idle[text] = stmt
	return nil
}

// mustRunUnprepared is true for a text that may have several statements, and for a PRAGMA, which
// may take effect when it is prepared.
func mustRunUnprepared(text string) bool {
	return strings.Contains(text, ";") || strings.HasPrefix(text, "PRAGMA")
}

// runPrepared also returns the statement, which the caller passes to putStatement after use. If run
// fails, the statement is closed.
func runPrepared[T any](ctx context.Context, c *stmtCachingConn, text string,
	run func(preparedStmt) (T, error),
) (out T, stmt preparedStmt, err error) {
	if stmt, err = c.takeStatement(ctx, text); err != nil {
		return out, nil, err
	}
	if out, err = run(stmt); err != nil {
		_ = stmt.Close() // returns the same error
	}
	return out, stmt, err
}

// ExecContext implements driver.ExecerContext.
func (c *stmtCachingConn) ExecContext(ctx context.Context, text string,
	args []driver.NamedValue,
) (driver.Result, error) {
	if mustRunUnprepared(text) {
		return c.sqliteConn.ExecContext(ctx, text, args)
	}
	result, stmt, err := runPrepared(ctx, c, text,
		func(s preparedStmt) (driver.Result, error) { return s.ExecContext(ctx, args) })
	if err != nil {
		return nil, err
	}
	return result, c.putStatement(text, stmt)
}

// QueryContext implements driver.QueryerContext.
func (c *stmtCachingConn) QueryContext(ctx context.Context, text string,
	args []driver.NamedValue,
) (driver.Rows, error) {
	if mustRunUnprepared(text) {
		return c.sqliteConn.QueryContext(ctx, text, args)
	}
	rows, stmt, err := runPrepared(ctx, c, text,
		func(s preparedStmt) (driver.Rows, error) { return s.QueryContext(ctx, args) })
	if err != nil {
		return nil, err
	}
	return &stmtCachingRows{Rows: rows, done: func() error { return c.putStatement(text, stmt) }}, nil
}

// Close implements driver.Conn.
func (c *stmtCachingConn) Close() error {
	for _, stmt := range c.idle {
		_ = stmt.Close() // closing the connection closes it in any case
	}
	clear(c.idle)
	return c.sqliteConn.Close()
}

// stmtCachingRows calls done after Close, to keep the statement for the next run.
type stmtCachingRows struct {
	driver.Rows
	done func() error
}

// Close implements driver.Rows.
func (r *stmtCachingRows) Close() error {
	if err := r.Rows.Close(); err != nil {
		return err
	}
	return r.done()
}
