package sqlite

import (
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// onePool returns a database in memory with one connection, and a function that passes the
// connection to look.
func onePool(t *testing.T) (*sql.DB, func(func(*stmtCachingConn))) {
	t.Helper()
	db := storetest.Must(OpenPool("file::memory:", 1))(t)
	t.Cleanup(func() { storetest.OK(t, db.Close()) })
	return db, func(look func(*stmtCachingConn)) {
		conn := storetest.Must(db.Conn(t.Context()))(t)
		defer conn.Close()
		storetest.OK(t, conn.Raw(func(c any) error { look(c.(*stmtCachingConn)); return nil }))
	}
}

// A statement is compiled once, whichever statements run in between. A failed statement and a
// script are not kept.
func TestStatementsAreCompiledOnce(t *testing.T) {
	db, conn := onePool(t)
	storetest.Must(db.Exec(`CREATE TABLE t (n INTEGER PRIMARY KEY); CREATE TABLE u (n INTEGER)`))(t)
	for n := range 3 {
		storetest.Must(db.Exec(`INSERT INTO t (n) VALUES ($1)`, n))(t)
	}
	if _, err := db.Exec(`INSERT INTO t (n) VALUES ($1)`, 1); err == nil {
		t.Fatal("a key was added twice")
	}
	for range 2 {
		var n int
		storetest.OK(t, db.QueryRow(`SELECT count(*) FROM t`).Scan(&n))
		storetest.Equal(t, "rows", n, 3)
	}
	var before preparedStmt
	conn(func(c *stmtCachingConn) {
		storetest.Equal(t, "kept", len(c.idle), 1) // the INSERT that failed was closed
		before = c.idle[`SELECT count(*) FROM t`]
	})
	storetest.Must(db.Exec(`INSERT INTO t (n) VALUES ($1)`, 3))(t)
	var n int
	storetest.OK(t, db.QueryRow(`SELECT count(*) FROM t`).Scan(&n))
	storetest.Equal(t, "rows", n, 4)
	conn(func(c *stmtCachingConn) {
		if c.idle[`SELECT count(*) FROM t`] != before || len(c.idle) != 2 {
			t.Errorf("%d statements are kept, and the SELECT was compiled again: %v", len(c.idle),
				c.idle[`SELECT count(*) FROM t`] != before)
		}
	})
}

// A statement may run while its own rows are read: each run has its own prepared statement, and one
// of them is kept.
func TestStatementWithinItself(t *testing.T) {
	db, conn := onePool(t)
	const three = `SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3`
	tx, pairs := storetest.Must(db.Begin())(t), 0
	outer := storetest.Must(tx.Query(three))(t)
	for outer.Next() {
		inner := storetest.Must(tx.Query(three))(t)
		for inner.Next() {
			pairs++
		}
		storetest.OK(t, inner.Close())
	}
	storetest.OK(t, outer.Close())
	storetest.OK(t, tx.Commit())
	storetest.Equal(t, "pairs", pairs, 9)
	conn(func(c *stmtCachingConn) { storetest.Equal(t, "kept", len(c.idle), 1) })
}

// A connection keeps at most maxPreparedStatements statements.
func TestStatementsAreBounded(t *testing.T) {
	db, conn := onePool(t)
	for n := range maxPreparedStatements + 50 {
		var got int
		storetest.OK(t, db.QueryRow(fmt.Sprintf(`SELECT %d`, n)).Scan(&got))
		storetest.Equal(t, "row", got, n)
	}
	conn(func(c *stmtCachingConn) { storetest.Equal(t, "kept", len(c.idle), maxPreparedStatements) })
}

// Parameters are passed by position, once for each place where the name stands in the statement. A
// name in a quoted text is no parameter.
func TestParametersByPlace(t *testing.T) {
	db := openSQLite(t, storetest.TempFile(t), &storetest.TestClock{At: storetest.Epoch})
	read := func(statement string, args sqldb.Args) ([]string, error) {
		return sqldb.ReadAll(t.Context(), &db.DB, "Test", sqldb.OneColumn[string], statement, args)
	}
	got, err := read(`SELECT @b || '@a' || @a || @b || @now FROM (SELECT 1 UNION SELECT 2) LIMIT @one`,
		sqldb.Args{"a": "A", "b": "B", "one": 1})
	storetest.OK(t, err)
	storetest.Equal(t, "row", strings.Join(got, " "), fmt.Sprint("B@aAB", storetest.Epoch.UnixMicro()))
	if _, err := read(`SELECT @a`, sqldb.Args{"b": "B"}); err == nil || !strings.Contains(err.Error(), "@a is missing") {
		t.Error(err)
	}
}

// Each name in pointReads is that of a method of sqldb.DB.
func TestPointReadsAreMethodsOfDB(t *testing.T) {
	for name := range pointReads {
		if _, found := reflect.TypeFor[*sqldb.DB]().MethodByName(name); !found {
			t.Error(name)
		}
	}
}
