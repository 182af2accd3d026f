package sqldb

type dialect int

const (
	Postgres dialect = iota
	SQLite
)

// Args has a statement's parameters by name: Args{"app": …} sets @app. It may have more than the
// statement uses. @now is the database's time; in Postgres, Args may have another value for it. A
// time.Duration can be used as CAST(@lease AS interval), a list with Dialect.inList. In SQLite,
// instants and intervals are µs.
type Args map[string]any

// dialectSQL is a text of SQL that differs between the databases.
type dialectSQL struct{ Postgres, SQLite string }

func (d dialect) pick(t dialectSQL) string {
	if d == Postgres {
		return t.Postgres
	}
	return t.SQLite
}

// inList returns SQL that follows an expression and tests whether the list parameter contains it.
func (d dialect) inList(list string) string {
	return d.pick(dialectSQL{"= ANY (@" + list + ")", "IN (SELECT value FROM json_each(@" + list + "))"})
}

// inSubquery returns SQL that follows an expression and tests whether it is among the results. With
// ARRAY, Postgres always reads the subquery once, before it finds the rows by their key.
func (d dialect) inSubquery(subquery string) string {
	return d.pick(dialectSQL{"= ANY (ARRAY(" + subquery + "))", "IN (" + subquery + ")"})
}

// lockRows locks the rows that the query reads, and skips those that another transaction has
// locked. SQLite has one writer, and needs no locks.
func (d dialect) lockRows(query string) string {
	return d.pick(dialectSQL{query + " FOR UPDATE SKIP LOCKED", query})
}

// partitionsSince returns a condition that every send s logged at or after at (SQL) meets, so that
// Postgres can skip older partitions.
func (d dialect) partitionsSince(at string) string {
	return d.pick(dialectSQL{PostgresPartitionsSinceSQL(at), "1 = 1"})
}

// failuresFromSQL is the FROM list of failures f with their sends s.
var failuresFromSQL = dialectSQL{
	Postgres: "failures f CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = f.id LIMIT 1) s",
	SQLite:   "failures f CROSS JOIN sends s ON s.id = f.id",
}

// advisoryLockSQL takes the lock @key until the transaction ends. checksLockSQL takes the lock on
// checks of @recipient's codes. SQLite has one writer, and needs no locks.
var (
	advisoryLockSQL = dialectSQL{Postgres: `SELECT pg_advisory_xact_lock(@key)`}
	checksLockSQL   = dialectSQL{Postgres: `
SELECT pg_advisory_xact_lock(hashtextextended(@app || chr(31) || @channel || chr(31) || encode(@recipient, 'hex'), 1))`}
)

// LongTimeoutSQL allows 60 s to statements that may read many rows: of a recipient under attack, or
// of a time range of statistics.
var LongTimeoutSQL = dialectSQL{Postgres: `SET LOCAL statement_timeout = '60s'`}
