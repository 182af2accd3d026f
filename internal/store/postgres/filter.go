package postgres

import (
	"context"
	"strings"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Sends implements Search.
func (p *DB) Sends(ctx context.Context, filter store.Filter) ([]store.Send, error) {
	filter, err := filter.Checked()
	if err != nil || !filter.Matchable() {
		return nil, err
	}
	query, args := postgresFilter{sqldb.SendFilter{Filter: filter}}.postgresQuery()
	return p.Page(ctx, filter, query, args)
}

// postgresFilter is a filter in SQL of Postgres.
type postgresFilter struct{ sqldb.SendFilter }

// common says that no other condition of the filter finds few rows.
func (f postgresFilter) common() bool {
	return f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" &&
		(f.Status == "" || f.Status == store.Sent || f.Status == store.Delivered)
}

// postgresQuery is the filter in Postgres, whose log is too long to be looked through for what is rare.
func (f postgresFilter) postgresQuery() (string, []any) {
	switch {
	case f.Provider != "" && f.common():
		return f.minuteQuery("provider", f.Provider)
	case f.Status == store.Delivered && f.common():
		return f.minuteQuery("receipt", string(f.Status))
	case f.App+string(f.Channel)+f.Purpose != "" && f.common():
		return f.kindQuery()
	}
	if column, value, of := f.rare(); column != "" {
		return of.rareQuery(column, value)
	}
	return f.Query(words)
}

// The kind of a row is what one index of Postgres begins with, which so serves app, channel, purpose and any of them together.
const (
	kindColumns = "s.app, s.channel, s.purpose"
	kindNames   = "kind.app, kind.channel, kind.purpose"
)

// kindQuery is the same as query, for Postgres. The few kinds that there are come first, each from one look at the index
// past the one before (a loose index scan, https://wiki.postgresql.org/wiki/Loose_indexscan), then the first rows of each
// kind that fits. So a kind that is rare, or is not there, is not looked for in the whole log. Bounds in place of an
// equality, and an order that begins with the kind: no other index has that, so the planner cannot choose one.
func (f postgresFilter) kindQuery() (string, []any) {
	c := f.Conditions()
	f.bounds(&c, kindColumns, kindNames)
	inner := "SELECT " + sqldb.SendColumns + " FROM sends s" + c.Where() + f.Page("s.app", "s.channel", "s.purpose")
	fits := sqldb.Conditions{Args: c.Args}
	fits.Kind("kind.%s = ?", f.App, f.Channel, f.Purpose)
	return `
WITH RECURSIVE kind AS (
    (SELECT ` + kindColumns + ` FROM sends s ORDER BY ` + kindColumns + ` LIMIT 1)
    UNION ALL
    SELECT next.* FROM kind CROSS JOIN LATERAL (
        SELECT ` + kindColumns + ` FROM sends s WHERE (` + kindColumns + `) > (` + kindNames + `) ORDER BY ` + kindColumns + ` LIMIT 1
    ) next
)
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + fits.Where() + f.Page(), fits.Args
}

// bounds are one condition for each end, by which an index that begins with the columns is entered; with two of them it is entered by
// either. values is what the columns are, in SQL.
func (f postgresFilter) bounds(c *sqldb.Conditions, columns, values string, args ...any) {
	bound := func(with, sign string, more ...any) {
		c.Add("("+columns+with+") "+sign+" ("+values+strings.Repeat(", ?", len(more))+")", append(args[:len(args):len(args)], more...)...)
	}
	switch {
	case f.After != nil:
		bound(", s.logged_at, s.id", ">", f.After.At, f.After.ID)
	case !f.From.IsZero():
		bound(", s.logged_at", ">=", f.From)
	default:
		bound("", ">=")
	}
	switch {
	case f.Before != nil:
		bound(", s.logged_at, s.id", "<", f.Before.At, f.Before.ID)
	case !f.To.IsZero():
		bound(", s.logged_at", "<", f.To)
	default:
		bound("", "<=")
	}
	f.Between(c, words, true) // as well, for what the bounds leave out
}

// rare is the column with an index of its own in which few rows may have the filter's value, and the filter without it; "": none.
func (f postgresFilter) rare() (column, value string, rest postgresFilter) {
	if f.Recipient != nil || f.Reference+f.Support != "" || f.Status.InFlight() || f.Astray() {
		return "", "", f
	}
	rest = f
	switch {
	case f.Domain != "":
		rest.Domain = ""
		return "domain", f.Domain, rest
	case f.BlockedBy != "":
		rest.BlockedBy = ""
		return "blocked_by", f.BlockedBy, rest
	case f.Country != "":
		rest.Country = ""
		return "country", f.Country, rest
	}
	return "", "", f
}

// rareQuery is the same as query, for Postgres, by the index of one column. It is entered by bounds and read in an order that begins
// with the column, as in kindQuery: a planner that takes the value for a common one would look for it in all rows of the time.
func (f postgresFilter) rareQuery(column, value string) (string, []any) {
	c := f.Conditions()
	if column == "blocked_by" {
		c.Add("s.number = 0") // the condition of its index
	} else {
		c.Add("s." + column + " <> ''")
	}
	f.bounds(&c, "s."+column, "?", value)
	f.kindsOnly(&c)
	return "SELECT " + sqldb.SendColumns + " FROM sends s" + c.Where() + f.Page("s."+column), c.Args
}

// kindsOnly adds the conditions on what a row is of, in words of use to no index.
func (f postgresFilter) kindsOnly(c *sqldb.Conditions) {
	c.Kind("(s.%s = ?) IS TRUE", f.App, f.Channel, f.Purpose)
	sqldb.AddSome(c, "(s.provider = ?) IS TRUE", f.Provider)
}

// minuteQuery is the same as query, for Postgres: minute by minute of those in which sends were logged that have a value in a field.
func (f postgresFilter) minuteQuery(field, value string) (string, []any) {
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
	sqldb.AddSome(&minutes, "m.minute < ?", f.To)
	c := f.ConditionsAfter(minutes.Args)
	c.Add("s.logged_at >= m.minute AND s.logged_at < m.minute + interval '1 minute'")
	c.Add(sqldb.LoggedSince("m.minute"))
	f.Between(&c, words, false)
	f.kindsOnly(&c) // the index of the time is the one
	return "SELECT s.* FROM (SELECT m.minute FROM minutes m" + minutes.Where() + " ORDER BY m.minute" + order +
		") m CROSS JOIN LATERAL (SELECT " +
		sqldb.SendColumns + " FROM sends s" + c.Where() + f.Page() + ") s" + f.Page("m.minute"), c.Args
}
