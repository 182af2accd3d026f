package gates

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/quota"
)

const (
	// maxPending bounds pending refunds. The event of a dropped refund counts until its window
	// ends.
	maxPending = 10_000
	// retryRefundFor is how long a pending refund is repeated: the longest usual window.
	retryRefundFor = 24 * time.Hour
	// retryRefundAfter is the pause after a refund that failed alone, while the limiter in Redis is
	// available.
	retryRefundAfter = 10 * time.Second
)

// pendingRefunds has the refunds that the limiter has not made yet.
type pendingRefunds struct {
	making chan struct{} // has one element while MakePendingRefunds runs
	added  chan struct{} // signals that RefundLater has added a refund

	mu   sync.Mutex
	list []pendingRefund
}

type pendingRefund struct {
	id      string
	buckets []string
	since   time.Time // when it was queued
	dueAt   time.Time // when it is retried; zero unless it failed alone
}

// Away reports whether, after this error of Refund or Record, the next call would fail too.
// Otherwise only this call failed, or only a part of a Redis Cluster is away. A call of a node that
// hangs ends with context.DeadlineExceeded, but calls of other nodes would not.
func (*Gates) Away(err error) bool {
	if errors.Is(err, errLimiterAway) || errors.Is(err, context.Canceled) {
		return true
	}
	return !errors.Is(err, quota.ErrPartly) && (errors.Is(err, quota.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded))
}

// RefundLater refunds an event that certainly must not count, such as a send that wasn't written,
// or a check with the right code. In this process it does so at once, in Redis in the background,
// for up to retryRefundFor. If maxPending refunds are pending, this one is dropped.
func (g *Gates) RefundLater(id string, buckets ...string) {
	if err := g.local.Refund(context.Background(), id, buckets...); err == nil && g.shared == nil {
		return
	}
	g.KeepRefund(id, buckets...)
	select {
	case g.pending.added <- struct{}{}:
	default:
	}
}

// KeepRefund queues a failed refund for MakePendingRefunds.
func (g *Gates) KeepRefund(id string, buckets ...string) {
	g.pending.mu.Lock()
	defer g.pending.mu.Unlock()
	if len(g.pending.list) < maxPending {
		g.pending.list = append(g.pending.list, pendingRefund{id: id, buckets: buckets, since: time.Now()})
	}
}

func (g *Gates) PendingRefunds() int {
	g.pending.mu.Lock()
	defer g.pending.mu.Unlock()
	return len(g.pending.list)
}

// RefundsAdded is signalled after RefundLater: then call MakePendingRefunds.
func (g *Gates) RefundsAdded() <-chan struct{} { return g.pending.added }

// MakePendingRefunds makes the pending refunds. It may be called at any time. Refunds wait while
// the limiter in Redis is away. A refund that fails while the limiter is available is kept, and the
// next refunds are made. A refund that panics is dropped.
func (g *Gates) MakePendingRefunds(ctx context.Context) {
	p := &g.pending
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.making }()
	defer panics.Recover(panics.Other)
	p.mu.Lock()
	list := p.list
	p.list = nil
	p.mu.Unlock()
	var remaining []pendingRefund
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = slices.Concat(remaining, list, p.list)
	}()
	for len(list) > 0 {
		r := list[0]
		list = list[1:]
		switch now := time.Now(); {
		case now.Before(r.dueAt):
			remaining = append(remaining, r)
			continue
		case now.Sub(r.since) > retryRefundFor:
			continue
		}
		err := g.Refund(ctx, r.id, r.buckets...)
		if err == nil {
			continue
		}
		if !g.Away(err) {
			r.dueAt = time.Now().Add(retryRefundAfter)
		}
		remaining = append(remaining, r)
		if g.Away(err) {
			return
		}
	}
}
