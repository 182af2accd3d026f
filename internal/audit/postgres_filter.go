package audit

import (
	"context"
	"strings"
	"time"
)

// Sends implements Search.
func (p *Postgres) Sends(ctx context.Context, filter Filter) ([]Send, error) {
	filter, err := filter.checked()
	if err != nil || !filter.matchable() {
		return nil, err
	}
	query, args := postgresFilter{sendFilter{filter}}.postgresQuery()
	return p.page(ctx, filter, query, args)
}

// postgresFilter is a filter in SQL of Postgres.
type postgresFilter struct{ sendFilter }

// common says that no other condition of the filter finds few rows.
func (f postgresFilter) common() bool {
	return f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" && (f.Status == "" || f.Status == Sent || f.Status == Delivered)
}

// postgresQuery is the filter in Postgres, whose log is too long to be looked through for what is rare.
func (f postgresFilter) postgresQuery() (string, []any) {
	switch {
	case f.Provider != "" && f.common():
		return f.minuteQuery("provider", f.Provider)
	case f.Status == Delivered && f.common():
		return f.minuteQuery("receipt", string(f.Status))
	case f.App+string(f.Channel)+f.Purpose != "" && f.common():
		return f.kindQuery()
	}
	return f.query(postgresWords)
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
	c := f.conditions()
	f.kindBounds(&c)
	inner := "SELECT " + sendColumns + " FROM sends s" + c.where() + f.page("s.app", "s.channel", "s.purpose")
	fits := conditions{args: c.args}
	for _, k := range []struct{ column, value string }{{"app", f.App}, {"channel", string(f.Channel)}, {"purpose", f.Purpose}} {
		if k.value != "" {
			fits.add("kind."+k.column+" = ?", k.value)
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
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + fits.where() + f.page(), fits.args
}

// kindBounds are one condition for each end, by which the index is entered; with two of them it is entered by either.
func (f postgresFilter) kindBounds(c *conditions) {
	bound := func(with, sign string, args ...any) {
		c.add("("+kindColumns+with+") "+sign+" ("+kindNames+strings.Repeat(", ?", len(args))+")", args...)
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
	f.between(c, postgresWords) // as well, for what the bounds leave out
}

// minuteQuery is the same as query, for Postgres: minute by minute of those in which sends were logged that have a value in a field.
func (f postgresFilter) minuteQuery(field, value string) (string, []any) {
	var minutes conditions
	minutes.add("m.field = ? AND m.value = ?", field, value)
	order := " DESC"
	if f.After != nil {
		order = " ASC"
		minutes.add("m.minute > ?", f.After.At.Add(-time.Minute))
	}
	if f.Before != nil {
		minutes.add("m.minute <= ?", f.Before.At)
	}
	if !f.From.IsZero() {
		minutes.add("m.minute > ?", f.From.Add(-time.Minute))
	}
	if !f.To.IsZero() {
		minutes.add("m.minute < ?", f.To)
	}
	c := f.conditionsAfter(minutes.args)
	c.add("s.logged_at >= m.minute AND s.logged_at < m.minute + interval '1 minute'")
	c.add(loggedSince("m.minute"))
	f.between(&c, postgresWords)
	// Of use to no index: that of the time is the one.
	for _, k := range []struct{ column, value string }{{"app", f.App}, {"channel", string(f.Channel)}, {"purpose", f.Purpose}, {"provider", f.Provider}} {
		if k.value != "" {
			c.add("(s."+k.column+" = ?) IS TRUE", k.value)
		}
	}
	return "SELECT s.* FROM (SELECT m.minute FROM minutes m" + minutes.where() + " ORDER BY m.minute" + order + ") m CROSS JOIN LATERAL (SELECT " +
		sendColumns + " FROM sends s" + c.where() + f.page() + ") s" + f.page("m.minute"), c.args
}
