package simulate

import (
	"context"
	"time"

	"sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// clockName names the limiter's clock.
const clockName = "redis"

// limiter is the limiter as one replica reaches it.
type limiter struct {
	replica *Replica
	server  *verificationtest.FakeRedis // that all replicas share
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
	err = l.reach(ctx, "Take", func() (err error) { d, err = l.server.Take(ctx, r); return err })
	return d, err
}

// Peek implements quota.Limiter.
func (l *limiter) Peek(ctx context.Context, r quota.Request) (d quota.Decision, err error) {
	err = l.reach(ctx, "Peek", func() (err error) { d, err = l.server.Peek(ctx, r); return err })
	return d, err
}

// Refund implements quota.Limiter.
func (l *limiter) Refund(ctx context.Context, id string, buckets ...string) error {
	return l.reach(ctx, "Refund", func() error { return l.server.Refund(ctx, id, buckets...) })
}

// Record implements quota.Limiter.
func (l *limiter) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return l.reach(ctx, "Record", func() error { return l.server.Record(ctx, bucket, keep, events) })
}

// Restore implements quota.Limiter.
func (l *limiter) Restore(ctx context.Context, h quota.History) error {
	return l.reach(ctx, "Restore", func() error { return l.server.Restore(ctx, h) })
}

// Reset implements quota.Limiter.
func (l *limiter) Reset(ctx context.Context, buckets ...string) error {
	return l.reach(ctx, "Reset", func() error { return l.server.Reset(ctx, buckets...) })
}
