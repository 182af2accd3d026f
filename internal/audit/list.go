package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// dialect is what the two databases say differently.
type dialect struct {
	at          func(time.Time) any       // an instant as a parameter
	among       func(query string) string // that a value is one of a query's, looked up and not joined
	failures    string                    // the sends s of failures f: each looked up by its key
	partitioned bool                      // sends are, by time
}

var (
	postgresWords = dialect{
		at:       func(t time.Time) any { return t },
		among:    func(query string) string { return "= ANY (ARRAY(" + query + "))" },
		failures: "failures f CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = f.id LIMIT 1) s", partitioned: true,
	}
	sqliteWords = dialect{
		at:       func(t time.Time) any { return µs(t) },
		among:    func(query string) string { return "IN (" + query + ")" },
		failures: "failures f CROSS JOIN sends s ON s.id = f.id",
	}
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
func (f Filter) conditions(d dialect) conditions { return f.conditionsAfter(d, nil) }

// conditionsAfter are the same in a statement that has these parameters already.
func (f Filter) conditionsAfter(d dialect, args []any) conditions {
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
		c.add("s.status = ? AND s.id "+d.among("SELECT f.id FROM flights f"), string(f.Status))
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
func (f Filter) between(c *conditions, d dialect) {
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

// astray says that the filter's rows are best found among the failures.
func (f Filter) astray() bool {
	return (f.Status == Failed || f.Status == Unknown || f.Status == Undelivered) && f.Recipient == nil && f.Reference+f.Support == ""
}

// query is the filter in SQL for either database.
func (f Filter) query(d dialect) (string, []any) {
	c := f.conditions(d)
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
		table = r.rows(&c)
	} else if f.Support != "" {
		c.add("1 = 0")
	}
	if f.Recipient != nil {
		return f.recipientQuery(table, c), c.args
	}
	return "SELECT " + sendColumns + " FROM " + table + c.where() + f.page(), c.args
}

// recipientQuery reads the sends and the refusals of a recipient, each from an index of its own, and merges them.
func (f Filter) recipientQuery(table string, c conditions) string {
	half := func(which string) string {
		return "SELECT * FROM (SELECT " + sendColumns + " FROM " + table + c.where() + " AND " + which + f.page() + ") s"
	}
	return "SELECT s.* FROM (" + half("s.number > 0") + " UNION ALL " + half("s.number = 0") + ") s" + f.page()
}

// failureQuery reads the failures in their order, and looks each send up: that has the last word.
func (f Filter) failureQuery(d dialect, c conditions) (string, []any) {
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

// common says that no other condition of the filter finds few rows.
func (f Filter) common() bool {
	return f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" && (f.Status == "" || f.Status == Sent || f.Status == Delivered)
}

// postgresQuery is the filter in Postgres, whose log is too long to be looked through for what is rare.
func (f Filter) postgresQuery() (string, []any) {
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
func (f Filter) kindQuery() (string, []any) {
	c := f.conditions(postgresWords)
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
func (f Filter) kindBounds(c *conditions) {
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
func (f Filter) minuteQuery(field, value string) (string, []any) {
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
	c := f.conditionsAfter(postgresWords, minutes.args)
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
