package verificationtest

import (
	"context"
	"sync"
	"time"

	"sendcode/quota"
)

// FakeRedis is a limiter that can be flushed, can fail over to a replica that lacks the newest writes, and has a clock that can be set.
// It stands for a Redis server, where quota.Memory stands for the script.
type FakeRedis struct {
	clock string

	mu        sync.Mutex
	memory    *quota.Memory
	writes    []write
	replaying time.Time
	ahead     time.Duration // of the clock
}

// write is one that a replica may have.
type write struct {
	at time.Time
	do func(*quota.Memory) error
}

// NewFakeRedis returns a limiter whose clock has this name.
func NewFakeRedis(clock string) *FakeRedis {
	s := &FakeRedis{clock: clock}
	s.Flush()
	return s
}

func (s *FakeRedis) now() time.Time {
	if s.replaying.IsZero() {
		return time.Now().Add(s.ahead)
	}
	return s.replaying
}

// Flush loses everything.
func (s *FakeRedis) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory, s.writes = quota.NewMemory(s.now, s.clock), nil
}

// FailOver loses the newest writes, and returns how many. A replica begins a new life, so its marks say nothing.
func (s *FakeRedis) FailOver(lost int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.writes[:max(0, len(s.writes)-lost)]
	lost = len(s.writes) - len(kept)
	s.memory = quota.NewMemory(s.now, s.clock)
	for _, w := range kept {
		s.replaying = w.at
		_ = w.do(s.memory)
	}
	s.replaying, s.writes = time.Time{}, kept
	return lost
}

// Step sets the clock.
func (s *FakeRedis) Step(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += by
}

// wrote remembers a write. The caller holds the lock.
func (s *FakeRedis) wrote(do func(*quota.Memory) error) {
	s.writes = append(s.writes, write{s.now(), do})
}

// do runs a write and remembers it.
func (s *FakeRedis) do(change func(*quota.Memory) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote(change)
	return change(s.memory)
}

// Take implements quota.Limiter. An admitted one is a write, which FailOver can lose.
func (s *FakeRedis) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.memory.Take(ctx, r)
	if d.Admitted {
		s.wrote(func(m *quota.Memory) error { _, err := m.Take(ctx, r); return err })
	}
	return d, err
}

// Peek implements quota.Limiter.
func (s *FakeRedis) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.Peek(ctx, r)
}

// Refund implements quota.Limiter.
func (s *FakeRedis) Refund(ctx context.Context, id string, buckets ...string) error {
	return s.do(func(m *quota.Memory) error { return m.Refund(ctx, id, buckets...) })
}

// Record implements quota.Limiter.
func (s *FakeRedis) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return s.do(func(m *quota.Memory) error { return m.Record(ctx, bucket, keep, events) })
}

// Reset implements quota.Limiter.
func (s *FakeRedis) Reset(ctx context.Context, buckets ...string) error {
	return s.do(func(m *quota.Memory) error { return m.Reset(ctx, buckets...) })
}

// Restore implements quota.Limiter. A failover keeps the events and loses the mark.
func (s *FakeRedis) Restore(ctx context.Context, h quota.History) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote(func(m *quota.Memory) error { return m.Record(ctx, h.Bucket, h.Keep, h.Events) })
	return s.memory.Restore(ctx, h)
}
