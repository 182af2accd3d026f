package audit

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// StatsQuery asks what the log holds in [From, To). Empty fields select all.
type StatsQuery struct {
	App      string
	Channel  recipient.Channel
	Purpose  string
	From, To time.Time
	Each     time.Duration // a tally's time, whole seconds; tallies begin at its multiples since 1970, UTC
}

// Stats is the answer.
type Stats struct {
	Tallies   []Tally   // in order of time, then of what they count
	Stretches []Stretch // in order of time, those in which something was opened or sent
	Measures            // of all of it
	// Undelivered are text messages that went out, or may have, and that their carrier says were lost; none of them is counted ahead,
	// for that is said late.
	Undelivered int
}

// Tally is how many rows of one kind there are in one stretch of time.
type Tally struct {
	At        time.Time // its beginning
	Status    Status
	Reason    string // of what failed or is unknown
	BlockedBy string // of what was refused
	Rows      int
	Requests  int // a refusal's row may stand for several
}

func tallyFields(t *Tally, each time.Duration) []any {
	return []any{stretchField{&t.At, each}, &t.Status, &t.Reason, &t.BlockedBy, &t.Rows, &t.Requests}
}

// stretchField reads the number of a stretch of time since 1970.
type stretchField struct {
	to   *time.Time
	each time.Duration
}

// Scan implements sql.Scanner.
func (f stretchField) Scan(src any) error {
	n, _ := src.(int64)
	*f.to = time.Unix(n*int64(f.each/time.Second), 0).UTC()
	return nil
}

func (q StatsQuery) checked() (StatsQuery, error) {
	q.From, q.To = micro(q.From), micro(q.To)
	if q.From.IsZero() || !q.From.Before(q.To) || q.Each < time.Second || q.Each%time.Second != 0 || !storable(q.App, q.Purpose, string(q.Channel)) {
		return q, bad("statistics are of a time that is given, in whole seconds")
	}
	return q, nil
}

// statsConditions select the rows of a question.
func statsConditions(q StatsQuery, d dialect) conditions { return statsConditionsAfter(q, d, nil) }

// statsConditionsAfter are the same in a statement that has these parameters already.
func statsConditionsAfter(q StatsQuery, d dialect, args []any) conditions {
	c := conditions{args: args}
	c.add("s.logged_at >= ? AND s.logged_at < ?", d.at(q.From), d.at(q.To))
	c.logged(d, q.From, q.To)
	c.kind(q.App, q.Channel, q.Purpose)
	return c
}

// tallies counts in SQL; stretch is each database's own word for the number of a row's stretch of time.
func (c conditions) tallies(stretch string) string {
	return `SELECT ` + stretch + ` AS stretch, s.status, CASE WHEN s.status IN ('failed', 'unknown') THEN s.reason ELSE '' END, s.blocked_by, count(*), sum(s.requests)
FROM sends s` + c.where() + ` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`
}

// lost counts what carriers say was lost, among the failures of the time from $1 to $2.
func (c conditions) lost(d dialect) string {
	return `SELECT count(*) FROM ` + d.failures + c.where() + ` AND f.status = 'undelivered' AND f.logged_at >= $1 AND f.logged_at < $2
 AND s.receipt = 'undelivered' AND s.status IN ('sent', 'unknown')`
}

// inOrder is the order of tallies.
func inOrder(a, b Tally) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Status, b.Status), strings.Compare(a.Reason, b.Reason), strings.Compare(a.BlockedBy, b.BlockedBy))
}

// Stats implements Statistics.
func (s *SQLite) Stats(ctx context.Context, q StatsQuery) (stats Stats, err error) {
	if q, err = q.checked(); err != nil {
		return stats, err
	}
	c := statsConditions(q, sqliteWords)
	stretch, span := "s.logged_at / "+strconv.Itoa(int(q.Each/time.Second))+"000000", "s.finished_at - s.logged_at"
	stats.Tallies, err = sqliteRows(ctx, s, func(t *Tally) []any { return tallyFields(t, q.Each) }, c.tallies(stretch), c.args...)
	if err != nil {
		return Stats{}, err
	}
	err = askMeasures(&stats, q, c, stretch, span, func(fields func(*Stretch) []any, query string) ([]Stretch, error) {
		return sqliteRows(ctx, s, fields, query, c.args...)
	})
	if err != nil {
		return Stats{}, err
	}
	if err := s.readers.QueryRowContext(ctx, c.lost(sqliteWords), c.args...).Scan(&stats.Undelivered); err != nil {
		return Stats{}, unavailable(sqliteCause(err))
	}
	return stats, nil
}
