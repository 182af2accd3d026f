package audit

import (
	"fmt"
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

// sendFilter is a Filter in SQL.
type sendFilter struct{ Filter }

// conditions are the filter in SQL but for times, app, channel, purpose and provider. What is said twice lets the planner use a partial
// index.
func (f sendFilter) conditions(d dialect) (c conditions) {
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
func (f sendFilter) between(c *conditions, d dialect, column, value string) {
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
func (f sendFilter) page(columns ...string) string {
	order := " DESC"
	if f.After != nil {
		order = " ASC"
	}
	columns = append(columns, "s.logged_at", "s.id")
	return " ORDER BY " + strings.Join(columns, order+", ") + order + fmt.Sprintf(" LIMIT %d", f.Limit)
}

// query is the filter in SQL for either database.
func (f sendFilter) query(d dialect) (string, []any) {
	c := f.conditions(d)
	f.between(&c, d, "", "")
	c.kind(f.App, f.Channel, f.Purpose)
	if f.Provider != "" {
		c.add("s.provider = ?", f.Provider)
	}
	table := "sends s"
	if r, ok := readReference(f.Support); ok {
		table = supportRows(r, &c)
	} else if f.Support != "" {
		c.add("1 = 0")
	}
	return "SELECT " + sendColumns + " FROM " + table + c.where() + f.page(), c.args
}

// supportRows are those of the reference in SQL, as a table: looked up by their IDs, whatever else is asked of them.
func supportRows(r supportReference, c *conditions) string {
	from, to := r.between()
	parity := "NOT IN"
	if r.tail>>8 == 1 {
		parity = "IN"
	}
	return fmt.Sprintf(`(SELECT * FROM sends s WHERE s.id >= %s AND s.id < %s AND substr(CAST(s.id AS text), 35) = %s
 AND substr(CAST(s.id AS text), 34, 1) %s ('1', '3', '5', '7', '9', 'b', 'd', 'f') LIMIT %d OFFSET 0) s`,
		c.arg(from), c.arg(to), c.arg(fmt.Sprintf("%02x", r.tail&0xff)), parity, maxReferenced)
}
