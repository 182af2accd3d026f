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
func (f sendFilter) conditions() conditions { return f.conditionsAfter(nil) }

// conditionsAfter are the same in a statement that has these parameters already.
func (f sendFilter) conditionsAfter(args []any) conditions {
	c := conditions{args: args}
	if f.Recipient != nil {
		c.add("s.recipient = ?", f.Recipient[:])
	}
	if f.BlockedBy != "" {
		c.add("s.blocked_by = ? AND s.number = 0", f.BlockedBy)
	}
	if f.Reference != "" {
		c.add("s.reference = ? AND s.reference <> ''", f.Reference)
	}
	if f.Country != "" {
		c.add("s.country = ? AND s.country <> ''", f.Country)
	}
	if f.Domain != "" {
		c.add("s.domain = ? AND s.domain <> ''", f.Domain)
	}
	switch f.Status {
	case "":
	case Queued, Sending:
		c.add("s.status = ? AND s.id {{among}} SELECT f.id FROM flights f {{end}}", string(f.Status))
	case Refused:
		c.add("s.number = 0")
	case Delivered:
		c.add("s.receipt = ? AND s.channel = 'sms' AND s.number > 0 AND s.status IN ('sent', 'unknown')", string(f.Status))
	case Undelivered:
		c.add("s.receipt = ? AND s.status IN ('sent', 'unknown')", string(f.Status))
	case Failed:
		c.add("s.status = ?", string(f.Status))
	default:
		c.add("s.status = ? AND s.receipt = ''", string(f.Status))
	}
	return c
}

// between adds the times and the mark.
func (f sendFilter) between(c *conditions, d dialect) {
	if !f.From.IsZero() {
		c.add("s.logged_at >= ?", d.at(f.From))
	}
	c.logged(d, f.From, f.To)
	if !f.To.IsZero() {
		c.add("s.logged_at < ?", d.at(f.To))
	}
	if f.Before != nil {
		c.add("(s.logged_at, s.id) < (?, ?)", d.at(f.Before.At), f.Before.ID)
		c.logged(d, time.Time{}, f.Before.At)
	}
	if f.After != nil {
		c.add("(s.logged_at, s.id) > (?, ?)", d.at(f.After.At), f.After.ID)
		c.logged(d, f.After.At, time.Time{})
	}
}

// page is how a page is ordered and ends: from its mark on, whichever way that is.
func (f sendFilter) page(columns ...string) string {
	order := " DESC"
	if f.After != nil {
		order = " ASC"
	}
	columns = append(columns, "s.logged_at", "s.id")
	return " ORDER BY " + strings.Join(columns, order+", ") + order + fmt.Sprintf(" LIMIT %d", f.Limit)
}

// astray says that the filter's rows are best found among the failures.
func (f sendFilter) astray() bool {
	return (f.Status == Failed || f.Status == Unknown || f.Status == Undelivered) && f.Recipient == nil && f.Reference+f.Support == ""
}

// query is the filter in SQL for either database.
func (f sendFilter) query(d dialect) (string, []any) {
	c := f.conditions()
	c.kind(f.App, f.Channel, f.Purpose)
	if f.Provider != "" {
		c.add("s.provider = ?", f.Provider)
	}
	if f.astray() {
		return f.failureQuery(d, c)
	}
	f.between(&c, d)
	table := "sends s"
	if r, ok := readReference(f.Support); ok {
		table = supportRows(r, &c)
	} else if f.Support != "" {
		c.add("1 = 0")
	}
	if f.Recipient != nil {
		return f.recipientQuery(table, c), c.args
	}
	return "SELECT " + sendColumns + " FROM " + table + c.where() + f.page(), c.args
}

// recipientQuery reads the sends and the refusals of a recipient, each from an index of its own, and merges them.
func (f sendFilter) recipientQuery(table string, c conditions) string {
	half := func(which string) string {
		return "SELECT * FROM (SELECT " + sendColumns + " FROM " + table + c.where() + " AND " + which + f.page() + ") s"
	}
	return "SELECT s.* FROM (" + half("s.number > 0") + " UNION ALL " + half("s.number = 0") + ") s" + f.page()
}

// failureQuery reads the failures in their order, and looks each send up: that has the last word.
func (f sendFilter) failureQuery(d dialect, c conditions) (string, []any) {
	c.add("f.status = ?", string(f.Status))
	if f.App != "" {
		c.add("f.app = ?", f.App)
	}
	if f.Channel != "" {
		c.add("f.channel = ?", string(f.Channel))
	}
	if !f.From.IsZero() {
		c.add("f.logged_at >= ?", d.at(f.From))
	}
	if !f.To.IsZero() {
		c.add("f.logged_at < ?", d.at(f.To))
	}
	order := " DESC"
	if f.Before != nil {
		c.add("(f.logged_at, f.id) < (?, ?)", d.at(f.Before.At), f.Before.ID)
	}
	if f.After != nil {
		order = " ASC"
		c.add("(f.logged_at, f.id) > (?, ?)", d.at(f.After.At), f.After.ID)
	}
	return fmt.Sprintf("SELECT %s FROM %s%s ORDER BY f.status%[4]s, f.logged_at%[4]s, f.id%[4]s LIMIT %[5]d", sendColumns, d.failures, c.where(), order, f.Limit), c.args
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
