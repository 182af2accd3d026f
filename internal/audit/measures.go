package audit

import (
	"maps"
	"slices"
	"time"
)

// Measures tell how well codes reached people.
type Measures struct {
	// Opened are the verifications that a first send of the time opened, Approved those of them that were.
	Opened, Approved int
	// Median and P95 are between the row and the outcome, of what was sent; 0 where nothing was.
	Median, P95 time.Duration
}

// Stretch has the measures of one stretch of time.
type Stretch struct {
	At time.Time // its beginning
	Measures
}

func approvalFields(s *Stretch, each time.Duration) []any {
	return []any{stretchField{&s.At, each}, &s.Opened, &s.Approved}
}

func tookFields(s *Stretch, each time.Duration) []any {
	return []any{stretchField{&s.At, each}, spanField{&s.Median}, spanField{&s.P95}}
}

// askMeasures has a database measure each stretch, and the whole's times; read reads the rows of a query.
func askMeasures(s *Stats, q StatsQuery, c conditions, stretch, span string, read func(func(*Stretch) []any, string) ([]Stretch, error)) error {
	took := func(x *Stretch) []any { return tookFields(x, q.Each) }
	by := map[time.Time]Measures{}
	opened, err := read(func(x *Stretch) []any { return approvalFields(x, q.Each) }, c.approvals(stretch))
	if err != nil {
		return err
	}
	for _, x := range opened {
		by[x.At] = x.Measures
	}
	sent, err := read(took, c.tookBy(stretch, span))
	if err != nil {
		return err
	}
	for _, x := range sent {
		m := by[x.At]
		m.Median, m.P95 = x.Median, x.P95
		by[x.At] = m
	}
	sums, err := read(took, c.tookBy(whole, span))
	if err != nil {
		return err
	}
	var all Measures // where nothing was sent there is no row
	for _, x := range sums {
		all = x.Measures
	}
	s.measure(by, all.Median, all.P95)
	return nil
}

// measure takes in the stretches and the whole's times; the rest of the whole is the stretches' sum.
func (s *Stats) measure(by map[time.Time]Measures, median, p95 time.Duration) {
	for _, m := range by {
		s.Opened, s.Approved = s.Opened+m.Opened, s.Approved+m.Approved
	}
	s.Median, s.P95 = median, p95
	s.Stretches = stretches(by)
}

// stretches are those that have something to tell, in order.
func stretches(all map[time.Time]Measures) (list []Stretch) {
	for _, at := range slices.SortedFunc(maps.Keys(all), time.Time.Compare) {
		if all[at] != (Measures{}) {
			list = append(list, Stretch{at, all[at]})
		}
	}
	return list
}

// approvals counts what first sends opened, and what of it was approved, in each stretch.
func (c conditions) approvals(stretch string) string {
	return `SELECT ` + stretch + ` AS stretch, count(*), count(v.approved_at) FROM sends s JOIN verifications v ON v.id = s.verification_id` + c.where() + ` AND s.number = 1
GROUP BY 1 ORDER BY 1`
}

// tookIn selects the times of what was sent; span is each database's own word for one, in µs.
func (c conditions) tookIn(stretch, span string) string {
	return `SELECT ` + stretch + ` AS stretch, ` + span + ` AS took FROM sends s` + c.where() +
		` AND s.status IN ('sent', 'delivered', 'undelivered') AND s.finished_at IS NOT NULL`
}

// whole is the stretch of all rows, where each has the same.
const whole = "0"

// tookBy finds the median and the 95th percentile of each stretch, by the nearest rank.
func (c conditions) tookBy(stretch, span string) string {
	return `
SELECT stretch, max(CASE WHEN place = (n + 1) / 2 THEN took END), max(CASE WHEN place = (95 * n + 99) / 100 THEN took END)
FROM (SELECT stretch, took, row_number() OVER (PARTITION BY stretch ORDER BY took) AS place, count(*) OVER (PARTITION BY stretch) AS n
      FROM (` + c.tookIn(stretch, span) + `) sent) placed
GROUP BY stretch ORDER BY stretch`
}

// rank is the place of a part of n in order, counted from 0: the nearest rank.
func rank(n int, part float64) int { return max(0, int(part*float64(n)+0.999999)-1) }
