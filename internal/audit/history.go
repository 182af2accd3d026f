package audit

import (
	"context"
	"slices"
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

// History implements Log.
func (m *Memory) History(ctx context.Context, b Bucket, within time.Duration) (events []quota.Event, now time.Time, err error) {
	if err := b.check(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "History")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, r := range m.buckets[memoryBucket{b.App, b.Channel, b.Recipient}] {
		if r.Counts && slices.Contains(b.Purposes, r.Purpose) && now.Sub(r.LoggedAt) < within.Truncate(time.Microsecond) {
			events = append(events, quota.Event{ID: string(r.ID[:]), At: r.LoggedAt})
		}
	}
	return ordered(events), now, nil
}

// History implements Log.
func (s *SQLite) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	now := micro(s.now())
	args := []any{b.Recipient[:], b.App, b.Channel, µs(now) - within.Microseconds()}
	for _, p := range b.Purposes {
		args = append(args, p)
	}
	rows, err := s.readers.QueryContext(ctx, `
SELECT id, logged_at FROM sends
WHERE recipient = ? AND number > 0 AND counts = 1 AND app = ? AND channel = ? AND logged_at > ? AND purpose IN (?`+strings.Repeat(", ?", len(b.Purposes)-1)+`)`, args...)
	if err != nil {
		return nil, time.Time{}, unavailable(err)
	}
	list, err := collect(rows, func(p *past) []any { return []any{&p.id, timeField{&p.loggedAt}} })
	if err != nil {
		return nil, time.Time{}, unavailable(err)
	}
	var events []quota.Event
	for _, p := range list {
		events = append(events, quota.Event{ID: string(p.id[:]), At: p.loggedAt})
	}
	return ordered(events), now, nil
}

// History implements Log.
func (p *Postgres) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	var ids []uuid.UUID
	var at []time.Time
	err := p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
SELECT clock.now, past.ids, past.at FROM clock CROSS JOIN LATERAL (
    SELECT array_agg(s.id) AS ids, array_agg(s.logged_at) AS at FROM sends s
    WHERE s.recipient = $1 AND s.number > 0 AND s.counts AND s.app = $2 AND s.channel = $3 AND s.purpose = ANY ($4)
      AND s.logged_at > clock.now - $5 * interval '1 microsecond' AND `+loggedSince(p.beginning()+" - $5 * interval '1 microsecond'")+`
) past`), b.Recipient[:], b.App, string(b.Channel), b.Purposes, within.Microseconds()).Scan(timeField{&now}, &ids, &at)
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	var events []quota.Event
	for i, id := range ids {
		events = append(events, quota.Event{ID: string(id[:]), At: micro(at[i])})
	}
	return ordered(events), now, nil
}
