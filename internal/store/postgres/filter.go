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
	return f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" && (f.Status == "" || f.Status == store.Sent || f.Status == store.Delivered)
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
	f.kindBounds(&c)
	inner := "SELECT " + sqldb.SendColumns + " FROM sends s" + c.Where() + f.Page("s.app", "s.channel", "s.purpose")
	fits := sqldb.Conditions{Args: c.Args}
	for _, k := range []struct{ column, value string }{{"app", f.App}, {"channel", string(f.Channel)}, {"purpose", f.Purpose}} {
		if k.value != "" {
			fits.Add("kind."+k.column+" = ?", k.value)
		}
	}
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

// kindBounds are one condition for each end, by which the index is entered; with two of them it is entered by either.
func (f postgresFilter) kindBounds(c *sqldb.Conditions) {
	bound := func(with, sign string, args ...any) {
		c.Add("("+kindColumns+with+") "+sign+" ("+kindNames+strings.Repeat(", ?", len(args))+")", args...)
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
	f.Between(c, words) // as well, for what the bounds leave out
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
	if !f.To.IsZero() {
		minutes.Add("m.minute < ?", f.To)
	}
	c := f.ConditionsAfter(minutes.Args)
	c.Add("s.logged_at >= m.minute AND s.logged_at < m.minute + interval '1 minute'")
	c.Add(sqldb.LoggedSince("m.minute"))
	f.Between(&c, words)
	// Of use to no index: that of the time is the one.
	for _, k := range []struct{ column, value string }{{"app", f.App}, {"channel", string(f.Channel)}, {"purpose", f.Purpose}, {"provider", f.Provider}} {
		if k.value != "" {
			c.Add("(s."+k.column+" = ?) IS TRUE", k.value)
		}
	}
	return "SELECT s.* FROM (SELECT m.minute FROM minutes m" + minutes.Where() + " ORDER BY m.minute" + order + ") m CROSS JOIN LATERAL (SELECT " +
		sqldb.SendColumns + " FROM sends s" + c.Where() + f.Page() + ") s" + f.Page("m.minute"), c.Args
}
