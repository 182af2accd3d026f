package sqlite

import (
	"fmt"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// SendsQuery implements sqldb.Engine.
func (db *DB) SendsQuery(f sqldb.SendFilter) (string, sqldb.Args) {
	return sqliteFilter{f}.sqliteQuery()
}

type sqliteFilter struct{ sqldb.SendFilter }

// sqliteQuery reads rows of one app, channel or purpose by the index on all three: rows of a rare
// value must not be found by a scan in the order of time.
func (f sqliteFilter) sqliteQuery() (string, sqldb.Args) {
	if f.App+string(f.Channel)+f.Purpose != "" && f.Provider == "" && f.Status != store.Delivered && f.MatchesMany() {
		return f.MergePages(f.kindQuery)
	}
	return f.Query(sqldb.SQLite)
}

// kindSQL is the app, channel and purpose of a row as one text. The indexes sends_kind and
// refusals_kind are on this text. SQLite doesn't use them for conditions on the three columns, so
// no other statement prefers them to the better index on the rows of a recipient.
const kindSQL = "(s.app || '/' || s.channel || '/' || s.purpose)"

// kindQuery first lists the kinds that occur, of which there are few, by one index entry each. For
// each kind that fits, it looks for the time of the last row that a page may need, and reads the
// rows up to there. So it never searches all rows for a rare or missing kind. SQLite has no
// LATERAL, by which postgres.appChannelPurposeQuery does the same.
func (f sqliteFilter) kindQuery(from sqldb.RowSource, args sqldb.Args) (string, sqldb.Args) {
	c := f.Conditions(sqldb.SQLite, args)
	c.Add(kindSQL + " = kind.name")
	c.AddAppChannelPurpose("s.%s = ?", f.App, f.Channel, f.Purpose)
	f.AddTimeRange(&c, sqldb.SQLite, from, false)
	last := "(SELECT s.logged_at FROM " + from.Table + " s" + c.Where() + f.OrderLimitSQL() + fmt.Sprint(" OFFSET ", f.Limit-1) + ")"
	if f.After != nil {
		c.Add("s.logged_at <= coalesce(" + last + ", 9223372036854775807)")
	} else {
		c.Add("s.logged_at >= coalesce(" + last + ", 0)")
	}
	// These conditions keep the query from reading a kind that doesn't fit, only to find no rows in
	// it.
	if f.App != "" {
		c.Add("instr(kind.name, ?) = 1", f.App+"/")
	}
	if f.Channel != "" {
		c.Add("instr(kind.name, ?) > 1", "/"+string(f.Channel)+"/")
	}
	if f.Purpose != "" {
		c.Add("substr(kind.name, -length(?)) = ?", "/"+f.Purpose, "/"+f.Purpose)
	}
	return `
WITH RECURSIVE kind (name) AS (
    SELECT min(` + kindSQL + `) FROM ` + from.Table + ` s
    UNION ALL
    SELECT (SELECT min(` + kindSQL + `) FROM ` + from.Table + ` s WHERE ` + kindSQL + ` > kind.name) FROM kind WHERE kind.name IS NOT NULL
)
SELECT ` + from.Columns + ` FROM kind CROSS JOIN ` + from.Table + ` s` + c.Where() + f.OrderLimitSQL(), c.Args
}
