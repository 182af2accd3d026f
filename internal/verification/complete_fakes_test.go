package verification

import (
	"context"
	"fmt"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// server is a limiter that can be flushed, and fail over to a replica that lacks the newest writes. One caller at a time.
type server struct {
	*quota.Memory
	writes    []write
	replaying time.Time
}

// write is one that a replica may have.
type write struct {
	at time.Time
	do func(*quota.Memory) error
}

func newServer() *server {
	s := &server{}
	s.flush()
	return s
}

func (s *server) now() time.Time {
	if s.replaying.IsZero() {
		return time.Now()
	}
	return s.replaying
}

func (s *server) flush() { s.Memory, s.writes = quota.NewMemory(s.now, "process"), nil }

// failOver loses the newest writes. A replica begins a new life, so its marks say nothing.
func (s *server) failOver(lost int) {
	writes := s.writes[:max(0, len(s.writes)-lost)]
	s.flush()
	for _, w := range writes {
		s.replaying = w.at
		_ = w.do(s.Memory)
	}
	s.replaying, s.writes = time.Time{}, writes
}

func (s *server) wrote(do func(*quota.Memory) error) {
	s.writes = append(s.writes, write{time.Now(), do})
}

func (s *server) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := s.Memory.Take(ctx, r)
	if d.Admitted {
		s.wrote(func(m *quota.Memory) error { _, err := m.Take(ctx, r); return err })
	}
	return d, err
}

func (s *server) Refund(ctx context.Context, id string, buckets ...string) error {
	s.wrote(func(m *quota.Memory) error { return m.Refund(ctx, id, buckets...) })
	return s.Memory.Refund(ctx, id, buckets...)
}

func (s *server) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	s.wrote(func(m *quota.Memory) error { return m.Record(ctx, bucket, keep, events) })
	return s.Memory.Record(ctx, bucket, keep, events)
}

func (s *server) Restore(ctx context.Context, h quota.History) error {
	s.wrote(func(m *quota.Memory) error { return m.Record(ctx, h.Bucket, h.Keep, h.Events) })
	return s.Memory.Restore(ctx, h)
}

// counted is a limiter that notes what it is asked.
type counted struct {
	Limiter
	calls *[]string
}

func (c counted) note(call string) { *c.calls = append(*c.calls, call) }

func (c counted) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("take")
	return c.Limiter.Take(ctx, r)
}

func (c counted) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("peek")
	return c.Limiter.Peek(ctx, r)
}

func (c counted) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	c.note("record")
	return c.Limiter.Record(ctx, bucket, keep, events)
}

func (c counted) Restore(ctx context.Context, h quota.History) error {
	c.note(fmt.Sprintf("restore %d", len(h.Events)))
	return c.Limiter.Restore(ctx, h)
}

// countedLog is a log that notes what it is asked of recipients' events.
type countedLog struct {
	*away
	calls *[]string
}

func (c countedLog) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	*c.calls = append(*c.calls, "begin")
	return c.away.Begin(ctx, in)
}

func (c countedLog) History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.calls = append(*c.calls, "history")
	return c.away.History(ctx, b, within)
}

func (c countedLog) HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error) {
	*c.calls = append(*c.calls, "history")
	return c.away.HistoryAt(ctx, b, within, clock, at)
}

func (c countedLog) Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.calls = append(*c.calls, "rejected")
	return c.away.Rejected(ctx, b, within)
}
