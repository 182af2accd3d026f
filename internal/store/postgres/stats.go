package postgres

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Times that were counted ahead are in buckets, each 4 % wider than the one before; one is told by its middle, so no more than 2 %
// off. Times that are read from rows alone are exact.
const (
	bucketBase = 1.04
	bucketSQL  = `floor(ln(greatest(extract(epoch FROM took) * 1000000, 1)::float8) / ln(1.04))::int`
)

// bucketMiddle returns the duration in the middle of a bucket.
func bucketMiddle(bucket int) time.Duration {
	return time.Duration(math.Pow(bucketBase, float64(bucket)+0.5)) * time.Microsecond
}

// counted is what one part of a time holds. The parts of a time add up.
type counted struct {
	tallies   []store.Tally
	stretches map[time.Time]*countedStretch
}

type countedStretch struct {
	opened, approved int
	times            buckets
}

// buckets says how many times there are of each length.
type buckets map[int]int

// stretch returns the counts of a stretch, which it creates if they are missing.
func (sum *counted) stretch(stretch time.Time) *countedStretch {
	if sum.stretches == nil {
		sum.stretches = map[time.Time]*countedStretch{}
	}
	if sum.stretches[stretch] == nil {
		sum.stretches[stretch] = &countedStretch{times: buckets{}}
	}
	return sum.stretches[stretch]
}

// splitCountedHours divides the time range of q: hours is its part that is counted ahead, rows are the parts before and after, which must be
// read from rows. hours is zero if nothing of it is counted ahead, or if the counted hours have a gap.
func (p *DB) splitCountedHours(ctx context.Context, q store.StatsQuery) (hours store.StatsQuery, rows []store.StatsQuery, err error) {
	var first, last *time.Time
	var n int
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `SELECT min(hour), max(hour), count(*) FROM hours WHERE hour >= $1
  AND hour <= $2`, q.From, q.To.Add(-time.Hour)).Scan(&first, &last, &n)
	})
	if err != nil {
		return hours, nil, err
	}
	whole := n > 0 && last.Sub(*first) == time.Duration(n-1)*time.Hour
	if !whole || q.Each%time.Hour != 0 {
		return hours, []store.StatsQuery{q}, nil
	}
	hours, before, after := q, q, q
	hours.From, hours.To = first.UTC(), last.UTC().Add(time.Hour)
	before.To, after.From = hours.From, hours.To
	for _, part := range []store.StatsQuery{before, after} {
		if part.From.Before(part.To) {
			rows = append(rows, part)
		}
	}
	return hours, rows, nil
}

// Stats implements Statistics.
func (p *DB) Stats(ctx context.Context, q store.StatsQuery) (stats store.Stats, err error) {
	if q, err = q.Checked(); err != nil {
		return stats, err
	}
	hours, rows, err := p.splitCountedHours(ctx, q)
	if err != nil {
		return stats, err
	}
	if hours.From.IsZero() {
		return p.DB.Stats(ctx, q)
	}
	sum, err := p.countedHours(ctx, hours)
	if err != nil {
		return store.Stats{}, err
	}
	for _, part := range rows {
		s, err := p.countedRows(ctx, part)
		if err != nil {
			return store.Stats{}, err
		}
		sum.add(s)
	}
	stats = sum.stats()
	err = p.DB.Read(ctx, func(tx sqldb.Tx) (err error) {
		stats.Undelivered, err = tx.CountLost(q)
		return err
	})
	return stats, err
}

// stretchSQL returns the SQL for the number of the stretch of time that a column's value lies in.
func stretchSQL(column string, q store.StatsQuery) string {
	return sqldb.StretchSQL(column, q, func(offset time.Duration) string {
		return fmt.Sprintf("floor((extract(epoch FROM %s) + %d) / %d)::bigint", column, offset/time.Second, q.Each/time.Second)
	}, func(at time.Time) string { return fmt.Sprintf("to_timestamp(%d)", at.Unix()) })
}

// countedRows counts one part of the time range from its rows.
func (p *DB) countedRows(ctx context.Context, q store.StatsQuery) (sum counted, err error) {
	c, stretch := sqldb.StatsConditions(q, words), stretchSQL("s.logged_at", q)
	sum.tallies, err = readRows(ctx, p, func(t *store.Tally) []any { return sqldb.TallyFields(t, q) }, c.TalliesSQL(stretch), c.Args...)
	if err != nil {
		return sum, err
	}
	approvals, err := readRows(ctx, p, func(x *store.Interval) []any { return sqldb.ApprovalFields(x, q) }, c.ApprovalsSQL(stretch),
		c.Args...)
	if err != nil {
		return sum, err
	}
	for _, x := range approvals {
		s := sum.stretch(x.At)
		s.opened, s.approved = x.Opened, x.Approved
	}
	return sum, p.readTimes(ctx, &sum, q, `SELECT stretch, `+bucketSQL+`, count(*)
FROM (`+c.DeliveryTimes(stretch, `s.finished_at - s.logged_at`)+`) sent GROUP BY 1, 2`, c.Args)
}

// countedHours adds up the hours of the time range that are counted ahead.
func (p *DB) countedHours(ctx context.Context, q store.StatsQuery) (sum counted, err error) {
	c := hourConditions(q)
	type hourTally struct {
		store.Tally
		opened, approved int
	}
	tallies, err := readRows(ctx, p, func(t *hourTally) []any { return append(sqldb.TallyFields(&t.Tally, q), &t.opened, &t.approved) },
		`SELECT `+stretchSQL("s.hour", q)+`, s.status, s.reason, s.blocked_by, sum(s.rows)::bigint, sum(s.requests)::bigint,
  sum(s.opened)::bigint, sum(s.approved)::bigint
FROM hour_tallies s`+c.Where()+` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, c.Args...)
	if err != nil {
		return sum, err
	}
	for _, t := range tallies {
		sum.tallies = append(sum.tallies, t.Tally)
		s := sum.stretch(t.At)
		s.opened, s.approved = s.opened+t.opened, s.approved+t.approved
	}
	return sum, p.readTimes(ctx, &sum, q, `SELECT `+stretchSQL("s.hour", q)+`, s.bucket, sum(s.n)::bigint FROM hour_times s`+c.Where()+
		` GROUP BY 1, 2`, c.Args)
}

// hourConditions returns the conditions of q for a table with one row per hour.
func hourConditions(q store.StatsQuery) (c sqldb.Conditions) {
	c.Add("s.hour >= ? AND s.hour < ?", q.From, q.To)
	c.AddKind(sqldb.OfSends, q.App, q.Channel, q.Purpose)
	return c
}

// readTimes runs a query that counts delivery times by stretch and bucket, and stores the counts in sum.
func (p *DB) readTimes(ctx context.Context, sum *counted, q store.StatsQuery, query string, args []any) error {
	type timed struct {
		at        time.Time
		bucket, n int
	}
	all, err := readRows(ctx, p, func(x *timed) []any { return []any{sqldb.StretchField{To: &x.at, Of: q}, &x.bucket, &x.n} }, query,
		args...)
	for _, x := range all {
		sum.stretch(x.at).times[x.bucket] = x.n
	}
	return err
}

func (sum *counted) add(part counted) {
	sum.tallies = append(sum.tallies, part.tallies...)
	for at, x := range part.stretches {
		sum.stretch(at).add(x)
	}
}

func (s *countedStretch) add(x *countedStretch) {
	s.opened, s.approved = s.opened+x.opened, s.approved+x.approved
	for bucket, n := range x.times {
		s.times[bucket] += n
	}
}

func (s *countedStretch) measures() store.Measures {
	return store.Measures{Opened: s.opened, Approved: s.approved, Median: s.times.percentile(0.5), P95: s.times.percentile(0.95)}
}

// stats returns the sum as an answer. The tallies of a stretch that lies in two parts are added up.
func (sum counted) stats() store.Stats {
	byKind := map[store.Tally]store.Tally{}
	for _, t := range sum.tallies {
		kind := t
		kind.Rows, kind.Requests = 0, 0
		t.Rows, t.Requests = t.Rows+byKind[kind].Rows, t.Requests+byKind[kind].Requests
		byKind[kind] = t
	}
	whole, measures := countedStretch{times: buckets{}}, map[time.Time]store.Measures{}
	for at, x := range sum.stretches {
		whole.add(x)
		measures[at] = x.measures()
	}
	return store.Stats{Tallies: slices.SortedFunc(maps.Values(byKind), store.CompareTallies), Intervals: store.NonzeroIntervals(measures),
		Measures: whole.measures()}
}

// percentile returns the time within which this part (0.5, 0.95) of the messages was delivered; 0 if there are none.
func (b buckets) percentile(of float64) time.Duration {
	var all int
	for _, n := range b {
		all += n
	}
	left := store.Rank(all, of)
	for _, bucket := range slices.Sorted(maps.Keys(b)) {
		if left -= b[bucket]; left < 0 {
			return bucketMiddle(bucket)
		}
	}
	return 0
}

// Domains implements Statistics.
func (p *DB) Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error) {
	q, err := q.Checked()
	if err != nil {
		return nil, err
	}
	hours, rows, err := p.splitCountedHours(ctx, q)
	if err != nil {
		return nil, err
	}
	if hours.From.IsZero() {
		return p.DB.Domains(ctx, q)
	}
	c := hourConditions(hours)
	parts := []string{`SELECT s.domain, s.sends, s.failed, s.rejected FROM hour_domains s` + c.Where()}
	for _, part := range rows {
		of := sqldb.StatsConditionsWithArgs(part, words, c.Args)
		of.Add("s.domain <> '' AND s.number > 0")
		parts = append(parts, `SELECT s.domain, 1, CASE WHEN s.status = 'failed' THEN 1 ELSE 0 END, CASE WHEN s.status = 'failed'
  AND s.reason = '`+store.ReasonRejected+`' THEN 1 ELSE 0 END FROM sends s`+of.Where())
		c.Args = of.Args
	}
	return readRows(ctx, p, sqldb.DomainFields, `
SELECT domain, sum(sends)::bigint, sum(failed)::bigint, sum(rejected)::bigint FROM (`+strings.Join(parts, " UNION ALL ")+`) part
GROUP BY domain HAVING sum(failed) > 0 ORDER BY 3 DESC, 1 LIMIT `+strconv.Itoa(sqldb.MaxDomains), c.Args...)
}

// ApprovalsBy implements Statistics.
func (p *DB) ApprovalsBy(ctx context.Context, q store.StatsQuery, by store.Dimension) ([]store.ApprovalTally, error) {
	q, err := q.Checked()
	column, known := sqldb.Dimensions[by]
	if err != nil || !known {
		return p.DB.ApprovalsBy(ctx, q, by)
	}
	hours, rows, err := p.splitCountedHours(ctx, q)
	if err != nil {
		return nil, err
	}
	if hours.From.IsZero() {
		return p.DB.ApprovalsBy(ctx, q, by)
	}
	c := hourConditions(hours)
	parts := []string{`SELECT ` + column + ` AS value, s.opened, s.approved FROM hour_tallies s` + c.Where()}
	if by != store.ByApp && by != store.ByPurpose {
		c.Add("s.dimension = ?", string(by))
		parts = []string{`SELECT s.value, s.opened, s.approved FROM hour_codes s` + c.Where()}
	}
	for _, part := range rows {
		of := sqldb.StatsConditionsWithArgs(part, words, c.Args)
		of.Add("s.number = 1 AND " + column + " <> ''")
		parts = append(parts, `SELECT `+column+`, 1, CASE WHEN v.approved_at IS NULL THEN 0 ELSE 1 END
FROM sends s JOIN verifications v ON v.id = s.verification_id`+of.Where())
		c.Args = of.Args
	}
	return readRows(ctx, p, sqldb.ApprovalTallyFields, `
SELECT value, sum(opened)::bigint, sum(approved)::bigint FROM (`+strings.Join(parts, " UNION ALL ")+`) part
GROUP BY value HAVING sum(opened) > 0 ORDER BY 2 DESC, 1 LIMIT `+strconv.Itoa(sqldb.MaxApprovals), c.Args...)
}
