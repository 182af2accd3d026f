package gates

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Overruled is the answer to a send that the limiter let in and the log refused: the send's own place leaves the limiter, the true
// history is written into it. The answer is the log's, and of each rule the limiter's where that is stricter, or where the log does
// not decide it. The limiter may still say that there is room: its clock was set ahead, and what it counts already keeps its
// instant. With refund the limiter did not take it, and the place is still to be given back.
func (g *Gate) Overruled(ctx context.Context, s policy.Subject, id uuid.UUID, taken quota.Decision,
	begun store.Begun) (d quota.Decision, refund bool) {
	own := policy.ExplainedByLog(s.Purpose.Policy.Rules)
	d = quota.Evaluate(own, map[quota.Scope][]quota.Event{quota.Recipient: begun.History, quota.Failures: begun.Rejected}, begun.Now)
	d.Clock = begun.Clock
	states := taken.Rules
	if synced, err := g.undo(ctx, s, id, taken, begun); err == nil {
		states = synced.Rules
		d.Rules = stricter(d.Rules, states)
	} else {
		refund = true
	}
	for _, state := range states {
		if !slices.ContainsFunc(own, func(r quota.Rule) bool { return r.Name == state.Name }) {
			d.Rules = append(d.Rules, state)
		}
	}
	d.Rules = inOrder(s.Purpose.Policy.Rules, d.Rules)
	return d, refund
}

// stricter is of each of the first states the one with the longer wait, and with as long a one that which counts more.
func stricter(states, others []quota.State) []quota.State {
	for i, s := range states {
		for _, o := range others {
			if o.Name == s.Name && cmp.Or(cmp.Compare(o.RetryAfter, s.RetryAfter), cmp.Compare(o.Used, s.Used)) > 0 {
				states[i], s = o, o
			}
		}
	}
	return states
}

// errOtherClock says that the limiter cannot take a history, as it is not on its clock.
var errOtherClock = errors.New("gates: the history is on another clock")

// undo takes a refused send out of the limiter, and writes the history into it.
func (g *Gate) undo(ctx context.Context, s policy.Subject, id uuid.UUID, taken quota.Decision, begun store.Begun) (quota.Decision, error) {
	if begun.Clock != taken.Clock || begun.Clock == store.LogClock {
		return quota.Decision{}, errOtherClock
	}
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	if err := g.shared.Refund(ctx, string(id[:]), policy.Counted(s.Buckets())...); err != nil {
		return quota.Decision{}, err
	}
	return g.sync(ctx, s, taken, begun, begun.History)
}

// sync writes what the log counts into the limiter, and looks at what that makes of it.
func (g *Gate) sync(ctx context.Context, s policy.Subject, taken quota.Decision, begun store.Begun,
	counted []quota.Event) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	history := slices.Clone(counted)
	for i := range history { // an age is an age, wherever the log saw the limiter's now
		history[i].At = history[i].At.Add(taken.At.Sub(begun.At))
	}
	buckets := s.Buckets()
	h := quota.History{Bucket: buckets[quota.Recipient], Keep: s.Purpose.Window(), Events: history, Settle: Settle}
	if err := g.shared.Restore(ctx, h); err != nil {
		return quota.Decision{}, err
	}
	g.rebuilt(len(history))
	if err := g.RecordFailures(ctx, s.Failures(), begun.Rejected, begun.At); err != nil {
		return quota.Decision{}, err
	}
	return g.peek(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets})
}

// Recount lets a send that an earlier request may have taken count from this Take of it, as it will in the log.
func (g *Gate) Recount(ctx context.Context, s policy.Subject, id string, taken quota.Decision) {
	if taken.Clock == store.LogClock {
		return
	}
	if err := g.Record(ctx, s.Buckets()[quota.Recipient], s.Purpose.Window(), quota.Event{ID: id, At: taken.At}); err != nil {
		g.logger.WarnContext(ctx, "the limiter counts a send from an earlier request", "error", err)
	}
}

// A send that a mail server or a carrier rejects for good, or that is not even tried, gives its place back: a typing error costs
// nothing. So that a bad address cannot be tried for ever, such sends count in a bucket of their own, for rules of the scope
// failures. The log decides that rule too, from its rows; the limiter gets each failure, and all of them after a refusal by the log.

// RecordFailures writes failed sends into the limiter: each as old on its clock as it is at now on that of the events.
func (g *Gate) RecordFailures(ctx context.Context, bucket string, events []quota.Event, now time.Time) error {
	keep := g.policy.Get().FailureWindow()
	if keep == 0 || len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	clock, err := g.peek(ctx, quota.Request{
		Rules:   []quota.Rule{{Name: "clock", Scope: quota.Failures, Limit: 1, Window: quota.MinWindow}},
		Buckets: map[quota.Scope]string{quota.Failures: bucket},
	})
	if err != nil {
		return err
	}
	events = slices.Clone(events)
	for i := range events {
		events[i].At = events[i].At.Add(clock.At.Sub(now))
	}
	return g.shared.Record(ctx, bucket, keep, events)
}
