package sqldb

import (
	"fmt"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Conditions collects what rows must fulfil, with numbered parameters, which both databases understand.
type Conditions struct {
	texts []string
	Args  []any
}

// Add appends a condition whose parameters are written as "?".
func (c *Conditions) Add(text string, args ...any) {
	for _, arg := range args {
		text = strings.Replace(text, "?", c.arg(arg), 1)
	}
	c.texts = append(c.texts, text)
}

// AddSome is Add of a condition on one value, where there is one.
func AddSome[T comparable](c *Conditions, text string, value T) {
	var none T
	if value != none {
		c.Add(text, value)
	}
}

// Before adds that a row lies before a mark in its list, where there is one; at is its instant's column and its ID's.
func (c *Conditions) Before(columns string, mark *store.Mark) {
	if mark != nil {
		c.Add("("+columns+") < (?, ?)", mark.At, mark.ID)
	}
}

// arg is the number of a new parameter.
func (c *Conditions) arg(value any) string {
	c.Args = append(c.Args, value)
	return fmt.Sprint("$", len(c.Args))
}

// OfSends is the text for Kind where rows are sends.
const OfSends = "s.%s = ?"

// Kind adds a condition for each of them that is not empty: the text, where %s is the column's name.
func (c *Conditions) Kind(text, app string, ch recipient.Channel, purpose string) {
	AddSome(c, fmt.Sprintf(text, "app"), app)
	AddSome(c, fmt.Sprintf(text, "channel"), ch)
	AddSome(c, fmt.Sprintf(text, "purpose"), purpose)
}

// Where is the WHERE clause of the conditions.
func (c *Conditions) Where() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// outcomes says what a code's columns are for each outcome.
var outcomes = map[store.CodeState]string{
	store.CodeEntered:  "v.approved_at IS NOT NULL",
	store.CodeCanceled: "v.approved_at IS NULL AND v.canceled_at IS NOT NULL",
	store.CodeLocked:   open + " AND v.attempts >= v.max_attempts",
	store.CodeExpired:  open + " AND v.attempts < v.max_attempts AND v.expires_at <= @now",
	store.CodeWaiting:  open + " AND v.attempts < v.max_attempts AND v.expires_at > @now",
}

const open = "v.approved_at IS NULL AND v.canceled_at IS NULL"

// SendFilter is a Filter in SQL.
type SendFilter struct{ store.Filter }

// Conditions are the filter in SQL but for times, app, channel, purpose and provider. What is said twice lets the planner use a partial
// index.
func (f SendFilter) Conditions() Conditions { return f.ConditionsAfter(nil) }

// ConditionsAfter are the same in a statement that has these parameters already.
func (f SendFilter) ConditionsAfter(args []any) Conditions {
	c := Conditions{Args: args}
	if f.Recipient != nil {
		c.Add("s.recipient = ?", f.Recipient[:])
	}
	AddSome(&c, "s.blocked_by = ? AND s.number = 0", f.BlockedBy)
	AddSome(&c, "s.reference = ? AND s.reference <> ''", f.Reference)
	AddSome(&c, "s.country = ? AND s.country <> ''", f.Country)
	AddSome(&c, "s.domain = ? AND s.domain <> ''", f.Domain)
	AddSome(&c, "s.ip = ?", f.Network)
	if f.Outcome != "" {
		c.Add("s.number > 0 AND EXISTS (SELECT 1 FROM verifications v WHERE v.id = s.verification_id AND " + outcomes[f.Outcome] + ")")
	}
	switch f.Status {
	case "":
	case store.Queued, store.Sending:
		c.Add("s.status = ? AND s.id {{among}} SELECT f.id FROM flights f {{end}}", string(f.Status))
	case store.Refused:
		c.Add("s.number = 0")
	case store.Delivered:
		c.Add("s.receipt = ? AND s.channel = 'sms' AND s.number > 0 AND s.status IN ('sent', 'unknown')", string(f.Status))
	case store.Undelivered:
		c.Add("s.receipt = ? AND s.status IN ('sent', 'unknown')", string(f.Status))
	case store.Failed:
		c.Add("s.status = ?", string(f.Status))
	default:
		c.Add("s.status = ? AND s.receipt = ''", string(f.Status))
	}
	return c
}

// Between adds the times and the mark. In Postgres, with sought, an index has been entered by them already: they are then written in words
// of use to no index, so that no other is.
func (f SendFilter) Between(c *Conditions, d Dialect, sought bool) {
	add := func(text string, args ...any) {
		if sought {
			text = "(" + text + ") IS TRUE"
		}
		c.Add(text, args...)
	}
	if !f.From.IsZero() {
		add("s.logged_at >= ?", f.From)
	}
	c.logged(d, f.From, f.To)
	if !f.To.IsZero() {
		add("s.logged_at < ?", f.To)
	}
	if f.Before != nil {
		add("(s.logged_at, s.id) < (?, ?)", f.Before.At, f.Before.ID)
		c.logged(d, time.Time{}, f.Before.At)
	}
	if f.After != nil {
		add("(s.logged_at, s.id) > (?, ?)", f.After.At, f.After.ID)
		c.logged(d, f.After.At, time.Time{})
	}
}

// Page is how a page is ordered and ends: from its mark on, whichever way that is.
func (f SendFilter) Page(columns ...string) string {
	order := " DESC"
	if f.After != nil {
		order = " ASC"
	}
	columns = append(columns, "s.logged_at", "s.id")
	return " ORDER BY " + strings.Join(columns, order+", ") + order + fmt.Sprintf(" LIMIT %d", f.Limit)
}

// Astray says that the filter's rows are best found among the failures.
func (f SendFilter) Astray() bool {
	return (f.Status == store.Failed || f.Status == store.Unknown || f.Status == store.Undelivered) && f.Recipient == nil &&
		f.Reference+f.Support == ""
}

// Query is the filter in SQL for either database.
func (f SendFilter) Query(d Dialect) (string, []any) {
	c := f.Conditions()
	c.Kind(OfSends, f.App, f.Channel, f.Purpose)
	AddSome(&c, "s.provider = ?", f.Provider)
	if f.Astray() {
		return f.failureQuery(d, c)
	}
	f.Between(&c, d, false)
	table := "sends s"
	if r, ok := store.ReadReference(f.Support); ok {
		table = supportRows(r, &c)
	} else if f.Support != "" {
		c.Add("1 = 0")
	}
	if f.Recipient != nil {
		return f.recipientQuery(table, c), c.Args
	}
	return "SELECT " + SendColumns + " FROM " + table + c.Where() + f.Page(), c.Args
}

// recipientQuery reads the sends and the refusals of a recipient, each from an index of its own, and merges them.
func (f SendFilter) recipientQuery(table string, c Conditions) string {
	half := func(which string) string {
		return "SELECT * FROM (SELECT " + SendColumns + " FROM " + table + c.Where() + " AND " + which + f.Page() + ") s"
	}
	return "SELECT s.* FROM (" + half("s.number > 0") + " UNION ALL " + half("s.number = 0") + ") s" + f.Page()
}

// failureQuery reads the failures in their order, and looks each send up: that has the last word.
func (f SendFilter) failureQuery(d Dialect, c Conditions) (string, []any) {
	c.Add("f.status = ?", string(f.Status))
	AddSome(&c, "f.app = ?", f.App)
	AddSome(&c, "f.channel = ?", f.Channel)
	AddSome(&c, "f.logged_at >= ?", f.From)
	AddSome(&c, "f.logged_at < ?", f.To)
	c.Before("f.logged_at, f.id", f.Before)
	order := " DESC"
	if f.After != nil {
		order = " ASC"
		c.Add("(f.logged_at, f.id) > (?, ?)", f.After.At, f.After.ID)
	}
	return fmt.Sprintf("SELECT %s FROM %s%s ORDER BY f.status%[4]s, f.logged_at%[4]s, f.id%[4]s LIMIT %[5]d", SendColumns, d.Failures,
		c.Where(), order, f.Limit), c.Args
}

// supportRows are those of the reference in SQL, as a table: looked up by their IDs, whatever else is asked of them.
func supportRows(r store.SupportRange, c *Conditions) string {
	from, to := r.Between()
	parity := "NOT IN"
	if r.Tail>>8 == 1 {
		parity = "IN"
	}
	return fmt.Sprintf(`(SELECT * FROM sends s WHERE s.id >= %s AND s.id < %s AND substr(CAST(s.id AS text), 35) = %s
 AND substr(CAST(s.id AS text), 34, 1) %s ('1', '3', '5', '7', '9', 'b', 'd', 'f') LIMIT %d OFFSET 0) s`,
		c.arg(from), c.arg(to), c.arg(fmt.Sprintf("%02x", r.Tail&0xff)), parity, store.MaxReferenced)
}

// LoggedSince says of a statement's rows that none was logged before an instant, for partitions to be left out by; at is SQL. Either half
// is the whole condition. An OR is of use to no index, so the planner can't come to read all rows of the time instead of one
// recipient's.
func LoggedSince(at string) string {
	at = "sendcode_lowest_id(" + at + " - " + Interval(store.MaxDrift) + ")"
	return "(s.id >= " + at + " OR s.id > " + at + ")"
}

// ClockStep is how far the log's clock may be set back at once.
const ClockStep = time.Hour

// logged adds the same for instants that are known here, and for the other end; for the partitioned log alone.
func (c *Conditions) logged(d Dialect, from, to time.Time) {
	if d.Partitioned && !from.IsZero() {
		lowest := store.LowestID(from.Add(-store.MaxDrift))
		c.Add("(s.id >= ? OR s.id > ?)", lowest, lowest)
	}
	if d.Partitioned && !to.IsZero() {
		highest := store.LowestID(to.Add(store.MaxDrift + time.Millisecond))
		c.Add("(s.id < ? OR s.id <= ?)", highest, highest)
	}
}

// Interval is a time in SQL of Postgres.
func Interval(d time.Duration) string {
	return fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
}
