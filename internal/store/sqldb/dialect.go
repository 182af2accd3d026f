package sqldb

// dialect is the SQL of one of the two databases.
type dialect int

// The databases.
const (
	Postgres dialect = iota
	SQLite
)

// Args has the parameters of a statement by name: Args{"app": …} sets @app. A statement may ignore
// parameters. If Args has no "now", @now is the database's time. A time.Duration is for CAST(@lease
// AS interval). In SQLite, instants and intervals are numbers of µs. A list is for Dialect.inList.
type Args map[string]any

// dialectSQL is a statement, or a part of one, that differs between the databases.
type dialectSQL struct{ Postgres, SQLite string }

func (d dialect) pick(t dialectSQL) string {
	if d == Postgres {
		return t.Postgres
	}
	return t.SQLite
}

// inList returns the condition that the expression before it equals an element of a list parameter.
func (d dialect) inList(list string) string {
	return d.pick(dialectSQL{"= ANY (@" + list + ")", "IN (SELECT value FROM json_each(@" + list + "))"})
}

// inSubquery returns the condition that the expression before it is among the results of a
// subquery. With ARRAY, Postgres's planner always reads the subquery once, before it finds the rows
// by their key.
func (d dialect) inSubquery(subquery string) string {
	return d.pick(dialectSQL{"= ANY (ARRAY(" + subquery + "))", "IN (" + subquery + ")"})
}

// lockRows returns the query with a lock on the rows that it reads. It skips rows that another
// transaction has locked. SQLite has only one writer, so there it returns the query unchanged.
func (d dialect) lockRows(query string) string {
	return d.pick(dialectSQL{query + " FOR UPDATE SKIP LOCKED", query})
}

// partitionsSince returns a condition on IDs. Every send s that was logged at an instant (at, in
// SQL) or later meets it, so Postgres can skip earlier partitions.
func (d dialect) partitionsSince(at string) string {
	return d.pick(dialectSQL{PostgresPartitionsSinceSQL(at), "1 = 1"})
}

// failuresFromSQL is the FROM list of failures f, joined with their sends s.
var failuresFromSQL = dialectSQL{
	Postgres: "failures f CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = f.id LIMIT 1) s",
	SQLite:   "failures f CROSS JOIN sends s ON s.id = f.id",
}

// advisoryLockSQL takes the lock @key until the transaction ends, checksLockSQL the lock on the
// checks of the codes of @recipient. SQLite has only one writer.
var (
	advisoryLockSQL = dialectSQL{Postgres: `SELECT pg_advisory_xact_lock(@key)`}
	checksLockSQL   = dialectSQL{Postgres: `
SELECT pg_advisory_xact_lock(hashtextextended(@app || chr(31) || @channel || chr(31) || encode(@recipient, 'hex'), 1))`}
)

// LongTimeoutSQL allows a statement 60 s: an attacked recipient may have many rows, and so may the
// time range of statistics.
var LongTimeoutSQL = dialectSQL{Postgres: `SET LOCAL statement_timeout = '60s'`}
