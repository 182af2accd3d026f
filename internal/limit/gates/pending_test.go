package gates

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

// refunding is a limiter that notes refunds, and fails for some.
type refunding struct {
	Limiter
	calls []string
	fails map[string]error
	then  func() // once, in the middle of a call
}

func (r *refunding) Refund(_ context.Context, id string, buckets ...string) error {
	if then := r.then; then != nil {
		r.then = nil
		then()
	}
	r.calls = append(r.calls, fmt.Sprintf("%s %v", id, buckets))
	return r.fails[id]
}

// made makes the pending refunds, and compares what the limiter was asked for.
func (r *refunding) made(t *testing.T, g *Gates, what string, want ...string) {
	t.Helper()
	g.MakePendingRefunds(t.Context())
	servertest.Same(t, what, fmt.Sprintf("%q", r.calls), fmt.Sprintf("%q", want))
	r.calls = nil
}

func newRefunding() (*refunding, *Gates) {
	l := &refunding{fails: map[string]error{}}
	return l, New(l, nil, nil, nil, time.Now, slog.New(slog.DiscardHandler))
}

// Refunds are made in their order, each once, whatever the limiter does meanwhile.
func TestPendingRefundsAreMadeInOrder(t *testing.T) {
	l, g := newRefunding()
	g.RefundLater("a", "ana")
	g.RefundLater("b", "ana")
	l.fails["a"], l.then = quota.ErrUnavailable, func() { g.RefundLater("c", "bo") }
	l.made(t, g, "away", "a [ana]")
	l.fails = nil
	l.made(t, g, "back", "a [ana]", "b [ana]", "c [bo]")
	l.made(t, g, "again")
}

// One round is made at a time: a second one waits, at most as long as its context.
func TestPendingRefundsAreMadeOnce(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l, g := newRefunding()
		g.RefundLater("a", "ana")
		l.then = func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			g.MakePendingRefunds(ctx)
			servertest.Same(t, "calls meanwhile", len(l.calls), 0)
		}
		l.made(t, g, "both", "a [ana]")
	})
}

// If a refund cannot be made, since a part of the Cluster is away or for a fault of its own, other
// refunds are still made.
func TestARefundThatFailsStopsNoOthers(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l, g := newRefunding()
		for _, id := range []string{"a", "b", "c", "d"} {
			g.RefundLater(id, "x")
		}
		l.fails["a"], l.fails["c"] = fmt.Errorf("%w: %w", quota.ErrPartly, quota.ErrUnavailable), errors.New("its own")
		l.made(t, g, "all", "a [x]", "b [x]", "c [x]", "d [x]")
		l.fails = nil
		l.made(t, g, "at once")
		time.Sleep(retryRefundAfter)
		l.made(t, g, "later", "a [x]", "c [x]")
	})
}

func TestPendingRefundsEnd(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l, g := newRefunding()
		for range maxPending + 1 {
			g.RefundLater("a", "x")
		}
		servertest.Same(t, "what waits", len(g.pending.list), maxPending)
		g.pending.list = g.pending.list[:1]
		time.Sleep(24 * time.Hour)
		l.fails["a"] = quota.ErrUnavailable
		l.made(t, g, "after a day", "a [x]")
		time.Sleep(time.Nanosecond)
		l.made(t, g, "later")
		g = New(quota.NewMemory(time.Now), nil, nil, nil, time.Now, slog.New(slog.DiscardHandler))
		g.RefundLater("a", "x")
		servertest.Same(t, "without Redis", len(g.pending.list), 0)
	})
}
