package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// statsPart is a part of a query's time range.
type statsPart struct {
	store.StatsQuery
	counted bool // the part has whole hours with stored counts; otherwise it is read from rows
}

// statsParts divides the time range of q: first the hours with stored counts, if there are any,
// then the times before and after them. It returns one part, to be read from rows, if no hour has
// counts, if there is a gap between such hours, or if q.IntervalLength isn't a whole number of
// hours.
func (t Tx) statsParts(q store.StatsQuery) ([]statsPart, error) {
	if q.IntervalLength%time.Hour != 0 {
		return []statsPart{{q, false}}, nil
	}
	var first, last time.Time
	var n int
	_, err := t.Run(`SELECT min(hour), max(hour), count(*) FROM counted_hours WHERE hour >= @from AND hour <= @to`,
		Args{"from": q.From, "to": q.To.Add(-time.Hour)},
		func(read Scan) error { return read(sqlgen.ScannerFor(&first), sqlgen.ScannerFor(&last), &n) })
	if err != nil || n == 0 || last.Sub(first) != time.Duration(n-1)*time.Hour {
		return []statsPart{{q, false}}, err
	}
	hours, before, after := statsPart{q, true}, statsPart{q, false}, statsPart{q, false}
	hours.From, hours.To = first, last.Add(time.Hour)
	before.To, after.From = hours.From, hours.To
	return slices.DeleteFunc([]statsPart{hours, before, after}, func(p statsPart) bool { return !p.From.Before(p.To) }), nil
}

// unionOfParts returns a subquery of all parts, and its arguments. hoursSelect reads a table s of
// stored counts, rowsSelect rows s of sends and refusals; "%s" in them stands for the WHERE clause.
func (t Tx) unionOfParts(parts []statsPart, hoursSelect, rowsSelect string) (subquery string, args Args) {
	var texts []string
	for _, p := range parts {
		c, text := Conditions{Args: args}, hoursSelect
		if p.counted {
			c.Add("s.hour >= ? AND s.hour < ?", p.From, p.To)
			c.AddAppChannelPurpose(sendColumnEquals, p.App, p.Channel, p.Purpose)
		} else {
			c, text = StatsConditions(p.StatsQuery, t.Dialect, args), rowsSelect
		}
		texts, args = append(texts, fmt.Sprintf(text, c.Where())), c.Args
	}
	return "(" + strings.Join(texts, " UNION ALL ") + ") part", args
}

// StatsConditions returns the conditions on time range, app, channel and purpose. Their parameters
// are added to args.
func StatsConditions(q store.StatsQuery, d dialect, args Args) Conditions {
	c := Conditions{Args: args}
	c.Add("s.logged_at >= ? AND s.logged_at < ?", q.From, q.To)
	c.addIDRange(d == Postgres, q.From, q.To)
	c.AddAppChannelPurpose(sendColumnEquals, q.App, q.Channel, q.Purpose)
	return c
}

func (db *DB) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	q, err := q.Validated()
	if err != nil {
		return store.Stats{}, err
	}
	return readLong(ctx, db, "Stats", func(tx Tx) (store.Stats, error) { return tx.stats(q) })
}

func (t Tx) stats(q store.StatsQuery) (s store.Stats, err error) {
	parts, err := t.statsParts(q)
	if err != nil {
		return s, err
	}
	measures := map[time.Time]store.Measures{}
	if s.Tallies, err = t.tallies(q, parts, measures); err != nil {
		return s, err
	}
	for _, m := range measures {
		s.Opened, s.Approved = s.Opened+m.Opened, s.Approved+m.Approved
	}
	if s.Median, s.P95, err = t.deliveryTimes(q, parts, measures); err != nil {
		return s, err
	}
	for _, at := range slices.SortedFunc(maps.Keys(measures), time.Time.Compare) {
		if measures[at] != (store.Measures{}) {
			s.Intervals = append(s.Intervals, store.StatsInterval{At: at, Measures: measures[at]})
		}
	}
	// text messages that went out, but whose carrier later reported them as lost
	c := StatsConditions(q, t.Dialect, Args{"from": q.From, "to": q.To})
	s.Undelivered, err = queryFirst(t, OneColumn[int], `SELECT count(*) FROM `+t.Dialect.pick(failuresFromSQL)+c.Where()+`
 AND f.status = 'undelivered' AND f.logged_at >= @from AND f.logged_at < @to
 AND s.receipt = 'undelivered' AND s.status IN ('sent', 'unknown')`, c.Args)
	if err != nil {
		return s, err
	}
	r := Conditions{Args: Args{}}
	r.Add("v.not_me_at >= ? AND v.not_me_at < ?", q.From, q.To)
	r.AddAppChannelPurpose("v.%s = ?", q.App, q.Channel, q.Purpose)
	s.Reported, err = queryFirst(t, OneColumn[int], `SELECT count(*) FROM verifications v`+r.Where(), r.Args)
	return s, err
}

// tallies counts rows by interval, status, reason and rule, and adds the numbers of opened and
// approved verifications to each interval's measures.
func (t Tx) tallies(q store.StatsQuery, parts []statsPart, measures map[time.Time]store.Measures) ([]store.StatusCount, error) {
	type row struct {
		store.StatusCount
		opened, approved int
	}
	subquery, args := t.unionOfParts(parts, `
SELECT `+t.Dialect.intervalSQL("s.hour", q)+
		` AS interval_no, s.status, s.reason, s.blocked_by, s.rows AS n, s.requests, s.opened, s.approved
FROM hour_tallies s%s`, `
SELECT `+t.Dialect.intervalSQL("s.logged_at", q)+` AS interval_no, s.status,
  CASE WHEN s.status IN ('failed', 'unknown') THEN s.reason ELSE '' END AS reason, '' AS blocked_by, count(*) AS n,
  count(*) AS requests, count(v.id) AS opened, count(v.approved_at) AS approved
FROM sends s LEFT JOIN verifications v ON s.number = 1 AND v.id = s.verification_id AND `+CountedCodeSQL+`%[1]s GROUP BY 1, 2, 3
UNION ALL
SELECT `+t.Dialect.intervalSQL("s.logged_at", q)+`, 'refused', '', s.blocked_by, count(*), sum(s.requests), 0, 0
FROM refusals s%[1]s GROUP BY 1, 4`)
	rows, err := QueryAll(t, func(r *row) []any {
		return []any{
			intervalStartScanner{&r.At, q},
			&r.Status, &r.Reason, &r.BlockedBy, &r.Rows, &r.Requests, &r.opened,
			&r.approved,
		}
	}, `SELECT interval_no, status, reason, blocked_by, `+sumColumns("n", "requests", "opened", "approved")+` FROM `+subquery+`
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, args)
	var tallies []store.StatusCount
	for _, r := range rows {
		m := measures[r.At]
		m.Opened, m.Approved = m.Opened+r.opened, m.Approved+r.approved
		tallies, measures[r.At] = append(tallies, r.StatusCount), m
	}
	return tallies, err
}

// StopCounts counts, for each purpose, the requests in [from, to) that were refused, by rule, and
// the sends that failed, by reason. It reads the stored counts of hours that have them.
func (db *DB) StopCounts(ctx context.Context, from, to time.Time) ([]store.StopCount, error) {
	q, err := store.StatsQuery{From: from, To: to, IntervalLength: time.Hour}.Validated()
	if err != nil {
		return nil, err
	}
	return readLong(ctx, db, "StopCounts", func(tx Tx) ([]store.StopCount, error) { return tx.stopCounts(q) })
}

func (t Tx) stopCounts(q store.StatsQuery) ([]store.StopCount, error) {
	parts, err := t.statsParts(q)
	if err != nil {
		return nil, err
	}
	subquery, args := t.unionOfParts(parts, `
SELECT s.purpose, s.blocked_by, s.reason, s.requests AS n FROM hour_tallies s%s AND s.status IN ('refused', 'failed')`, `
SELECT s.purpose, s.blocked_by, '' AS reason, s.requests AS n FROM refusals s%[1]s
UNION ALL
SELECT s.purpose, '' AS blocked_by, s.reason, 1 AS n FROM sends s%[1]s AND s.status = 'failed'`)
	return QueryAll(t, func(c *store.StopCount) []any { return []any{&c.Purpose, &c.BlockedBy, &c.Reason, &c.Requests} },
		`SELECT purpose, blocked_by, reason, `+sumColumns("n")+` FROM `+subquery+` GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, args)
}

// sumColumns returns a SELECT list with the sums of the columns.
func sumColumns(columns ...string) string {
	return "CAST(sum(" + strings.Join(columns, ") AS bigint), CAST(sum(") + ") AS bigint)"
}

type deliveryTimeCount struct {
	at     time.Time
	bucket int64
	n      int
}

// deliveryTimes sets each interval's percentiles in measures, and returns those of the whole range.
func (t Tx) deliveryTimes(q store.StatsQuery, parts []statsPart, measures map[time.Time]store.Measures) (median,
	p95 time.Duration, err error,
) {
	subquery, args := t.unionOfParts(parts,
		`SELECT `+t.Dialect.intervalSQL("s.hour", q)+` AS interval_no, s.bucket, s.n FROM hour_times s%s`, `
SELECT `+t.Dialect.intervalSQL("s.logged_at", q)+` AS interval_no, `+t.Dialect.pick(deliveryTimeBucketSQL)+` AS bucket, count(*) AS n
FROM sends s%s AND s.status IN ('sent', 'delivered', 'undelivered') AND s.finished_at IS NOT NULL GROUP BY 1, 2`)
	all, err := QueryAll(t, func(d *deliveryTimeCount) []any { return []any{intervalStartScanner{&d.at, q}, &d.bucket, &d.n} },
		`SELECT interval_no, bucket, `+sumColumns("n")+` FROM `+subquery+` GROUP BY 1, 2 ORDER BY 2, 1`, args)
	intervals := map[time.Time][]deliveryTimeCount{}
	for _, d := range all {
		intervals[d.at] = append(intervals[d.at], d)
	}
	for at, list := range intervals {
		m := measures[at]
		m.Median, m.P95 = percentile(list, 50), percentile(list, 95)
		measures[at] = m
	}
	return percentile(all, 50), percentile(all, 95), err
}

// percentile takes a sorted list, shortest first, and returns the time of the nearest rank; 0
// without messages.
func percentile(list []deliveryTimeCount, percent int) time.Duration {
	sum := 0
	for _, d := range list {
		sum += d.n
	}
	left := (percent*sum + 99) / 100
	for _, d := range list {
		left -= d.n
		if left <= 0 {
			return time.Duration(math.Pow(deliveryTimeBucketBase, float64(d.bucket)+0.5)) * time.Microsecond
		}
	}
	return 0
}

// intervalStartScanner scans the number of an interval into its start.
type intervalStartScanner struct {
	to *time.Time
	of store.StatsQuery
}

// Scan implements sql.Scanner.
func (i intervalStartScanner) Scan(src any) error {
	n, _ := src.(int64)
	*i.to = i.of.StartOfInterval(n)
	return nil
}

// intervalSQL is zoneIntervalSQL with the zone's offset at the time of column, which can change
// within q's time range.
func (d dialect) intervalSQL(column string, q store.StatsQuery) string {
	var b strings.Builder
	all := q.ZoneOffsets()
	for i, s := range all[:len(all)-1] {
		fmt.Fprintf(&b, "WHEN %s < %s THEN %s ", column, d.instantSQL(all[i+1].From),
			d.zoneIntervalSQL(column, s.Offset, q.IntervalLength))
	}
	last := d.zoneIntervalSQL(column, all[len(all)-1].Offset, q.IntervalLength)
	if b.Len() == 0 {
		return last
	}
	return "CASE " + b.String() + "ELSE " + last + " END"
}

// zoneIntervalSQL computes the number of the interval that has the time of column. Intervals are of
// the length each, and interval 0 begins with 1970 at the zone's offset.
func (d dialect) zoneIntervalSQL(column string, offset, each time.Duration) string {
	if d == SQLite {
		return fmt.Sprintf("(%s + %d) / %d", column, offset.Microseconds(), each.Microseconds())
	}
	return fmt.Sprintf("floor((extract(epoch FROM %s) + %d) / %d)::bigint", column, offset/time.Second,
		each/time.Second)
}

func (d dialect) instantSQL(at time.Time) string {
	return fmt.Sprintf(d.pick(dialectSQL{"to_timestamp(%[1]d)", "%[2]d"}), at.Unix(), at.UnixMicro())
}

// deliveryTimeBucketBase is the ratio of the widths of neighboring buckets of delivery times. A
// time is shown as the middle of its bucket, at most 2 % off.
const deliveryTimeBucketBase = 1.04

// deliveryTimeBucketSQL is the number of the bucket of a send, which is the row s.
var deliveryTimeBucketSQL = dialectSQL{
	Postgres: fmt.Sprintf(`floor(ln(greatest(extract(epoch FROM s.finished_at - s.logged_at) * 1000000, 1)::float8) / ln(%v))::int`,
		deliveryTimeBucketBase),
	SQLite: fmt.Sprintf(`CAST(floor(ln(max(s.finished_at - s.logged_at, 1)) / ln(%v)) AS INTEGER)`, deliveryTimeBucketBase),
}

const (
	maxDomains   = 10
	maxApprovals = 20
)

// DomainTallies returns the maxDomains mail domains with the most failed sends, the worst first.
func (db *DB) DomainTallies(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error) {
	q, err := q.Validated()
	if err != nil {
		return nil, err
	}
	return readLong(ctx, db, "DomainTallies", func(tx Tx) ([]store.DomainTally, error) {
		parts, err := tx.statsParts(q)
		if err != nil {
			return nil, err
		}
		query, args := failedDomainsSQL(q, tx.Dialect)
		if parts[0].counted {
			query, args = tx.unionOfParts(parts, `SELECT s.domain, s.sends, s.failed, s.rejected FROM hour_domains s%s`,
				`SELECT s.domain, 1 AS sends, CASE WHEN s.status = 'failed' THEN 1 ELSE 0 END AS failed,
  CASE WHEN s.status = 'failed' AND s.reason = '`+store.ReasonRejected+`' THEN 1 ELSE 0 END AS rejected
FROM sends s%s AND s.domain <> '' AND s.number > 0`)
			query = fmt.Sprintf(
				`SELECT domain, %s FROM %s GROUP BY domain HAVING sum(failed) > 0 ORDER BY 3 DESC, 1 LIMIT %d`,
				sumColumns("sends", "failed", "rejected"), query, maxDomains)
		}
		fields := func(d *store.DomainTally) []any { return []any{&d.Domain, &d.Sends, &d.Failed, &d.Rejected} }
		return QueryAll(tx, fields, query, args)
	})
}

// failedDomainsSQL uses no stored counts: it finds the domains with the most failed mails through
// the index of failures, then counts all mails of these.
func failedDomainsSQL(q store.StatsQuery, d dialect) (string, Args) {
	c := StatsConditions(q, d, Args{"from": q.From, "to": q.To})
	return `
WITH failed (domain, failed, rejected) AS (
    SELECT s.domain, count(*), count(CASE WHEN s.reason = '` + store.ReasonRejected + `' THEN 1 END)
    FROM ` + d.pick(failuresFromSQL) + c.Where() + ` AND f.status = 'failed' AND f.logged_at >= @from AND f.logged_at < @to
      AND s.status = 'failed' AND s.domain <> ''
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ` + c.addArg(maxDomains) + `
)
SELECT f.domain, (SELECT count(*) FROM sends s` + c.Where() + ` AND s.domain = f.domain AND s.domain <> '' AND s.number > 0), f.failed,
  f.rejected
FROM failed f ORDER BY f.failed DESC, f.domain`, c.Args
}

// DimensionColumns has the SQL of each dimension, for sends with the alias s.
var DimensionColumns = map[store.Dimension]string{
	store.ByPurpose: "s.purpose", store.ByApp: "s.app",
	store.ByCountry: "s.country",
	store.ByCarrier: "s.provider", store.ByDomain: "s.domain",
}

// ApprovalsBy returns the maxApprovals values of a dimension with the most codes, sorted by that
// number, highest first.
func (db *DB) ApprovalsBy(ctx context.Context, q store.StatsQuery, dimension store.Dimension) ([]store.ApprovalTally, error) {
	q, err := q.Validated()
	column, known := DimensionColumns[dimension]
	if err != nil || !known {
		return nil, cmp.Or(err, store.BadRequestf("there is no dimension %q", dimension))
	}
	hours := `SELECT s.value, s.opened, s.approved FROM hour_codes s%s AND s.dimension = '` + string(dimension) + `'`
	if dimension == store.ByApp || dimension == store.ByPurpose {
		hours = `SELECT ` + column + ` AS value, s.opened, s.approved FROM hour_tallies s%s`
	}
	return readLong(ctx, db, "ApprovalsBy", func(tx Tx) ([]store.ApprovalTally, error) {
		parts, err := tx.statsParts(q)
		if err != nil {
			return nil, err
		}
		subquery, args := tx.unionOfParts(parts, hours, `SELECT `+column+` AS value, count(*) AS opened, count(v.approved_at) AS approved
FROM sends s JOIN verifications v ON v.id = s.verification_id AND `+CountedCodeSQL+`%s AND s.number = 1 AND `+column+` <> '' GROUP BY 1`)
		query := fmt.Sprintf(`SELECT value, %s FROM %s GROUP BY 1 HAVING sum(opened) > 0 ORDER BY 2 DESC, 1 LIMIT %d`,
			sumColumns("opened", "approved"), subquery, maxApprovals)
		return QueryAll(tx, func(x *store.ApprovalTally) []any { return []any{&x.Value, &x.Opened, &x.Approved} },
			query, args)
	})
}
