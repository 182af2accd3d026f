package verificationtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sendcode/internal/gates"
	"sendcode/quota"
)

// LoseLimiter makes the limiter unreachable.
func (r *Rig) LoseLimiter() { r.Limiter.Set(DownLimiter{quota.NewMemory(time.Now, "process")}) }

// EmptyLimiter exchanges the limiter for one that has counted nothing.
func (r *Rig) EmptyLimiter() *quota.Memory {
	m := quota.NewMemory(time.Now, "process")
	r.Limiter.Set(m)
	return m
}

// DownLimiter is a limiter that cannot be reached.
type DownLimiter struct{ *quota.Memory }

func (DownLimiter) Take(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (DownLimiter) Peek(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (DownLimiter) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (DownLimiter) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

func (DownLimiter) Refund(context.Context, string, ...string) error { return quota.ErrUnavailable }

// SwapLimiter is a limiter that can be exchanged while requests are under way.
type SwapLimiter struct{ Now atomic.Pointer[gates.Limiter] }

func newSwapLimiter(l gates.Limiter) *SwapLimiter {
	s := &SwapLimiter{}
	s.Set(l)
	return s
}

func (s *SwapLimiter) get() gates.Limiter { return *s.Now.Load() }

// Set exchanges the limiter.
func (s *SwapLimiter) Set(l gates.Limiter) { s.Now.Store(&l) }

func (s *SwapLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return s.get().Take(ctx, r)
}

func (s *SwapLimiter) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return s.get().Peek(ctx, r)
}

func (s *SwapLimiter) Refund(ctx context.Context, id string, buckets ...string) error {
	return s.get().Refund(ctx, id, buckets...)
}

func (s *SwapLimiter) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return s.get().Record(ctx, bucket, keep, events)
}

func (s *SwapLimiter) Restore(ctx context.Context, h quota.History) error {
	return s.get().Restore(ctx, h)
}

func (s *SwapLimiter) Reset(ctx context.Context, buckets ...string) error {
	return s.get().Reset(ctx, buckets...)
}

func (DownLimiter) Reset(context.Context, ...string) error { return quota.ErrUnavailable }

// MuteLimiter is a limiter whose answers to Take are lost.
type MuteLimiter struct{ *quota.Memory }

func (d MuteLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	_, _ = d.Memory.Take(ctx, r)
	return quota.Decision{}, quota.ErrUnavailable
}

// SlowLimiter does not answer Take before the client gives up.
type SlowLimiter struct{ DownLimiter }

func (s *SlowLimiter) Take(ctx context.Context, _ quota.Request) (quota.Decision, error) {
	<-ctx.Done()
	return quota.Decision{}, quota.ErrUnavailable
}

// ForgetfulLimiter cannot be told of events of the log.
type ForgetfulLimiter struct{ *quota.Memory }

func (ForgetfulLimiter) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (ForgetfulLimiter) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

// HangUpLimiter is a limiter whose client hangs up while it decides.
type HangUpLimiter struct {
	*quota.Memory
	HangUp context.CancelFunc
}

func (h HangUpLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	defer h.HangUp()
	return h.Memory.Take(ctx, r)
}

// NotedLimiter notes what it is asked.
type NotedLimiter struct {
	gates.Limiter
	Calls *[]string
}

func (c NotedLimiter) note(call string) { *c.Calls = append(*c.Calls, call) }

func (c NotedLimiter) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("take")
	return c.Limiter.Take(ctx, r)
}

func (c NotedLimiter) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("peek")
	return c.Limiter.Peek(ctx, r)
}

func (c NotedLimiter) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	c.note("record")
	return c.Limiter.Record(ctx, bucket, keep, events)
}

func (c NotedLimiter) Restore(ctx context.Context, h quota.History) error {
	c.note(fmt.Sprintf("restore %d", len(h.Events)))
	return c.Limiter.Restore(ctx, h)
}

// LostRefund is a limiter that does not hear the first refund.
type LostRefund struct {
	gates.Limiter
	Calls *int
}

func (f LostRefund) Refund(ctx context.Context, id string, buckets ...string) error {
	if *f.Calls++; *f.Calls == 1 {
		return context.DeadlineExceeded
	}
	return f.Limiter.Refund(ctx, id, buckets...)
}
