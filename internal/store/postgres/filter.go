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

// postgresFilter converts a filter to the SQL of Postgres.
type postgresFilter struct{ sqldb.SendFilter }

// matchesMany reports whether the filter usually matches many rows. A condition on app, channel,
// purpose or provider does not make the result false.
func (f postgresFilter) matchesMany() bool {
	return f.Recipient == nil && f.Labels == store.Labels{} && f.BlockedBy+f.Country+f.Domain+f.Support == "" &&
		(f.Status == "" || f.Status == store.Sent || f.Status == store.Delivered || f.Status == store.Refused)
}

// postgresQuery builds the statement and its arguments. In a large table, Postgres must find rare
// values by an index, not by a scan in the order of time. So each kind of filter has its own query,
// which uses a suitable index.
func (f postgresFilter) postgresQuery() (string, sqldb.Args) {
	switch {
	case f.Provider != "" && f.matchesMany():
		return f.minuteIndexQuery("provider", f.Provider)
	case f.Status == store.Delivered && f.matchesMany():
		return f.minuteIndexQuery("receipt", string(f.Status))
	case f.App+string(f.Channel)+f.Purpose != "" && f.matchesMany():
		return f.MergePages(f.appChannelPurposeQuery)
	}
	if column, value, of := f.rareColumn(); column != "" {
		return f.MergePages(func(from sqldb.RowSource, args sqldb.Args) (string, sqldb.Args) {
			return of.rareColumnQuery(from, args, column, value)
		})
	}
	return f.Query(sqldb.Postgres)
}

// These constants have the columns app, channel and purpose, with which one index begins. The first
// writes them as columns of a send s, the second as columns of the alias kind. In
// appChannelPurposeQuery, kind is a subquery with each combination of values that occurs in these
// columns.
const (
	appChannelPurposeColumns = "s.app, s.channel, s.purpose"
	combinationColumns       = "kind.app, kind.channel, kind.purpose"
)

// appChannelPurposeQuery builds the statement for a filter by app, channel or purpose. The
// statement first lists the combinations of app, channel and purpose that occur. There are few, and
// it reads one index entry for each of them (a loose index scan,
// https://wiki.postgresql.org/wiki/Loose_indexscan). Then it reads the first rows of each
// combination that matches the filter. So it never searches all rows for a rare or missing
// combination.
//
// The conditions of addBounds and the ORDER BY begin with these three columns. Only one index
// begins with them, so the planner can choose no other index.
func (f postgresFilter) appChannelPurposeQuery(from sqldb.RowSource, args sqldb.Args) (string, sqldb.Args) {
	c := f.Conditions(sqldb.Postgres, args)
	f.addBounds(&c, from, appChannelPurposeColumns, combinationColumns)
	inner := "SELECT " + from.Columns + " FROM " + from.Table + " s" + c.Where() + f.OrderLimitSQL("s.app", "s.channel",
		"s.purpose")
	fits := sqldb.Conditions{Args: c.Args}
	fits.AddAppChannelPurpose("kind.%s = ?", f.App, f.Channel, f.Purpose)
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
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + fits.Where() + f.OrderLimitSQL(), fits.Args
}

// addBounds adds a lower and an upper bound to the conditions c. Each bound compares two tuples.
// The left tuple has the columns of the row: those in the parameter `columns`, and then logged_at
// and id. The right tuple has the wanted values: those in the parameter `values`, and then the time
// and ID of the filter's After or Before. The parameter `values` is SQL text, and args are its
// arguments. If the filter has only a time (From or To) instead of After or Before, the bound does
// not compare id. If the filter has neither, the bound compares only `columns`.
//
// For every matching row, `columns` equal `values`. So Postgres reads an index on `columns` and the
// time only between the two bounds.
func (f postgresFilter) addBounds(c *sqldb.Conditions, from sqldb.RowSource, columns, values string, args ...any) {
	bound := func(with, sign string, more ...any) {
		c.Add("("+columns+with+") "+sign+" ("+values+strings.Repeat(", ?", len(more))+")",
			append(args[:len(args):len(args)], more...)...)
	}
	for _, edge := range []struct {
		mark                      *store.Cursor
		at                        time.Time
		atMark, atTime, elsewhere string // operators
	}{{f.After, f.From, ">", ">=", ">="}, {f.Before, f.To, "<", "<", "<="}} {
		switch {
		case edge.mark != nil:
			bound(", s.logged_at, s.id", edge.atMark, edge.mark.At, edge.mark.ID)
		case !edge.at.IsZero():
			bound(", s.logged_at", edge.atTime, edge.at)
		default:
			bound("", edge.elsewhere)
		}
	}
	// A bound above has After or From, but not both, and Before or To, but not both. So the time
	// range is added once more.
	f.AddTimeRange(c, sqldb.Postgres, from, true)
}

// rareColumn returns a column that has its own index, and in which few rows have the filter's
// value. It also returns this value, and the filter without the condition on the column (rest). If
// there is no such column, the result column is "".
func (f postgresFilter) rareColumn() (column, value string, rest postgresFilter) {
	if f.Recipient != nil || f.Labels != (store.Labels{}) || f.Support != "" || f.Status.InFlight() || f.ReadsFailuresFirst() {
		return "", "", f
	}
	rest = f
	for _, c := range []struct {
		name string
		text *string
	}{{"domain", &rest.Domain}, {"blocked_by", &rest.BlockedBy}, {"country", &rest.Country}} {
		value, *c.text = *c.text, ""
		if value != "" {
			return c.name, value, rest
		}
	}
	return "", "", f
}

// rareColumnQuery builds the statement that reads rows by the index of one column. The bounds and
// the order begin with that column, as in appChannelPurposeQuery. Otherwise the planner may assume
// that the value is frequent, and scan all rows of the time range.
func (f postgresFilter) rareColumnQuery(from sqldb.RowSource, args sqldb.Args, column, value string) (string, sqldb.Args) {
	c := f.Conditions(sqldb.Postgres, args)
	if column != "blocked_by" {
		c.Add("s." + column + " <> ''") // the index is partial, with this condition
	}
	f.addBounds(&c, from, "s."+column, "?", value)
	f.addConditionsHidingIndexes(&c)
	return "SELECT " + from.Columns + " FROM " + from.Table + " s" + c.Where() + f.OrderLimitSQL("s."+column), c.Args
}

// addConditionsHidingIndexes adds the conditions on app, channel, purpose and provider in a form
// for which Postgres can use no index. So the planner uses the index for which the calling query
// was written.
func (f postgresFilter) addConditionsHidingIndexes(c *sqldb.Conditions) {
	c.AddAppChannelPurpose("(s.%s = ?) IS TRUE", f.App, f.Channel, f.Purpose)
	sqldb.AddIfSet(c, "(s.provider = ?) IS TRUE", f.Provider)
}

// minuteIndexQuery builds the statement for a filter by provider, receipt or status. The table
// minute_index lists the minutes in which sends with this value were logged; the statement reads
// the sends of those minutes, one minute after the other.
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
