package gates

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

// refunding is a limiter that records refunds, and fails for some.
type refunding struct {
	Limiter
	calls []string
	fails map[string]error
	then  func() // runs once, within the next call of Refund
}

func (r *refunding) Refund(_ context.Context, id string, buckets ...string) error {
	if then := r.then; then != nil {
		r.then = nil
		then()
	}
	r.calls = append(r.calls, fmt.Sprintf("%s %v", id, buckets))
	return r.fails[id]
}

// made makes the pending refunds, and fails the test unless the limiter got the calls in want.
func (r *refunding) made(t *testing.T, g *Gates, what string, want ...string) {
	t.Helper()
	g.MakePendingRefunds(t.Context())
	servertest.Same(t, what, fmt.Sprintf("%q", r.calls), fmt.Sprintf("%q", want))
	r.calls = nil
}

func newRefunding() (*refunding, *Gates) {
	l := &refunding{fails: map[string]error{}}
	return l, New(l, nil, nil, nil, time.Now, time.Now, slog.New(slog.DiscardHandler))
}

// Refunds are made in their order, and none is repeated after it succeeded, even if refunds are
// added in between.
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

// Only one round of refunds runs at a time. A second one waits, but not longer than its context
// lasts.
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
func TestPendingRefundThatFailsStopsNoOthers(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l, g := newRefunding()
		for _, id := range []string{"a", "b", "c", "d"} {
			g.RefundLater(id, "x")
		}
		l.fails["a"], l.fails["c"] = fmt.Errorf("%w: %w", quota.ErrPartly, quota.ErrUnavailable), errors.New("its own")
		l.fails["b"] = fmt.Errorf("%w: %w: %w", quota.ErrPartly, quota.ErrUnavailable, context.DeadlineExceeded) // a node hangs
		l.made(t, g, "all", "a [x]", "b [x]", "c [x]", "d [x]")
		l.fails = nil
		l.made(t, g, "at once")
		time.Sleep(retryRefundAfter)
		l.made(t, g, "later", "a [x]", "b [x]", "c [x]")
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
		g = New(quota.NewMemory(time.Now), nil, nil, nil, time.Now, time.Now, slog.New(slog.DiscardHandler))
		g.RefundLater("a", "x")
		servertest.Same(t, "without Redis", len(g.pending.list), 0)
	})
}

// Away reports true for errors after which the next call would fail, too.
func TestAway(t *testing.T) {
	_, g := newRefunding()
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"the limiter":         {errLimiterAway, true},
		"an ended deadline":   {fmt.Errorf("a call: %w", context.DeadlineExceeded), true},
		"a canceled context":  {fmt.Errorf("a call: %w", context.Canceled), true},
		"Redis":               {quota.ErrUnavailable, true},
		"a part of a Cluster": {errors.Join(quota.ErrPartly, quota.ErrUnavailable), false},
		"another error":       {errors.New("a bad request"), false},
		"no error":            {nil, false},
	} {
		servertest.Same(t, what, g.Away(c.err), c.want)
	}
}

// answering is a limiter that answers all looks in the same way.
type answering struct {
	Limiter
	used int
}

func (a answering) Peek(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{Rules: counts(a.used)}, nil
}

func (answering) Record(context.Context, string, time.Duration, []quota.AgedEvent) error { return nil }

func counts(used int) []quota.State {
	return []quota.State{{Rule: quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour}, Used: used}}
}

// The limiter has lost events only if its count grows when the rows' events are added to it. If it
// does not, another request was counted between the two looks.
func TestCorrectAndMergeTellsOnlyLostEvents(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int
		outage        bool
		want          int
	}{
		"the limiter lacked an event":          {before: 1, after: 2, want: 1},
		"it has the event, and had it in time": {before: 1, after: 1},
		"it has all":                           {before: 2, after: 2},
		"it has more":                          {before: 3, after: 3},
		"it lacked an event after an outage":   {before: 1, after: 2, outage: true},
	} {
		lost, now := 0, time.Now()
		set := policy.NewCurrentSet(policy.Set{}, time.Now)
		g := New(answering{used: c.after}, nil, set, func() { lost++ }, func() time.Time { return now }, time.Now,
			slog.New(slog.DiscardHandler))
		if c.outage {
			g.outage.ended.Store(now.UnixMicro())
		}
		rules := []quota.Rule{{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour}}
		plan := buckets.Plan{Rules: rules, SendRules: rules, Buckets: map[quota.Scope]string{quota.Recipient: "b"}}
		rows := databaseRows{states: counts(2), now: now, askedAt: now}
		g.correctAndMerge(t.Context(), plan, quota.Decision{Rules: counts(c.before), At: now}, now, now, rows)
		servertest.Same(t, name, lost, c.want)
	}
}
