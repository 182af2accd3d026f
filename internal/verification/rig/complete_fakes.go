package rig

import (
	"context"
	"fmt"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/quota"
)

// server is a limiter that can be flushed, and fail over to a replica that lacks the newest writes. One caller at a time.
type Server struct {
	*quota.Memory
	writes    []write
	replaying time.Time
}

// write is one that a replica may have.
type write struct {
	at time.Time
	do func(*quota.Memory) error
}

func NewServer() *Server {
	s := &Server{}
	s.Flush()
	return s
}

func (s *Server) now() time.Time {
	if s.replaying.IsZero() {
		return time.Now()
	}
	return s.replaying
}

func (s *Server) Flush() { s.Memory, s.writes = quota.NewMemory(s.now, "process"), nil }

// failOver loses the newest writes. A replica begins a new life, so its marks say nothing.
func (s *Server) FailOver(lost int) {
	writes := s.writes[:max(0, len(s.writes)-lost)]
	s.Flush()
	for _, w := range writes {
		s.replaying = w.at
		_ = w.do(s.Memory)
	}
	s.replaying, s.writes = time.Time{}, writes
}

func (s *Server) wrote(do func(*quota.Memory) error) {
	s.writes = append(s.writes, write{time.Now(), do})
}

func (s *Server) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := s.Memory.Take(ctx, r)
	if d.Admitted {
		s.wrote(func(m *quota.Memory) error { _, err := m.Take(ctx, r); return err })
	}
	return d, err
}

func (s *Server) Refund(ctx context.Context, id string, buckets ...string) error {
	s.wrote(func(m *quota.Memory) error { return m.Refund(ctx, id, buckets...) })
	return s.Memory.Refund(ctx, id, buckets...)
}

func (s *Server) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	s.wrote(func(m *quota.Memory) error { return m.Record(ctx, bucket, keep, events) })
	return s.Memory.Record(ctx, bucket, keep, events)
}

func (s *Server) Restore(ctx context.Context, h quota.History) error {
	s.wrote(func(m *quota.Memory) error { return m.Record(ctx, h.Bucket, h.Keep, h.Events) })
	return s.Memory.Restore(ctx, h)
}

// counted is a limiter that notes what it is asked.
type Counted struct {
	gates.Limiter
	Calls *[]string
}

func (c Counted) note(call string) { *c.Calls = append(*c.Calls, call) }

func (c Counted) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("take")
	return c.Limiter.Take(ctx, r)
}

func (c Counted) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("peek")
	return c.Limiter.Peek(ctx, r)
}

func (c Counted) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	c.note("record")
	return c.Limiter.Record(ctx, bucket, keep, events)
}

func (c Counted) Restore(ctx context.Context, h quota.History) error {
	c.note(fmt.Sprintf("restore %d", len(h.Events)))
	return c.Limiter.Restore(ctx, h)
}

// countedLog is a log that notes what it is asked of recipients' events.
type CountedLog struct {
	*Away
	Calls *[]string
}

func (c CountedLog) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	*c.Calls = append(*c.Calls, "begin")
	return c.Away.Begin(ctx, in)
}

func (c CountedLog) History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.Away.History(ctx, b, within)
}

func (c CountedLog) HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.Away.HistoryAt(ctx, b, within, clock, at)
}

func (c CountedLog) Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "rejected")
	return c.Away.Rejected(ctx, b, within)
}
