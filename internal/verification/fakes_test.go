package verification

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// away is a log whose connection can be cut.
type away struct {
	*sqlite.DB
	uncertain atomic.Bool
	cut       atomic.Bool
}

func (a *away) set(cut bool) { a.cut.Store(cut) }

func (a *away) err() error {
	switch {
	case !a.cut.Load():
		return nil
	case a.uncertain.Load():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrUncertain)
	}
	return store.ErrUnavailable
}

func (a *away) Begin(ctx context.Context, i store.Intent) (store.Begun, error) {
	if err := a.err(); err != nil {
		return store.Begun{}, err
	}
	return a.DB.Begin(ctx, i)
}

func (a *away) Refused(ctx context.Context, rows []store.Send) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Refused(ctx, rows)
}

func (a *away) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Renew(ctx, lease, held)
}

func (a *away) Finish(ctx context.Context, o store.Outcome) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Finish(ctx, o)
}

func (a *away) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Postpone(ctx, p)
}

func (a *away) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, n int) ([]store.Work, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.TakeOver(ctx, ch, lease, n)
}

func (a *away) RefundsDue(ctx context.Context, lease time.Duration, n int) ([]store.Refund, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.RefundsDue(ctx, lease, n)
}

// noLimiter is a Redis that does not answer.
type noLimiter struct{ *quota.Memory }

func (noLimiter) Take(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (noLimiter) Peek(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (noLimiter) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (noLimiter) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

func (noLimiter) Refund(context.Context, string, ...string) error { return quota.ErrUnavailable }

// swap is a limiter that can be exchanged under way: flushed, lost, broken.
type swap struct{ now atomic.Pointer[Limiter] }

func newSwap(l Limiter) *swap {
	s := &swap{}
	s.set(l)
	return s
}

func (s *swap) set(l Limiter) { s.now.Store(&l) }

func (s *swap) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return (*s.now.Load()).Take(ctx, r)
}

func (s *swap) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return (*s.now.Load()).Peek(ctx, r)
}

func (s *swap) Refund(ctx context.Context, id string, buckets ...string) error {
	return (*s.now.Load()).Refund(ctx, id, buckets...)
}

func (s *swap) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	return (*s.now.Load()).Record(ctx, bucket, keep, events)
}

func (s *swap) Restore(ctx context.Context, h quota.History) error {
	return (*s.now.Load()).Restore(ctx, h)
}

func (s *swap) Reset(ctx context.Context, buckets ...string) error {
	return (*s.now.Load()).Reset(ctx, buckets...)
}

func (noLimiter) Reset(context.Context, ...string) error { return quota.ErrUnavailable }

// deaf is a Redis whose answers are lost.
type deaf struct{ *quota.Memory }

func (d deaf) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if _, err := d.Memory.Take(ctx, r); err != nil {
		return quota.Decision{}, err
	}
	return quota.Decision{}, quota.ErrUnavailable
}

// slowLimiter swallows what it is asked.
type slowLimiter struct{ noLimiter }

func (s *slowLimiter) Take(ctx context.Context, _ quota.Request) (quota.Decision, error) {
	<-ctx.Done()
	return quota.Decision{}, quota.ErrUnavailable
}

// unteachable is a limiter that takes nothing in.
type unteachable struct{ *quota.Memory }

func (unteachable) Record(context.Context, string, time.Duration, []quota.Event) error {
	return quota.ErrUnavailable
}

func (unteachable) Restore(context.Context, quota.History) error { return quota.ErrUnavailable }

// rival is a log in which somebody else's right answer is always a moment earlier.
type rival struct{ *away }

func (l rival) Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error) {
	if _, err := l.away.Approve(ctx, id, store.NewEvent{}); err != nil {
		return false, err
	}
	return l.away.Approve(ctx, id, tell)
}

// hangup is a limiter whose client goes away while it decides.
type hangup struct {
	*quota.Memory
	hangUp context.CancelFunc
}

func (h hangup) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	defer h.hangUp()
	return h.Memory.Take(ctx, r)
}
