package sqldb

// dialect is the SQL of one of the two databases.
type dialect int

// The databases.
const (
	Postgres dialect = iota
	SQLite
)

// Args has the parameters of a statement by name: Args{"app": …} sets @app. A statement need not
// use all parameters. If Args has no "now", @now is the database's time. A time.Duration can be
// used as CAST(@lease AS interval). In SQLite, instants and intervals are numbers of µs. A list can
// be used with Dialect.inList.
type Args map[string]any

// dialectSQL is a statement, or a part of one, that differs between the databases.
type dialectSQL struct{ Postgres, SQLite string }

func (d dialect) pick(t dialectSQL) string {
	if d == Postgres {
		return t.Postgres
	}
	return t.SQLite
}

// inList returns a condition to be put after an expression. The condition is true if the expression
// equals an element of the list parameter.
func (d dialect) inList(list string) string {
	return d.pick(dialectSQL{"= ANY (@" + list + ")", "IN (SELECT value FROM json_each(@" + list + "))"})
}

// inSubquery returns a condition to be put after an expression. The condition is true if the
// expression is among the results of the subquery. With ARRAY, Postgres always reads the subquery
// once, before it finds the rows by their key.
func (d dialect) inSubquery(subquery string) string {
	return d.pick(dialectSQL{"= ANY (ARRAY(" + subquery + "))", "IN (" + subquery + ")"})
}

// lockRows returns the query with a lock on the rows that the query reads. The query skips rows
// that another transaction has locked. SQLite has only one writer, so lockRows returns the query
// unchanged there.
func (d dialect) lockRows(query string) string {
	return d.pick(dialectSQL{query + " FOR UPDATE SKIP LOCKED", query})
}

// partitionsSince returns a condition on the ID of a send s. Every send that was logged at or after
// an instant meets the condition. With the condition, Postgres can skip the older partitions. The
// parameter at is the instant, as an SQL expression.
func (d dialect) partitionsSince(at string) string {
	return d.pick(dialectSQL{PostgresPartitionsSinceSQL(at), "1 = 1"})
}

// failuresFromSQL is the FROM list of failures f, joined with their sends s.
var failuresFromSQL = dialectSQL{
	Postgres: "failures f CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = f.id LIMIT 1) s",
	SQLite:   "failures f CROSS JOIN sends s ON s.id = f.id",
}

// advisoryLockSQL takes the lock @key until the transaction ends. checksLockSQL takes the lock on
// the checks of the codes of @recipient. SQLite needs no locks, because it has only one writer.
var (
	advisoryLockSQL = dialectSQL{Postgres: `SELECT pg_advisory_xact_lock(@key)`}
	checksLockSQL   = dialectSQL{Postgres: `
SELECT pg_advisory_xact_lock(hashtextextended(@app || chr(31) || @channel || chr(31) || encode(@recipient, 'hex'), 1))`}
)

// LongTimeoutSQL allows a statement 60 s. It is for statements that may read many rows: those of a
// recipient under attack, or those of the time range of statistics.
var LongTimeoutSQL = dialectSQL{Postgres: `SET LOCAL statement_timeout = '60s'`}
