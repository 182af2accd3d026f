package simulate

import (
	"context"
	"sync"
	"time"

	"sendcode/quota"
)

// redis is the limiter that all replicas share: the reference model of the script, that can be flushed, and fail over to a replica
// that lacks the newest writes.
type redis struct {
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

// clockName names the limiter's clock.
const clockName = "redis"

func newRedis() *redis {
	s := &redis{}
	s.memory = quota.NewMemory(s.now, clockName)
	return s
}

func (s *redis) now() time.Time {
	if s.replaying.IsZero() {
		return time.Now().Add(s.ahead)
	}
	return s.replaying
}

func (s *redis) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory, s.writes = quota.NewMemory(s.now, clockName), nil
}

// failOver loses the newest writes, and says how many. A replica begins a new life, so its marks say nothing.
func (s *redis) failOver(lost int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.writes[:max(0, len(s.writes)-lost)]
	lost = len(s.writes) - len(kept)
	s.memory = quota.NewMemory(s.now, clockName)
	for _, w := range kept {
		s.replaying = w.at
		_ = w.do(s.memory)
	}
	s.replaying, s.writes = time.Time{}, kept
	return lost
}

// step sets the clock.
func (s *redis) step(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += by
}

// do runs a write and remembers it.
func (s *redis) do(change func(*quota.Memory) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, write{s.now(), change})
	return change(s.memory)
}

func (s *redis) peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.Peek(ctx, r)
}

// limiter is the limiter as one replica reaches it.
type limiter struct {
	replica *Replica
	redis   *redis
}

// reach lets a call through at its turn. What happened and was not heard is ErrUnavailable to its caller.
func (l *limiter) reach(ctx context.Context, name string, call func() error) error {
	w := l.replica.world
	f := l.replica.turn(ctx, "limiter "+name, until(w.trouble().limiterSlow))
	away, deaf := until(w.trouble().limiterAway), until(w.trouble().limiterDeaf)
	switch {
	case f == cut, away:
		w.count("limiter away: " + name)
		return quota.ErrUnavailable
	case f == tooLate && l.replica.sourceOf(ctx, "late").IntN(2) == 0:
		w.count("limiter too late: " + name)
		return quota.ErrUnavailable
	}
	w.note("%s limiter %s", l.replica.name, name)
	err := call()
	if f != onTime || deaf {
		w.count("limiter unheard: " + name)
		return quota.ErrUnavailable
	}
	return err
}

// Take implements quota.Limiter.
func (l *limiter) Take(ctx context.Context, r quota.Request) (d quota.Decision, err error) {
	err = l.reach(ctx, "Take", func() error {
		return l.redis.do(func(m *quota.Memory) (err error) { d, err = m.Take(ctx, r); return err })
	})
	return d, err
}

// Peek implements quota.Limiter.
func (l *limiter) Peek(ctx context.Context, r quota.Request) (d quota.Decision, err error) {
	err = l.reach(ctx, "Peek", func() (err error) { d, err = l.redis.peek(ctx, r); return err })
	return d, err
}

// Refund implements quota.Limiter.
func (l *limiter) Refund(ctx context.Context, id string, buckets ...string) error {
	return l.reach(ctx, "Refund", func() error {
		return l.redis.do(func(m *quota.Memory) error { return m.Refund(ctx, id, buckets...) })
	})
}

// Record implements quota.Limiter.
func (l *limiter) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return l.reach(ctx, "Record", func() error {
		return l.redis.do(func(m *quota.Memory) error { return m.Record(ctx, bucket, keep, events) })
	})
}

// Restore implements quota.Limiter. A failover keeps the events and loses the mark.
func (l *limiter) Restore(ctx context.Context, h quota.History) error {
	return l.reach(ctx, "Restore", func() error {
		l.redis.mu.Lock()
		defer l.redis.mu.Unlock()
		l.redis.writes = append(l.redis.writes, write{l.redis.now(), func(m *quota.Memory) error {
			return m.Record(ctx, h.Bucket, h.Keep, h.Events)
		}})
		return l.redis.memory.Restore(ctx, h)
	})
}

// Reset implements quota.Limiter.
func (l *limiter) Reset(ctx context.Context, buckets ...string) error {
	return l.reach(ctx, "Reset", func() error {
		return l.redis.do(func(m *quota.Memory) error { return m.Reset(ctx, buckets...) })
	})
}
