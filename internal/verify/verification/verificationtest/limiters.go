package verificationtest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"sendcode/internal/limit/gates"
	"sendcode/quota"
)

// Interceptor runs instead of a call of a limiter, and may make the call with do. Its error is the
// call's error.
type Interceptor func(ctx context.Context, call string, do func() error) error

// Limiter is a limiter that can be exchanged, watched and disturbed while requests are under way.
type Limiter struct {
	calls
	limiter   atomic.Pointer[gates.Limiter]
	intercept atomic.Pointer[Interceptor]
}

// NewLimiter wraps l. intercept is as for Intercept.
func NewLimiter(l gates.Limiter, intercept Interceptor) *Limiter {
	s := &Limiter{}
	s.calls = s.call
	s.Set(l)
	s.Intercept(intercept)
	return s
}

// Set exchanges the limiter, and removes the function that Intercept set.
func (li *Limiter) Set(l gates.Limiter) {
	li.Intercept(nil)
	li.limiter.Store(&l)
}

// Intercept sets a function that runs instead of each call of the limiter; nil: none.
func (li *Limiter) Intercept(f Interceptor) {
	if f == nil {
		f = func(_ context.Context, _ string, do func() error) error { return do() }
	}
	li.intercept.Store(&f)
}

// Unreachable makes these calls fail; if none is named, all calls.
func Unreachable(calls ...string) Interceptor {
	return func(_ context.Context, call string, do func() error) error {
		if len(calls) > 0 && !slices.Contains(calls, call) {
			return do()
		}
		return quota.ErrUnavailable
	}
}

// LoseLimiter makes the limiter unreachable, until Set or Intercept.
func (r *Rig) LoseLimiter() { r.Limiter.Intercept(Unreachable()) }

// LoseFirstRefund makes the first refund fail.
func (r *Rig) LoseFirstRefund() {
	r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
		if call != "Refund" {
			return do()
		}
		r.Limiter.Intercept(nil)
		return context.DeadlineExceeded
	})
}

// ReplaceLimiter exchanges the limiter for one that has counted nothing.
func (r *Rig) ReplaceLimiter() *quota.Memory {
	m := quota.NewMemory(time.Now)
	r.Limiter.Set(m)
	return m
}

func (li *Limiter) call(ctx context.Context, name string, do func(gates.Limiter) error) error {
	limiter := *li.limiter.Load()
	return (*li.intercept.Load())(ctx, name, func() error { return do(limiter) })
}

// calls is a limiter that passes each call to a function, with the call's name.
type calls func(ctx context.Context, name string, do func(gates.Limiter) error) error

// Take implements gates.Limiter. After an error it does not read d, since the call may still run.
func (c calls) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	var d quota.Decision
	if err := c(ctx, "Take", func(l gates.Limiter) (err error) { d, err = l.Take(ctx, r); return err }); err != nil {
		return quota.Decision{}, err
	}
	return d, nil
}

// Peek implements gates.Limiter.
func (c calls) Peek(ctx context.Context, r quota.Request) (d quota.Decision, err error) {
	err = c(ctx, "Peek", func(l gates.Limiter) (err error) { d, err = l.Peek(ctx, r); return err })
	return d, err
}

// Refund implements gates.Limiter.
func (c calls) Refund(ctx context.Context, id string, buckets ...string) error {
	return c(ctx, "Refund", func(l gates.Limiter) error { return l.Refund(ctx, id, buckets...) })
}

// Record implements gates.Limiter.
func (c calls) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error {
	return c(ctx, "Record", func(l gates.Limiter) error { return l.Record(ctx, bucket, keep, events) })
}

// Reset implements gates.Limiter.
func (c calls) Reset(ctx context.Context, buckets ...string) error {
	return c(ctx, "Reset", func(l gates.Limiter) error { return l.Reset(ctx, buckets...) })
}
