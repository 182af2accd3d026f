package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// conditions collects what rows must fulfil, with numbered parameters, which both databases understand.
type conditions struct {
	texts []string
	args  []any
}

// add appends a condition whose parameters are written as "?".
func (c *conditions) add(text string, args ...any) {
	for _, arg := range args {
		text = strings.Replace(text, "?", c.arg(arg), 1)
	}
	c.texts = append(c.texts, text)
}

// arg is the number of a new parameter.
func (c *conditions) arg(value any) string {
	c.args = append(c.args, value)
	return fmt.Sprint("$", len(c.args))
}

// kind adds those that are not empty.
func (c *conditions) kind(app string, ch recipient.Channel, purpose string) {
	for _, k := range []struct{ column, value string }{{"app", app}, {"channel", string(ch)}, {"purpose", purpose}} {
		if k.value != "" {
			c.add("s."+k.column+" = ?", k.value)
		}
	}
}

func (c *conditions) where() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// conditions are the filter in SQL but for times, app, channel, purpose and provider. What is said twice lets the planner use a partial
// index.
func (f Filter) conditions(d dialect) (c conditions) {
	if f.Recipient != nil {
		c.add("s.recipient = ?", f.Recipient[:])
	}
	if f.BlockedBy != "" {
		c.add("s.blocked_by = ? AND s.blocked_by <> ''", f.BlockedBy)
	}
	if f.Reference != "" {
		c.add("s.reference = ? AND s.reference <> ''", f.Reference)
	}
	if f.Country != "" {
		c.add("s.country = ? AND s.country <> ''", f.Country)
	}
	if f.Domain != "" {
		c.add(d.domain+" = ? AND "+d.domain+" <> ''", f.Domain)
	}
	switch f.Status {
	case "":
	case Queued, Sending:
		c.add("s.status = ? AND s.due_at IS NOT NULL", string(f.Status))
	case Failed, Unknown, Refused:
		c.add(astray+" = ? AND "+astray+" IS NOT NULL", string(f.Status))
		if f.Status == Unknown {
			c.add("s.receipt = ''")
		}
	case Delivered, Undelivered:
		c.add("s.receipt = ? AND s.receipt <> '' AND s.status IN ('sent', 'unknown')", string(f.Status))
	default:
		c.add("s.status = ? AND s.receipt = ''", string(f.Status))
	}
	return c
}

// between adds the times and the mark, in the order of an index: column and value come before the time in it, if it has
// such a column.
func (f Filter) between(c *conditions, d dialect, column, value string) {
	if !f.From.IsZero() {
		c.add("("+column+"s.logged_at) >= ("+value+"?)", d.at(f.From))
	}
	c.logged(d, f.From, f.To)
	if !f.To.IsZero() {
		c.add("("+column+"s.logged_at) < ("+value+"?)", d.at(f.To))
	}
	if f.Before != nil {
		c.add("("+column+"s.logged_at, s.id) < ("+value+"?, ?)", d.at(f.Before.At), f.Before.ID)
		c.logged(d, time.Time{}, f.Before.At)
	}
	if f.After != nil {
		c.add("("+column+"s.logged_at, s.id) > ("+value+"?, ?)", d.at(f.After.At), f.After.ID)
		c.logged(d, f.After.At, time.Time{})
	}
}

// astray is what the index of rows that were not just sent is on.
const astray = `CASE WHEN s.status IN ('failed', 'unknown', 'refused') THEN s.status END`

// page is how a page is ordered and ends: from its mark on, whichever way that is.
func (f Filter) page(columns ...string) string {
	order := " DESC"
	if f.After != nil {
		order = " ASC"
	}
	columns = append(columns, "s.logged_at", "s.id")
	return " ORDER BY " + strings.Join(columns, order+", ") + order + fmt.Sprintf(" LIMIT %d", f.Limit)
}

// newestFirst is the page as it is told.
func (f Filter) newestFirst(rows []Send) []Send {
	if f.After != nil {
		slices.Reverse(rows)
	}
	return rows
}

// query is the filter in SQL for either database.
func (f Filter) query(d dialect) (string, []any) {
	c := f.conditions(d)
	f.between(&c, d, "", "")
	c.kind(f.App, f.Channel, f.Purpose)
	if f.Provider != "" {
		c.add("s.provider = ?", f.Provider)
	}
	table := "sends s"
	if r, ok := readReference(f.Support); ok {
		table = r.rows(&c)
	} else if f.Support != "" {
		c.add("1 = 0")
	}
	return "SELECT " + sendColumns + " FROM " + table + c.where() + f.page(), c.args
}

// byKind says that a filter by app, channel, purpose or provider is all that could be rare about the rows.
func (f Filter) byKind() bool {
	return f.App+string(f.Channel)+f.Purpose+f.Provider != "" && f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" &&
		(f.Status == "" || f.Status == Sent)
}

// kindOf is what one index of Postgres is on, which so serves app, channel, purpose, provider and any of them together.
const kindOf = `(s.app || E'\x1f' || s.channel || E'\x1f' || s.purpose || E'\x1f' || s.provider) COLLATE "C"`

// kindQuery is the same as query, for Postgres. The few kinds that there are come first, each from one look at the index
// past the one before (a loose index scan, https://wiki.postgresql.org/wiki/Loose_indexscan), then the first rows of each
// kind that fits. So a kind that is rare, or is not there, is not looked for in the whole log. Bounds in place of an
// equality, and an order that begins with the kind: no other index has that, so the planner cannot choose one.
func (f Filter) kindQuery(d dialect) (string, []any) {
	c := f.conditions(d)
	c.add(kindOf + " >= kind.name AND " + kindOf + " <= kind.name")
	f.between(&c, d, kindOf+", ", "kind.name, ")
	inner := "SELECT " + sendColumns + " FROM sends s" + c.where() + f.page(kindOf)
	fits := conditions{args: c.args}
	for i, value := range []string{f.App, string(f.Channel), f.Purpose, f.Provider} {
		if value != "" {
			fits.add(fmt.Sprintf(`split_part(kind.name, E'\x1f', %d) = ?`, i+1), value)
		}
	}
	return `
WITH RECURSIVE kind (name) AS (
    (SELECT ` + kindOf + ` FROM sends s ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT next.name FROM kind CROSS JOIN LATERAL (
        SELECT ` + kindOf + ` AS name FROM sends s WHERE ` + kindOf + ` > kind.name ORDER BY 1 LIMIT 1
    ) next
)
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + fits.where() + f.page(), fits.args
}
