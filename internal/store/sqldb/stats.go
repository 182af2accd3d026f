package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sendcode/internal/store"
)

// Stats implements Statistics.
func (db *DB) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	q, err := q.Checked()
	if err != nil {
		return store.Stats{}, err
	}
	return Reading(ctx, db, func(tx Tx) (store.Stats, error) { return tx.stats(q) })
}

func (tx Tx) stats(q store.StatsQuery) (s store.Stats, err error) {
	c, stretch := StatsConditions(q, *tx.Dialect), tx.Dialect.Stretch("s.logged_at", q)
	if s.Tallies, err = All(tx, func(t *store.Tally) []any { return TallyFields(t, q) }, c.TalliesSQL(stretch), Numbered(c.Args)); err != nil {
		return s, err
	}
	if err = tx.measure(&s, q, c, stretch); err != nil {
		return s, err
	}
	s.Undelivered, err = tx.CountLost(q)
	return s, err
}

// Domains implements Statistics.
func (db *DB) Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error) {
	q, err := q.Checked()
	if err != nil {
		return nil, err
	}
	query, args := domainsQuery(q, db.Dialect)
	return ReadAll(ctx, db, DomainFields, query, Numbered(args))
}

// DomainFields returns the destinations for a row of domainsQuery.
func DomainFields(d *store.DomainTally) []any {
	return []any{&d.Domain, &d.Sends, &d.Failed, &d.Rejected}
}

// MaxDomains are those with the most failures.
const MaxDomains = 10

// domainsQuery returns the statement that counts mails by domain, and its arguments. Few mails fail, and failures have an index; so
// it finds the domains with the most failures first and counts all mails of only these.
func domainsQuery(q store.StatsQuery, d Dialect) (string, []any) {
	c := StatsConditions(q, d)
	return `
WITH failed (domain, failed, rejected) AS (
    SELECT s.domain, count(*), count(CASE WHEN s.reason = '` + store.ReasonRejected + `' THEN 1 END)
    FROM ` + d.Failures + c.Where() + ` AND f.status = 'failed' AND f.logged_at >= $1 AND f.logged_at < $2 AND s.status = 'failed'
      AND s.domain <> ''
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ` + c.addArg(MaxDomains) + `
)
SELECT f.domain, (SELECT count(*) FROM sends s` + c.Where() + ` AND s.number > 0 AND s.domain = f.domain AND s.domain <> ''), f.failed,
  f.rejected
FROM failed f ORDER BY f.failed DESC, f.domain`, c.Args
}

// ApprovalFields returns the destinations for a row of Approvals.
func ApprovalFields(s *store.Interval, q store.StatsQuery) []any {
	return []any{StretchField{&s.At, q}, &s.Opened, &s.Approved}
}

func tookFields(s *store.Interval, q store.StatsQuery) []any {
	return []any{StretchField{&s.At, q}, spanField{&s.Median}, spanField{&s.P95}}
}

// measure queries the measures of each stretch and the times of the whole range, and stores them in s.
func (tx Tx) measure(s *store.Stats, q store.StatsQuery, c Conditions, stretch string) error {
	took := func(x *store.Interval) []any { return tookFields(x, q) }
	by, args, span := map[time.Time]store.Measures{}, Numbered(c.Args), tx.Dialect.Span
	opened, err := All(tx, func(x *store.Interval) []any { return ApprovalFields(x, q) }, c.ApprovalsSQL(stretch), args)
	if err != nil {
		return err
	}
	for _, x := range opened {
		by[x.At] = x.Measures
	}
	sent, err := All(tx, took, c.deliveryPercentiles(stretch, span), args)
	if err != nil {
		return err
	}
	for _, x := range sent {
		m := by[x.At]
		m.Median, m.P95 = x.Median, x.P95
		by[x.At] = m
	}
	sums, err := All(tx, took, c.deliveryPercentiles(whole, span), args)
	if err != nil {
		return err
	}
	var all store.Measures // where nothing was sent there is no row
	for _, x := range sums {
		all = x.Measures
	}
	s.SetMeasures(by, all.Median, all.P95)
	return nil
}

// whole is the stretch of all rows, where each has the same.
const whole = "0"

// RefundFields returns the destinations for a refund.
func RefundFields(r *store.Refund) []any {
	return []any{&r.ID, &r.Attempt, &r.App, &r.Channel, &r.Purpose, hashField{&r.Recipient}}
}

// TallyFields returns the destinations for a row of Tallies.
func TallyFields(t *store.Tally, q store.StatsQuery) []any {
	return []any{StretchField{&t.At, q}, &t.Status, &t.Reason, &t.BlockedBy, &t.Rows, &t.Requests}
}

// StretchField reads the number of a stretch of time since 1970.
type StretchField struct {
	To *time.Time
	Of store.StatsQuery
}

// Scan implements sql.Scanner.
func (f StretchField) Scan(src any) error {
	n, _ := src.(int64)
	*f.To = f.Of.Begins(n)
	return nil
}

// StretchSQL returns the SQL for the number of the stretch of time that a column's instant lies in, also where the zone's offset
// changes. number is the SQL for the number in a zone with that offset; literal writes an instant.
func StretchSQL(column string, q store.StatsQuery, number func(offset time.Duration) string, literal func(time.Time) string) string {
	var b strings.Builder
	all := q.Shifts()
	for i, s := range all[:len(all)-1] {
		fmt.Fprintf(&b, "WHEN %s < %s THEN %s ", column, literal(all[i+1].From), number(s.Offset))
	}
	last := number(all[len(all)-1].Offset)
	if b.Len() == 0 {
		return last
	}
	return "CASE " + b.String() + "ELSE " + last + " END"
}

// StatsConditions returns the conditions that select the rows of a query: time range, app, channel and purpose.
func StatsConditions(q store.StatsQuery, d Dialect) Conditions {
	return StatsConditionsWithArgs(q, d, nil)
}

// StatsConditionsWithArgs is StatsConditions for a statement that has parameters already: new ones are numbered after args.
func StatsConditionsWithArgs(q store.StatsQuery, d Dialect, args []any) Conditions {
	c := Conditions{Args: args}
	c.Add("s.logged_at >= ? AND s.logged_at < ?", q.From, q.To)
	c.addIDRange(d, q.From, q.To)
	c.AddKind(OfSends, q.App, q.Channel, q.Purpose)
	return c
}

// TalliesSQL returns the statement that counts rows by stretch, status, reason and rule. stretch is the SQL for a row's stretch.
func (c Conditions) TalliesSQL(stretch string) string {
	return `SELECT ` + stretch + ` AS stretch, s.status, CASE WHEN s.status IN ('failed', 'unknown') THEN s.reason ELSE '' END, s.blocked_by,
  count(*), sum(s.requests)
FROM sends s` + c.Where() + ` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`
}

// CountLost counts the text messages of the time range that went out and that their carrier later reported as lost.
func (tx Tx) CountLost(q store.StatsQuery) (int, error) {
	c := StatsConditions(q, *tx.Dialect)
	return firstRow(tx, OneColumn[int], `SELECT count(*) FROM `+tx.Dialect.Failures+c.Where()+` AND f.status = 'undelivered' AND f.logged_at >= $1
 AND f.logged_at < $2 AND s.receipt = 'undelivered' AND s.status IN ('sent', 'unknown')`, Numbered(c.Args))
}

// ApprovalsSQL returns the statement that counts, for each stretch, the verifications that were opened and those of them that were
// approved.
func (c Conditions) ApprovalsSQL(stretch string) string {
	return `SELECT ` + stretch + ` AS stretch, count(*), count(v.approved_at)
  FROM sends s JOIN verifications v ON v.id = s.verification_id` + c.Where() + ` AND s.number = 1
GROUP BY 1 ORDER BY 1`
}

// Dimensions are the columns of the sends.
var Dimensions = map[store.Dimension]string{store.ByPurpose: "s.purpose", store.ByApp: "s.app", store.ByCountry: "s.country",
	store.ByCarrier: "s.provider", store.ByDomain: "s.domain"}

// MaxApprovals are those with the most codes.
const MaxApprovals = 20

// ApprovalTallyFields returns the destinations for a row of ApprovalsBy.
func ApprovalTallyFields(x *store.ApprovalTally) []any {
	return []any{&x.Value, &x.Opened, &x.Approved}
}

// ApprovalsBy implements Statistics. It counts rows; Postgres adds hours that are counted ahead.
func (db *DB) ApprovalsBy(ctx context.Context, q store.StatsQuery, by store.Dimension) ([]store.ApprovalTally, error) {
	q, err := q.Checked()
	column, known := Dimensions[by]
	if err != nil || !known {
		return nil, cmp.Or(err, store.Bad("there is no dimension %q", by))
	}
	c := StatsConditions(q, db.Dialect)
	c.Add("s.number = 1 AND " + column + " <> ''")
	return ReadAll(ctx, db, ApprovalTallyFields, `SELECT `+column+`, count(*), count(v.approved_at) FROM sends s JOIN verifications v ON v.id = s.verification_id`+c.Where()+`
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT `+c.addArg(MaxApprovals), Numbered(c.Args))
}

// DeliveryTimes returns the statement that selects the delivery time of each message that was sent. span is the SQL for one, in µs.
func (c Conditions) DeliveryTimes(stretch, span string) string {
	return `SELECT ` + stretch + ` AS stretch, ` + span + ` AS took FROM sends s` + c.Where() +
		` AND s.status IN ('sent', 'delivered', 'undelivered') AND s.finished_at IS NOT NULL`
}

// deliveryPercentiles returns the statement for the median and the 95th percentile of the delivery times of each stretch, by the nearest rank.
func (c Conditions) deliveryPercentiles(stretch, span string) string {
	return `
SELECT stretch, max(CASE WHEN place = (n + 1) / 2 THEN took END), max(CASE WHEN place = (95 * n + 99) / 100 THEN took END)
FROM (SELECT stretch, took, row_number() OVER (PARTITION BY stretch ORDER BY took) AS place, count(*) OVER (PARTITION BY stretch) AS n
      FROM (` + c.DeliveryTimes(stretch, span) + `) sent) placed
GROUP BY stretch ORDER BY stretch`
}
