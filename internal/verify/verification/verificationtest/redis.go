package verificationtest

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// FakeRedis is a limiter that can be flushed, can fail over to a replica that lacks the newest
// writes, and has a clock that can be set. It stands in for a Redis server, with quota.Memory in
// place of the script.
type FakeRedis struct {
	calls

	mu         sync.Mutex
	memory     *quota.Memory
	writes     []write
	replayTime time.Time
	ahead      time.Duration // how far the clock is ahead
}

// write is a write to FakeRedis, which FailOver may lose.
type write struct {
	at        time.Time
	do        func(gates.Limiter) error
	givesBack bool // the write gives places back
}

// NewFakeRedis returns an empty limiter.
func NewFakeRedis() *FakeRedis {
	s := &FakeRedis{}
	s.calls = s.call
	s.Flush()
	return s
}

func (f *FakeRedis) now() time.Time {
	if f.replayTime.IsZero() {
		return time.Now().Add(f.ahead)
	}
	return f.replayTime
}

// Flush deletes all events.
func (f *FakeRedis) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory, f.writes = quota.NewMemory(f.now), nil
}

// FailOver loses the newest writes. It returns how many, and whether one of them gave places back:
// such places may then stay taken for a window.
func (f *FakeRedis) FailOver(lost int) (n int, gave bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.writes[:max(0, len(f.writes)-lost)]
	for _, w := range f.writes[len(kept):] {
		n, gave = n+1, gave || w.givesBack
	}
	f.memory = quota.NewMemory(f.now)
	for _, w := range kept {
		f.replayTime = w.at
		_ = w.do(f.memory)
	}
	f.replayTime, f.writes = time.Time{}, kept
	return n, gave
}

// Step moves the clock by a duration.
func (f *FakeRedis) Step(by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += by
}

// call records every call but Peek as a write. Take doesn't use it.
func (f *FakeRedis) call(_ context.Context, name string, do func(gates.Limiter) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "Peek" {
		f.writes = append(f.writes, write{f.now(), do, name == "Refund" || name == "Reset"})
	}
	return do(f.memory)
}

// Take implements gates.Limiter. Only a Take that is admitted is a write.
func (f *FakeRedis) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.memory.Take(ctx, r)
	if d.Admitted {
		again := func(l gates.Limiter) error { _, err := l.Take(ctx, r); return err }
		f.writes = append(f.writes, write{f.now(), again, false})
	}
	return d, err
}
