package rig

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// away is a log whose connection can be cut.
type Away struct {
	*sqlite.DB
	Uncertain atomic.Bool
	cut       atomic.Bool
}

func (a *Away) Set(cut bool) { a.cut.Store(cut) }

func (a *Away) err() error {
	switch {
	case !a.cut.Load():
		return nil
	case a.Uncertain.Load():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrUncertain)
	}
	return store.ErrUnavailable
}

func (a *Away) Begin(ctx context.Context, i store.Intent) (store.Begun, error) {
	if err := a.err(); err != nil {
		return store.Begun{}, err
	}
	return a.DB.Begin(ctx, i)
}

func (a *Away) Redeem(ctx context.Context, id string, by []byte) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Redeem(ctx, id, by)
}

func (a *Away) Refused(ctx context.Context, rows []store.Send) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Refused(ctx, rows)
}

func (a *Away) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Renew(ctx, lease, held)
}

func (a *Away) Finish(ctx context.Context, o store.Outcome) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Finish(ctx, o)
}

func (a *Away) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Postpone(ctx, p)
}

func (a *Away) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, n int) ([]store.Work, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.TakeOver(ctx, ch, lease, n)
}

func (a *Away) RefundsDue(ctx context.Context, lease time.Duration, n int) ([]store.Refund, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.RefundsDue(ctx, lease, n)
}

// noLimiter is a Redis that does not answer.
type NoLimiter struct{ *quota.Memory }

func (NoLimiter) Take(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (NoLimiter) Peek(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (NoLimiter) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (NoLimiter) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

func (NoLimiter) Refund(context.Context, string, ...string) error { return quota.ErrUnavailable }

// swap is a limiter that can be exchanged under way: flushed, lost, broken.
type swap struct{ Now atomic.Pointer[gates.Limiter] }

func newSwap(l gates.Limiter) *swap {
	s := &swap{}
	s.Set(l)
	return s
}

func (s *swap) Set(l gates.Limiter) { s.Now.Store(&l) }

func (s *swap) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return (*s.Now.Load()).Take(ctx, r)
}

func (s *swap) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return (*s.Now.Load()).Peek(ctx, r)
}

func (s *swap) Refund(ctx context.Context, id string, buckets ...string) error {
	return (*s.Now.Load()).Refund(ctx, id, buckets...)
}

func (s *swap) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return (*s.Now.Load()).Record(ctx, bucket, keep, events)
}

func (s *swap) Restore(ctx context.Context, h quota.History) error {
	return (*s.Now.Load()).Restore(ctx, h)
}

func (s *swap) Reset(ctx context.Context, buckets ...string) error {
	return (*s.Now.Load()).Reset(ctx, buckets...)
}

func (NoLimiter) Reset(context.Context, ...string) error { return quota.ErrUnavailable }

// deaf is a Redis whose answers are lost.
type Deaf struct{ *quota.Memory }

func (d Deaf) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if _, err := d.Memory.Take(ctx, r); err != nil {
		return quota.Decision{}, err
	}
	return quota.Decision{}, quota.ErrUnavailable
}

// slowLimiter swallows what it is asked.
type SlowLimiter struct{ NoLimiter }

func (s *SlowLimiter) Take(ctx context.Context, _ quota.Request) (quota.Decision, error) {
	<-ctx.Done()
	return quota.Decision{}, quota.ErrUnavailable
}

// unteachable is a limiter that takes nothing in.
type Unteachable struct{ *quota.Memory }

func (Unteachable) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (Unteachable) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

// rival is a log in which another caller's right answer is always a moment earlier.
type Rival struct{ *Away }

func (l Rival) Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error) {
	if _, err := l.Away.Approve(ctx, id, store.NewEvent{}); err != nil {
		return false, err
	}
	return l.Away.Approve(ctx, id, tell)
}

// hangup is a limiter whose client goes away while it decides.
type Hangup struct {
	*quota.Memory
	HangUp context.CancelFunc
}

func (h Hangup) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	defer h.HangUp()
	return h.Memory.Take(ctx, r)
}
