package audit

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Times that were counted ahead are in buckets, each 4 % wider than the one before; one is told by its middle, so no more than 2 %
// off. Times that are read from rows alone are exact.
const (
	bucketBase = 1.04
	bucketSQL  = `floor(ln(greatest(extract(epoch FROM took) * 1000000, 1)::float8) / ln(1.04))::int`
)

func middle(bucket int) time.Duration {
	return time.Duration(math.Pow(bucketBase, float64(bucket)+0.5)) * time.Microsecond
}

// counted is what one part of a time holds. The parts of a time add up.
type counted struct {
	tallies          []Tally
	opened, approved int
	times            map[int]int // by bucket
}

// spans parts the time of q in those hours that are counted, which are on end, and what must be read from rows: before and after.
func (p *Postgres) spans(ctx context.Context, q StatsQuery) (hours StatsQuery, rows []StatsQuery, err error) {
	var first, last *time.Time
	var n int
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `SELECT min(hour), max(hour), count(*) FROM hours WHERE hour >= $1 AND hour <= $2`, q.From, q.To.Add(-time.Hour)).Scan(&first, &last, &n)
	})
	if err != nil {
		return hours, nil, err
	}
	whole := n > 0 && last.Sub(*first) == time.Duration(n-1)*time.Hour
	if !whole || q.Each%time.Hour != 0 {
		return hours, []StatsQuery{q}, nil
	}
	hours, before, after := q, q, q
	hours.From, hours.To = first.UTC(), last.UTC().Add(time.Hour)
	before.To, after.From = hours.From, hours.To
	for _, part := range []StatsQuery{before, after} {
		if part.From.Before(part.To) {
			rows = append(rows, part)
		}
	}
	return hours, rows, nil
}

// Stats implements Log.
func (p *Postgres) Stats(ctx context.Context, q StatsQuery) (stats Stats, err error) {
	if q, err = q.checked(); err != nil {
		return stats, err
	}
	lost, err := p.lost(ctx, q)
	if err != nil {
		return stats, err
	}
	hours, rows, err := p.spans(ctx, q)
	if err != nil {
		return stats, err
	}
	if hours.From.IsZero() {
		stats, err = p.statsOfRows(ctx, q)
		stats.Undelivered = lost
		return stats, err
	}
	sum, err := p.countedHours(ctx, hours)
	if err != nil {
		return Stats{}, err
	}
	for _, part := range rows {
		s, err := p.countedRows(ctx, part)
		if err != nil {
			return Stats{}, err
		}
		sum.add(s)
	}
	stats = sum.stats()
	stats.Undelivered = lost
	return stats, nil
}

func (p *Postgres) lost(ctx context.Context, q StatsQuery) (n int, err error) {
	c := q.conditions(postgresWords)
	err = p.read(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, c.lost(), c.args...).Scan(&n) })
	return n, err
}

// talliesOf counts in rows.
func (p *Postgres) talliesOf(ctx context.Context, q StatsQuery, c conditions) ([]Tally, error) {
	return readRows(ctx, p, func(t *Tally) []any { return t.fields(q.Each) }, c.tallies(stretchSQL("s.logged_at", q.Each)), c.args...)
}

// stretchSQL is the number of the stretch of time that an instant is in.
func stretchSQL(column string, each time.Duration) string {
	return "floor(extract(epoch FROM " + column + ") / " + strconv.Itoa(int(each/time.Second)) + ")::bigint"
}

// statsOfRows reads a time in which no hour is counted.
func (p *Postgres) statsOfRows(ctx context.Context, q StatsQuery) (stats Stats, err error) {
	c := q.conditions(postgresWords)
	if stats.Tallies, err = p.talliesOf(ctx, q, c); err != nil {
		return Stats{}, err
	}
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		if err := conn.QueryRow(ctx, c.approvals(), c.args...).Scan(&stats.Opened, &stats.Approved); err != nil {
			return err
		}
		return conn.QueryRow(ctx, `
SELECT coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY took), 0), coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY took), 0)
FROM (`+c.took(`(extract(epoch FROM s.finished_at - s.logged_at) * 1000000)::bigint`)+`) sent`, c.args...).
			Scan(spanField{&stats.Median}, spanField{&stats.P95})
	})
	if err != nil {
		return Stats{}, err
	}
	return stats, nil
}

// countedRows is statsOfRows as part of a longer time.
func (p *Postgres) countedRows(ctx context.Context, q StatsQuery) (sum counted, err error) {
	c := q.conditions(postgresWords)
	if sum.tallies, err = p.talliesOf(ctx, q, c); err != nil {
		return sum, err
	}
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, c.approvals(), c.args...).Scan(&sum.opened, &sum.approved)
	})
	if err != nil {
		return sum, err
	}
	sum.times, err = p.times(ctx, `SELECT `+bucketSQL+`, count(*) FROM (`+c.took(`s.finished_at - s.logged_at`)+`) sent GROUP BY 1`, c.args)
	return sum, err
}

// countedHours reads what was counted before.
func (p *Postgres) countedHours(ctx context.Context, q StatsQuery) (sum counted, err error) {
	c := q.hours()
	type hourTally struct {
		Tally
		opened, approved int
	}
	tallies, err := readRows(ctx, p, func(t *hourTally) []any { return append(t.fields(q.Each), &t.opened, &t.approved) },
		`SELECT `+stretchSQL("s.hour", q.Each)+`, s.status, s.reason, s.blocked_by, sum(s.rows)::bigint, sum(s.requests)::bigint, sum(s.opened)::bigint, sum(s.approved)::bigint
FROM hour_tallies s`+c.where()+` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, c.args...)
	if err != nil {
		return sum, err
	}
	for _, t := range tallies {
		sum.tallies = append(sum.tallies, t.Tally)
		sum.opened, sum.approved = sum.opened+t.opened, sum.approved+t.approved
	}
	sum.times, err = p.times(ctx, `SELECT s.bucket, sum(s.n)::bigint FROM hour_times s`+c.where()+` GROUP BY 1`, c.args)
	return sum, err
}

// hours are the conditions of tables that are by hours.
func (q StatsQuery) hours() (c conditions) {
	c.add("s.hour >= ? AND s.hour < ?", q.From, q.To)
	c.kind(q.App, q.Channel, q.Purpose)
	return c
}

func (p *Postgres) times(ctx context.Context, query string, args []any) (map[int]int, error) {
	pairs, err := readRows(ctx, p, func(x *[2]int) []any { return []any{&x[0], &x[1]} }, query, args...)
	times := map[int]int{}
	for _, x := range pairs {
		times[x[0]] = x[1]
	}
	return times, err
}

func (sum *counted) add(part counted) {
	sum.tallies = append(sum.tallies, part.tallies...)
	sum.opened, sum.approved = sum.opened+part.opened, sum.approved+part.approved
	for bucket, n := range part.times {
		sum.times[bucket] += n
	}
}

// stats is the sum as one answer: a stretch that lies in two parts has its tallies once.
func (sum counted) stats() Stats {
	byKind := map[Tally]Tally{}
	for _, t := range sum.tallies {
		kind := t
		kind.Rows, kind.Requests = 0, 0
		t.Rows, t.Requests = t.Rows+byKind[kind].Rows, t.Requests+byKind[kind].Requests
		byKind[kind] = t
	}
	stats := Stats{Opened: sum.opened, Approved: sum.approved, Tallies: slices.SortedFunc(maps.Values(byKind), inOrder)}
	stats.Median, stats.P95 = sum.part(0.5), sum.part(0.95)
	return stats
}

// part is the time within which a part of what was sent had been sent.
func (sum counted) part(of float64) time.Duration {
	var all int
	for _, n := range sum.times {
		all += n
	}
	left := rank(all, of)
	for _, bucket := range slices.Sorted(maps.Keys(sum.times)) {
		if left -= sum.times[bucket]; left < 0 {
			return middle(bucket)
		}
	}
	return 0
}

// Domains implements Log.
func (p *Postgres) Domains(ctx context.Context, q StatsQuery) ([]DomainTally, error) {
	q, err := q.checked()
	if err != nil {
		return nil, err
	}
	hours, rows, err := p.spans(ctx, q)
	if err != nil {
		return nil, err
	}
	if hours.From.IsZero() {
		query, args := q.domains(postgresWords)
		return readRows(ctx, p, (*DomainTally).fields, query, args...)
	}
	c := hours.hours()
	parts := []string{`SELECT s.domain, s.sends, s.failed, s.rejected FROM hour_domains s` + c.where()}
	for _, part := range rows {
		of := part.conditionsAfter(postgresWords, c.args)
		of.add(pgDomain + " <> '' AND s.status <> 'refused'")
		parts = append(parts, `SELECT `+pgDomain+`, 1, CASE WHEN s.status = 'failed' THEN 1 ELSE 0 END, CASE WHEN s.status = 'failed' AND s.reason = '`+ReasonRejected+`' THEN 1 ELSE 0 END FROM sends s`+of.where())
		c.args = of.args
	}
	return readRows(ctx, p, (*DomainTally).fields, `
SELECT domain, sum(sends)::bigint, sum(failed)::bigint, sum(rejected)::bigint FROM (`+strings.Join(parts, " UNION ALL ")+`) part
GROUP BY domain HAVING sum(failed) > 0 ORDER BY 3 DESC, 1 LIMIT `+strconv.Itoa(maxDomains), c.args...)
}
