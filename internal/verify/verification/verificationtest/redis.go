package verificationtest

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// FakeRedis is a limiter that can be flushed, can fail over to a replica that lacks the newest
// writes, and has a clock that can be set. It stands for a Redis server, where quota.Memory stands
// for the script.
type FakeRedis struct {
	calls

	mu        sync.Mutex
	memory    *quota.Memory
	writes    []write
	replaying time.Time
	ahead     time.Duration // of the clock
}

// write is a write to FakeRedis, which FailOver may lose.
type write struct {
	at    time.Time
	do    func(gates.Limiter) error
	gives bool // the write gives places back
}

// NewFakeRedis returns an empty limiter.
func NewFakeRedis() *FakeRedis {
	s := &FakeRedis{}
	s.calls = s.call
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
	s.memory, s.writes = quota.NewMemory(s.now), nil
}

// FailOver loses the newest writes, and returns how many, and whether one of them gave places back:
// these places may then stay taken for a window.
func (s *FakeRedis) FailOver(lost int) (n int, gave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.writes[:max(0, len(s.writes)-lost)]
	for _, w := range s.writes[len(kept):] {
		n, gave = n+1, gave || w.gives
	}
	s.memory = quota.NewMemory(s.now)
	for _, w := range kept {
		s.replaying = w.at
		_ = w.do(s.memory)
	}
	s.replaying, s.writes = time.Time{}, kept
	return n, gave
}

// Step moves the clock by a duration.
func (s *FakeRedis) Step(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += by
}

// call makes a call. All but Peek are writes.
func (s *FakeRedis) call(_ context.Context, name string, do func(gates.Limiter) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "Peek" {
		s.writes = append(s.writes, write{s.now(), do, name == "Refund" || name == "Reset"})
	}
	return do(s.memory)
}

// Take implements gates.Limiter. Only a Take that is admitted is a write.
func (s *FakeRedis) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.memory.Take(ctx, r)
	if d.Admitted {
		again := func(l gates.Limiter) error { _, err := l.Take(ctx, r); return err }
		s.writes = append(s.writes, write{s.now(), again, false})
	}
	return d, err
}
