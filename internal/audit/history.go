package audit

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Bucket names one recipient's counting sends under one policy.
type Bucket struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purposes  []string // those that share the policy, at least one
}

func (b Bucket) check() error {
	if len(b.Purposes) == 0 || !storable(b.App, string(b.Channel)) || !storable(b.Purposes...) {
		return bad("a bucket names its app, channel and purposes")
	}
	return nil
}

// before places the rows as a gate does that decides at an instant of a clock.
func before(rows []past, within time.Duration, clock string, at, now time.Time) []quota.Event {
	in := Intent{Rules: []quota.Rule{{Window: within.Truncate(time.Microsecond)}}, Send: Send{Clock: clock, TakenAt: at}}
	events := history(in, now, rows)
	shift := taken(in, now).Sub(instant(in, now))
	for i := range events {
		events[i].At = events[i].At.Add(shift)
	}
	return events
}

// History implements Log.
func (m *Memory) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	return m.HistoryAt(ctx, b, within, LogClock, time.Time{})
}

// HistoryAt implements Log.
func (m *Memory) HistoryAt(ctx context.Context, b Bucket, within time.Duration, clock string, at time.Time) (events []quota.Event, now time.Time, err error) {
	if err := b.check(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "History")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	s := Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient}
	return before(m.past(Intent{Send: s, Purposes: b.Purposes}), within, clock, at, now), now, nil
}

// History implements Log.
func (s *SQLite) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	return s.HistoryAt(ctx, b, within, LogClock, time.Time{})
}

// HistoryAt implements Log.
func (s *SQLite) HistoryAt(ctx context.Context, b Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	now := micro(s.now())
	args := []any{b.Recipient[:], b.App, b.Channel, µs(now) - (within + stale).Microseconds()}
	for _, p := range b.Purposes {
		args = append(args, p)
	}
	rows, err := s.readers.QueryContext(ctx, `
SELECT id, clock, taken_at, logged_at FROM sends
WHERE counts = 1 AND recipient = ? AND app = ? AND channel = ? AND logged_at > ? AND purpose IN (?`+strings.Repeat(", ?", len(b.Purposes)-1)+`)`, args...)
	if err != nil {
		return nil, time.Time{}, unavailable(err)
	}
	list, err := collect(rows, func(p *past) []any { return []any{&p.id, &p.clock, timeField{&p.takenAt}, timeField{&p.loggedAt}} })
	if err != nil {
		return nil, time.Time{}, unavailable(err)
	}
	return before(list, within, clock, at, now), now, nil
}

// History implements Log.
func (p *Postgres) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	return p.HistoryAt(ctx, b, within, LogClock, time.Time{})
}

// HistoryAt implements Log.
func (p *Postgres) HistoryAt(ctx context.Context, b Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	var ids []uuid.UUID
	var clocks []string
	var takenAt, loggedAt []time.Time
	err := p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
SELECT clock.now, past.ids, past.clocks, past.taken, past.logged FROM clock CROSS JOIN LATERAL (
    SELECT array_agg(s.id) AS ids, array_agg(s.clock) AS clocks, array_agg(s.taken_at) AS taken, array_agg(s.logged_at) AS logged FROM sends s
    WHERE s.counts AND s.recipient = $1 AND s.app = $2 AND s.channel = $3 AND s.purpose = ANY ($4)
      AND s.logged_at > clock.now - $5 * interval '1 microsecond' AND `+loggedSince(p.beginning()+" - $5 * interval '1 microsecond'")+`
) past`), b.Recipient[:], b.App, string(b.Channel), b.Purposes, (within+stale).Microseconds()).Scan(timeField{&now}, &ids, &clocks, &takenAt, &loggedAt)
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	rows := make([]past, len(ids))
	for i, id := range ids {
		rows[i] = past{id, clocks[i], micro(takenAt[i]), micro(loggedAt[i])}
	}
	return before(rows, within, clock, at, now), now, nil
}
