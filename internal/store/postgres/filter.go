package postgres

import (
	"strings"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// SendsQuery implements sqldb.Engine.
func (db *DB) SendsQuery(f sqldb.SendFilter) (string, sqldb.Args) {
	return postgresFilter{f}.postgresQuery()
}

type postgresFilter struct{ sqldb.SendFilter }

// postgresQuery chooses a query by the kind of filter, so that it uses a suitable index: in a large
// table, rare values must not be found by a scan in the order of time.
func (f postgresFilter) postgresQuery() (string, sqldb.Args) {
	switch {
	case f.Provider != "" && f.MatchesMany():
		return f.minuteIndexQuery("provider", f.Provider)
	case f.Status == store.Delivered && f.MatchesMany():
		return f.minuteIndexQuery("receipt", string(f.Status))
	case f.App+string(f.Channel)+f.Purpose != "" && f.MatchesMany():
		return f.MergePages(f.appChannelPurposeQuery)
	}
	if column, value, rest := f.rareColumn(); column != "" {
		return f.MergePages(func(from sqldb.RowSource, args sqldb.Args) (string, sqldb.Args) {
			return rest.rareColumnQuery(from, args, column, value)
		})
	}
	return f.Query(sqldb.Postgres)
}

// One index begins with these columns. appChannelPurposeColumns are those of a send s.
// combinationColumns are those of kind, the subquery of appChannelPurposeQuery that has each
// combination which occurs.
const (
	appChannelPurposeColumns = "s.app, s.channel, s.purpose"
	combinationColumns       = "kind.app, kind.channel, kind.purpose"
)

// appChannelPurposeQuery first lists the combinations of app, channel and purpose that occur, of
// which there are few, by one index entry each (a loose index scan,
// https://wiki.postgresql.org/wiki/Loose_indexscan). Then it reads the first rows of each that
// matches. So it never searches all rows for a rare or missing combination.
//
// The conditions of addBounds and the ORDER BY begin with these three columns, as only one index
// does, so that the planner can choose no other.
func (f postgresFilter) appChannelPurposeQuery(from sqldb.RowSource, args sqldb.Args) (string, sqldb.Args) {
	c := f.Conditions(sqldb.Postgres, args)
	f.addBounds(&c, from, appChannelPurposeColumns, combinationColumns)
	inner := "SELECT " + from.Columns + " FROM " + from.Table + " s" + c.Where() + f.OrderLimitSQL("s.app", "s.channel",
		"s.purpose")
	matching := sqldb.Conditions{Args: c.Args}
	matching.AddAppChannelPurpose("kind.%s = ?", f.App, f.Channel, f.Purpose)
	return `
WITH RECURSIVE kind AS (
    (SELECT ` + appChannelPurposeColumns + ` FROM ` + from.Table + ` s ORDER BY ` + appChannelPurposeColumns + ` LIMIT 1)
    UNION ALL
    SELECT next.* FROM kind CROSS JOIN LATERAL (
        SELECT ` + appChannelPurposeColumns + ` FROM ` + from.Table + ` s WHERE (` + appChannelPurposeColumns + `) > (` +
		combinationColumns + `)
        ORDER BY ` + appChannelPurposeColumns + ` LIMIT 1
    ) next
)
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + matching.Where() + f.OrderLimitSQL(), matching.Args
}

// addBounds adds a lower and an upper bound, which compare tuples. With After or Before, a bound
// compares columns, logged_at and id with values and the cursor's time and ID. With only From or
// To, it leaves out id, and without these also logged_at. values is SQL with args.
//
// In every matching row, columns equal values, so that Postgres reads an index on columns and time
// only between the bounds.
func (f postgresFilter) addBounds(c *sqldb.Conditions, from sqldb.RowSource, columns, values string, args ...any) {
	bound := func(with, sign string, more ...any) {
		c.Add("("+columns+with+") "+sign+" ("+values+strings.Repeat(", ?", len(more))+")",
			append(args[:len(args):len(args)], more...)...)
	}
	for _, edge := range []struct {
		cursor                      *store.Cursor
		at                          time.Time
		atCursor, atTime, atNeither string // operators
	}{{f.After, f.From, ">", ">=", ">="}, {f.Before, f.To, "<", "<", "<="}} {
		switch {
		case edge.cursor != nil:
			bound(", s.logged_at, s.id", edge.atCursor, edge.cursor.At, edge.cursor.ID)
		case !edge.at.IsZero():
			bound(", s.logged_at", edge.atTime, edge.at)
		default:
			bound("", edge.atNeither)
		}
	}
	// With After the lower bound lacks From, and with Before the upper bound lacks To.
	f.AddTimeRange(c, sqldb.Postgres, from, true)
}

// rareColumn finds a column with its own index in which few rows have the filter's value. rest is
// the filter without it. If there is none, column is "".
func (f postgresFilter) rareColumn() (column string, value any, rest postgresFilter) {
	if f.Support != "" || f.Status.InFlight() || f.ReadsFailuresFirst() {
		return "", nil, f
	}
	rest = f
	if f.Recipient != nil {
		rest.Recipient = nil
		return "recipient", f.Recipient[:], rest
	}
	for _, c := range rest.LabelColumns() {
		text := c.Field.(*string)
		if label := *text; label != "" {
			*text = ""
			return c.Name, label, rest
		}
	}
	for _, c := range []struct {
		name string
		text *string
	}{{"domain", &rest.Domain}, {"blocked_by", &rest.BlockedBy}, {"country", &rest.Country}} {
		text := *c.text
		*c.text = ""
		if text != "" {
			return c.name, text, rest
		}
	}
	return "", nil, f
}

// rareColumnQuery reads rows by the index of one column. Bounds and order begin with it, as in
// appChannelPurposeQuery: otherwise the planner might assume that the value is frequent, and scan
// all rows of the time range.
func (f postgresFilter) rareColumnQuery(from sqldb.RowSource, args sqldb.Args, column string, value any) (string, sqldb.Args) {
	c := f.Conditions(sqldb.Postgres, args)
	if column != "blocked_by" && column != "recipient" {
		c.Add("s." + column + " <> ''") // the partial index has this condition
	}
	f.addBounds(&c, from, "s."+column, "?", value)
	f.addConditionsHidingIndexes(&c)
	return "SELECT " + from.Columns + " FROM " + from.Table + " s" + c.Where() + f.OrderLimitSQL("s."+column), c.Args
}

// addConditionsHidingIndexes adds app, channel, purpose and provider in a form for which Postgres
// uses no index, so that the planner uses the index that the query was written for.
func (f postgresFilter) addConditionsHidingIndexes(c *sqldb.Conditions) {
	c.AddAppChannelPurpose("(s.%s = ?) IS TRUE", f.App, f.Channel, f.Purpose)
	sqldb.AddIfSet(c, "(s.provider = ?) IS TRUE", f.Provider)
}

// minuteIndexQuery is for a filter by provider, or by Delivered. minute_index has the minutes in
// which such sends were logged; the sends are read minute by minute.
func (f postgresFilter) minuteIndexQuery(field, value string) (string, sqldb.Args) {
	var minutes sqldb.Conditions
	minutes.Add("m.field = ? AND m.value = ?", field, value)
	order := " DESC"
	if f.After != nil {
		order = " ASC"
		minutes.Add("m.minute > ?", f.After.At.Add(-time.Minute))
	}
	if f.Before != nil {
		minutes.Add("m.minute <= ?", f.Before.At)
	}
	if !f.From.IsZero() {
		minutes.Add("m.minute > ?", f.From.Add(-time.Minute))
	}
	sqldb.AddIfSet(&minutes, "m.minute < ?", f.To)
	c := f.Conditions(sqldb.Postgres, minutes.Args)
	c.Add("s.logged_at >= m.minute AND s.logged_at < m.minute + interval '1 minute'")
	c.Add(sqldb.PostgresPartitionsSinceSQL("m.minute"))
	f.AddTimeRange(&c, sqldb.Postgres, sqldb.SendRows, false)
	f.addConditionsHidingIndexes(&c) // so that the planner uses the index by time
	return "SELECT s.* FROM (SELECT m.minute FROM minute_index m" + minutes.Where() + " ORDER BY m.minute" + order +
		") m CROSS JOIN LATERAL (SELECT " +
		sqldb.SendOrRefusalColumns + " FROM sends s" + c.Where() + f.OrderLimitSQL() + ") s" + f.OrderLimitSQL("m.minute"), c.Args
}
