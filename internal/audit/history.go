package audit

import (
	"context"
	"slices"
	"strings"
	"time"

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

// History implements Log.
func (m *Memory) History(ctx context.Context, b Bucket, within time.Duration) (events []quota.Event, now time.Time, err error) {
	now, lost, err := m.enter(ctx, "History")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, r := range m.buckets[memoryBucket{b.App, b.Channel, b.Recipient}] {
		if r.Counts && slices.Contains(b.Purposes, r.Purpose) && now.Sub(r.LoggedAt) < within {
			events = append(events, quota.Event{ID: string(r.ID[:]), At: r.LoggedAt})
		}
	}
	return ordered(events), now, nil
}

// History implements Log.
func (s *SQLite) History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	now := micro(s.now())
	args := []any{b.Recipient[:], b.App, b.Channel, µs(now) - within.Microseconds()}
	for _, p := range b.Purposes {
		args = append(args, p)
	}
	rows, err := s.readers.QueryContext(ctx, `
SELECT id, logged_at FROM sends
WHERE counts = 1 AND recipient = ? AND app = ? AND channel = ? AND logged_at > ? AND purpose IN (?`+strings.Repeat(", ?", len(b.Purposes)-1)+`)`, args...)
	if err != nil {
		return nil, now, unavailable(err)
	}
	list, err := collect(rows, func(p *past) []any { return []any{&p.id, timeField{&p.loggedAt}} })
	if err != nil {
		return nil, now, unavailable(err)
	}
	return eventsOf(list), now, nil
}

// History implements Log.
func (p *Postgres) History(ctx context.Context, b Bucket, within time.Duration) (events []quota.Event, now time.Time, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`SELECT {{now}}`)).Scan(timeField{&now})
	})
	if err != nil {
		return nil, now, err
	}
	list, err := readRows(ctx, p, func(r *past) []any { return []any{&r.id, timeField{&r.loggedAt}} }, `
SELECT s.id, s.logged_at FROM sends s
WHERE s.counts AND s.recipient = $1 AND s.app = $2 AND s.channel = $3 AND s.purpose = ANY ($4)
  AND s.logged_at > $5`, b.Recipient[:], b.App, string(b.Channel), b.Purposes, now.Add(-within))
	return eventsOf(list), now, err
}

func eventsOf(rows []past) []quota.Event {
	events := make([]quota.Event, len(rows))
	for i, r := range rows {
		events[i] = quota.Event{ID: string(r.id[:]), At: r.loggedAt}
	}
	return ordered(events)
}
