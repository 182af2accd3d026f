package sqldb

import (
	"fmt"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Conditions collects the conditions of a WHERE clause, with parameters a0, a1 and so on.
type Conditions struct {
	texts []string
	Args  Args
}

// Add takes a value of args for each "?" in text.
func (c *Conditions) Add(text string, args ...any) {
	for _, arg := range args {
		text = strings.Replace(text, "?", c.addArg(arg), 1)
	}
	c.texts = append(c.texts, text)
}

func AddIfSet[T comparable](c *Conditions, text string, value T) {
	var none T
	if value != none {
		c.Add(text, value)
	}
}

// addBefore adds the condition that a row is older than cursor, unless cursor is nil. columns are
// the row's time and ID.
func (c *Conditions) addBefore(columns string, cursor *store.Cursor) {
	if cursor != nil {
		c.Add("("+columns+") < (?, ?)", cursor.At, cursor.ID)
	}
}

// addArg returns the placeholder of the value.
func (c *Conditions) addArg(value any) string {
	if c.Args == nil {
		c.Args = Args{}
	}
	name := fmt.Sprint("a", len(c.Args))
	c.Args[name] = value
	return "@" + name
}

// sendColumnEquals is for AddAppChannelPurpose where s is a send or a counted hour.
const sendColumnEquals = "s.%s = ?"

// AddAppChannelPurpose adds a condition on each of app, channel and purpose that isn't empty. In
// text, %s stands for the column and ? for the value.
func (c *Conditions) AddAppChannelPurpose(text, app string, ch recipient.Channel, purpose string) {
	AddIfSet(c, fmt.Sprintf(text, "app"), app)
	AddIfSet(c, fmt.Sprintf(text, "channel"), ch)
	AddIfSet(c, fmt.Sprintf(text, "purpose"), purpose)
}

// Where returns the WHERE clause, or "" if there are no conditions.
func (c *Conditions) Where() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// codeStateConditions are SQL conditions on a verification v.
var codeStateConditions = map[store.CodeState]string{
	store.CodeEntered:  "v.approved_at IS NOT NULL",
	store.CodeCanceled: "v.approved_at IS NULL AND v.canceled_at IS NOT NULL",
	store.CodeUsedUp:   openCodeSQL + " AND v.attempts >= v.max_attempts",
	store.CodeExpired:  openCodeSQL + " AND v.attempts < v.max_attempts AND NOT v.caller_checks AND v.expires_at <= @now",
	store.CodeWaiting:  openCodeSQL + " AND v.attempts < v.max_attempts AND NOT v.caller_checks AND v.expires_at > @now",
	store.CodeOfCaller: openCodeSQL + " AND v.caller_checks",
}

const openCodeSQL = "v.approved_at IS NULL AND v.canceled_at IS NULL"

type SendFilter struct{ store.Filter }

// Conditions returns the filter's conditions, and adds their values to args. It leaves out app,
// channel, purpose, provider and support reference, which callers add as their statements need
// them, and the time range, which AddTimeRange adds. Some conditions look redundant, but let the
// planner use a partial index.
func (f SendFilter) Conditions(d dialect, args Args) Conditions {
	c := Conditions{Args: args}
	if f.Recipient != nil {
		c.Add("s.recipient = ?", f.Recipient[:])
	}
	byRule := "s.blocked_by = ?"
	if d == SQLite && f.Recipient != nil {
		byRule = "+" + byRule // the plus keeps SQLite from using the index on rules
	}
	AddIfSet(&c, byRule, f.BlockedBy)
	for name, text := range f.Labels.All() {
		AddIfSet(&c, fmt.Sprintf("s.%[1]s = ? AND s.%[1]s <> ''", name), text)
	}
	// SQLite should use the column's index only if there is neither a recipient nor a label
	equals := "s.%[1]s = ?"
	if d == Postgres || f.Recipient == nil && f.Labels == (store.Labels{}) {
		equals += " AND s.%[1]s <> ''"
	}
	AddIfSet(&c, fmt.Sprintf(equals, "country"), f.Country)
	AddIfSet(&c, fmt.Sprintf(equals, "domain"), f.Domain)
	AddIfSet(&c, "s.network = ?", f.Network)
	AddIfSet(&c, "s.request_id = ?", f.Request)
	if f.Outcome != "" {
		c.Add("EXISTS (SELECT 1 FROM verifications v WHERE v.id = s.verification_id AND " + codeStateConditions[f.Outcome] + ")")
	}
	switch f.Status {
	case "", store.Refused:
	case store.Queued, store.Sending:
		c.Add("s.status = ? AND s.id "+d.inSubquery("SELECT f.id FROM outbox f"), string(f.Status))
	case store.Delivered:
		c.Add("s.receipt = ? AND s.channel = 'sms' AND s.status IN ('sent', 'unknown')", string(f.Status))
	case store.Undelivered:
		c.Add("s.receipt = ? AND s.status IN ('sent', 'unknown')", string(f.Status))
	case store.Failed:
		c.Add("s.status = ?", string(f.Status))
	default:
		c.Add("s.status = ? AND s.receipt = ''", string(f.Status))
	}
	return c
}

// AddTimeRange adds From, To, Before and After. With hideFromPlanner, it adds them in a form that
// no index serves, so that the planner uses the index which the caller's conditions bound already.
func (f SendFilter) AddTimeRange(c *Conditions, d dialect, from RowSource, hideFromPlanner bool) {
	partitioned := d == Postgres && from == SendRows
	add := func(text string, args ...any) {
		if hideFromPlanner {
			text = "(" + text + ") IS TRUE"
		}
		c.Add(text, args...)
	}
	if !f.From.IsZero() {
		add("s.logged_at >= ?", f.From)
	}
	c.addIDRange(partitioned, f.From, f.To)
	if !f.To.IsZero() {
		add("s.logged_at < ?", f.To)
	}
	if f.Before != nil {
		add("(s.logged_at, s.id) < (?, ?)", f.Before.At, f.Before.ID)
		c.addIDRange(partitioned, time.Time{}, f.Before.At)
	}
	if f.After != nil {
		add("(s.logged_at, s.id) > (?, ?)", f.After.At, f.After.ID)
		c.addIDRange(partitioned, f.After.At, time.Time{})
	}
}

// OrderLimitSQL sorts by columns, then time and ID, newest first, or oldest first with After.
func (f SendFilter) OrderLimitSQL(columns ...string) string {
	order := " DESC"
	if f.After != nil {
		order = " ASC"
	}
	columns = append(columns, "s.logged_at", "s.id")
	return " ORDER BY " + strings.Join(columns, order+", ") + order + fmt.Sprintf(" LIMIT %d", f.Limit)
}

// ReadsFailuresFirst reports whether the rows are best found through the table failures.
func (f SendFilter) ReadsFailuresFirst() bool {
	return (f.Status == store.Failed || f.Status == store.Unknown || f.Status == store.Undelivered) &&
		f.Recipient == nil && f.Labels == store.Labels{} && f.Support == ""
}

// MatchesMany reports whether the conditions that an index can serve are usually met by many rows,
// apart from those on app, channel, purpose and provider. No index serves Network, Request and
// Outcome.
func (f SendFilter) MatchesMany() bool {
	return f.Recipient == nil && f.Labels == store.Labels{} && f.BlockedBy+f.Country+f.Domain+f.Support == "" &&
		(f.Status == "" || f.Status == store.Sent || f.Status == store.Delivered || f.Status == store.Refused)
}

// RowSource is sends or refusals, with the SELECT list that makes a store.SendOrRefusal.
type RowSource struct{ Table, Columns string }

var (
	SendRows    = RowSource{"sends", SendOrRefusalColumns}
	refusalRows = RowSource{"refusals", refusalColumns}
)

func (s RowSource) selectWhere(where string) string {
	return "SELECT " + s.Columns + " FROM " + s.Table + " s WHERE " + where
}

// sendsAndRefusalsSQL takes a condition on rows s.
func sendsAndRefusalsSQL(where string) string {
	return SendRows.selectWhere(where) + " UNION ALL " + refusalRows.selectWhere(where)
}

func (f SendFilter) Query(d dialect) (string, Args) {
	return f.MergePages(func(from RowSource, args Args) (string, Args) { return f.tableQuery(d, from, args) })
}

// MergePages returns a statement that merges a page of sends with a page of refusals, or the
// statement for one of these tables if only that can have rows. page returns a table's statement,
// and args with those of the statement added.
func (f SendFilter) MergePages(page func(from RowSource, args Args) (string, Args)) (string, Args) {
	switch {
	case !f.MayMatchRefusals():
		return page(SendRows, nil)
	case !f.MayMatchSends():
		return page(refusalRows, nil)
	}
	sends, args := page(SendRows, nil)
	refusals, args := page(refusalRows, args)
	return "SELECT s.* FROM (SELECT * FROM (" + sends + ") a UNION ALL SELECT * FROM (" + refusals + ") b) s" +
		f.OrderLimitSQL(), args
}

// tableQuery is the page function of Query's MergePages.
func (f SendFilter) tableQuery(d dialect, from RowSource, args Args) (string, Args) {
	c := f.Conditions(d, args)
	c.AddAppChannelPurpose(sendColumnEquals, f.App, f.Channel, f.Purpose)
	AddIfSet(&c, "s.provider = ?", f.Provider)
	if d == SQLite && f.MatchesMany() { // each condition lets the planner use a partial index
		if f.Provider != "" {
			c.Add("s.provider <> ''")
		}
		if f.Status == store.Delivered {
			c.Add("s.receipt <> ''")
		}
	}
	if f.ReadsFailuresFirst() {
		return f.failureQuery(d, c)
	}
	f.AddTimeRange(&c, d, from, false)
	table := from.Table + " s"
	if r, ok := store.ParseSupportReference(f.Support); ok {
		table = supportReferenceSubquery(from, r, &c)
	} else if f.Support != "" {
		c.Add("1 = 0")
	}
	return "SELECT " + from.Columns + " FROM " + table + c.Where() + f.OrderLimitSQL(), c.Args
}

// failureQuery reads failures in the order of the page, and looks up their sends, which must meet
// the other conditions.
func (f SendFilter) failureQuery(d dialect, c Conditions) (string, Args) {
	c.Add("f.status = ?", string(f.Status))
	AddIfSet(&c, "f.app = ?", f.App)
	AddIfSet(&c, "f.channel = ?", f.Channel)
	AddIfSet(&c, "f.logged_at >= ?", f.From)
	AddIfSet(&c, "f.logged_at < ?", f.To)
	c.addBefore("f.logged_at, f.id", f.Before)
	order := " DESC"
	if f.After != nil {
		order = " ASC"
		c.Add("(f.logged_at, f.id) > (?, ?)", f.After.At, f.After.ID)
	}
	return fmt.Sprintf("SELECT %s FROM %s%s ORDER BY f.status%[4]s, f.logged_at%[4]s, f.id%[4]s LIMIT %[5]d",
		SendOrRefusalColumns,
		d.pick(failuresFromSQL), c.Where(), order, f.Limit), c.Args
}

// supportReferenceSubquery returns a subquery s of the rows with the reference. OFFSET 0 makes the
// planner find them by their IDs, whatever the other conditions.
func supportReferenceSubquery(source RowSource, r store.SupportRange, c *Conditions) string {
	from, to := r.IDRange()
	parity := "NOT IN"
	if r.Tail>>8 == 1 {
		parity = "IN"
	}
	return fmt.Sprintf(`(SELECT * FROM %s s WHERE s.id >= %s AND s.id < %s AND substr(CAST(s.id AS text), 35) = %s
 AND substr(CAST(s.id AS text), 34, 1) %s ('1', '3', '5', '7', '9', 'b', 'd', 'f') LIMIT %d OFFSET 0) s`,
		source.Table, c.addArg(from), c.addArg(to), c.addArg(fmt.Sprintf("%02x", r.Tail&0xff)), parity,
		store.MaxSupportSearchRows)
}

// PostgresPartitionsSinceSQL returns a condition that every send s logged at or after at (SQL)
// meets. It bounds the IDs, which begin with a time, so that Postgres skips earlier partitions. The
// second half of the OR adds no rows, but keeps the planner from using the index by ID: it would
// read all rows of the time range, although another index finds the rows faster.
func PostgresPartitionsSinceSQL(at string) string {
	at = "sendcode_lowest_id(CAST(" + at + " AS timestamptz) - " + PostgresIntervalSQL(store.MaxIDTimeDrift) + ")"
	return "(s.id >= " + at + " OR s.id > " + at + ")"
}

// addIDRange bounds the IDs on each side as PostgresPartitionsSinceSQL does, for the same reason. A
// zero time bounds nothing.
func (c *Conditions) addIDRange(partitioned bool, from, to time.Time) {
	if partitioned && !from.IsZero() {
		lowest := store.LowestID(from.Add(-store.MaxIDTimeDrift))
		c.Add("(s.id >= ? OR s.id > ?)", lowest, lowest)
	}
	if partitioned && !to.IsZero() {
		highest := store.LowestID(to.Add(store.MaxIDTimeDrift + time.Millisecond))
		c.Add("(s.id < ? OR s.id <= ?)", highest, highest)
	}
}

func PostgresIntervalSQL(d time.Duration) string {
	return fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
}
