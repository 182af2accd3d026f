package gates

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// The limiter may lose events: by a flush, a restart, a failover, or because a window was made longer after they were
// dropped. The log has those of recipients. So every answer is the stricter of both gates, and the limiter gets back what it
// lost: with a send, whose second gate counts anyway; with a look or a refusal, where the bucket has no valid mark. While
// nothing is lost, no call is made for it, but for looks at a recipient without a send that counts.

// Settle is how long a recipient's bucket that lacked an event is not marked as complete: longer than a send is between the gates. Such
// a send is lost as well, and the log does not have it yet. Events of failures are in the log before they are in the limiter.
const Settle = 10 * time.Second

// Logged names what the log reads of a recipient: a bucket is complete for these purposes alone.
func Logged(p policy.Purpose) map[quota.Scope]string {
	shares := p.Shares
	if !slices.IsSorted(shares) {
		shares = slices.Sorted(slices.Values(shares))
	}
	return map[quota.Scope]string{quota.Recipient: strings.Join(shares, ","), quota.Failures: ""}
}

// Complete is the decision as it is with the events that the limiter may lack, which are written back. Without the log it stays as
// it is: a refusal is a refusal all the same.
func (g *Gate) Complete(ctx context.Context, s policy.Subject, d quota.Decision) quota.Decision {
	completed, err := g.complete(ctx, s, s.Buckets(), d)
	if err != nil {
		g.logger.WarnContext(ctx, "a refusal is answered as the limiter has it; the log did not answer", "error", err)
		return d
	}
	return completed
}

func (g *Gate) complete(ctx context.Context, s policy.Subject, buckets map[quota.Scope]string, d quota.Decision) (quota.Decision, error) {
	if len(d.Incomplete) == 0 {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	var rules []quota.Rule
	events := map[quota.Scope][]quota.Event{}
	for _, scope := range slices.Sorted(maps.Keys(d.Incomplete)) {
		h, err := g.history(ctx, s, scope, d)
		if err != nil {
			return d, err
		}
		h.Bucket, h.Life, events[scope] = buckets[scope], d.Incomplete[scope], h.Events
		rules = append(rules, quota.OfScope(s.Purpose.Policy.Rules, scope)...)
		if err := g.shared.Restore(ctx, h); err != nil {
			g.logger.WarnContext(ctx, "the limiter did not take the log's history", "error", err)
		}
	}
	logged := quota.Evaluate(rules, events, d.At).Rules
	if lacks(logged, common(d.Rules, logged)) {
		g.rebuilds.Add(1)
	}
	if slices.ContainsFunc(logged, func(s quota.State) bool { return s.Used > 0 }) { // as many are not the same ones
		if both, err := g.peek(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets}); err == nil {
			d.Rules = both.Rules
		}
	}
	d.Rules, d.Incomplete = stricter(slices.Clone(d.Rules), logged), nil
	return d, nil
}

// history is what the log has of one scope, as old on the limiter's clock as it is.
func (g *Gate) history(ctx context.Context, s policy.Subject, scope quota.Scope, d quota.Decision) (quota.History, error) {
	var h quota.History
	var err error
	if scope == quota.Recipient {
		h.Keep, h.Settle = s.Purpose.Window(), Settle
		h.Events, _, err = g.log.HistoryAt(ctx, s.InLog(), h.Keep, d.Clock, d.At)
		return h, err
	}
	h.Keep = g.policy.Get().FailureWindow()
	events, now, err := g.log.Rejected(ctx, s.InLog(), h.Keep)
	for _, e := range events {
		h.Events = append(h.Events, quota.Event{ID: e.ID, At: e.At.Add(d.At.Sub(now))})
	}
	return h, err
}

// Agreed is what both gates say of a send that they let in. Where the log counted more, or the limiter took it so long ago that it may
// be lost from a bucket that was marked since, the limiter gets the log's history, and is asked again.
func (g *Gate) Agreed(ctx context.Context, s policy.Subject, taken quota.Decision, ago time.Duration, begun store.Begun) quota.Decision {
	if begun.Repeated || taken.Clock == store.LogClock {
		return taken // the waits are read again
	}
	counted := append(slices.Clone(begun.History), quota.Event{ID: string(begun.Send.ID[:]), At: begun.At})
	logged := quota.Evaluate(policy.ExplainedByLog(s.Purpose.Policy.Rules),
		map[quota.Scope][]quota.Event{quota.Recipient: counted, quota.Failures: begun.Rejected}, begun.At).Rules
	if ago > Settle/2 || lacks(logged, common(taken.Rules, logged)) {
		if synced, err := g.sync(ctx, s, taken, begun, counted); err == nil {
			taken.Rules = synced.Rules
		} else {
			g.logger.WarnContext(ctx, "the limiter did not take the log's history", "error", err)
		}
	}
	taken.Rules = stricter(slices.Clone(taken.Rules), logged)
	return taken
}

// lacks says that the log counts an event that the limiter lacks. Where a calendar's period ends is no sign of it: that differs
// with the clocks.
func lacks(logged, limited []quota.State) bool {
	for i, l := range logged {
		if l.Used > limited[i].Used || !l.Calendar() && l.RetryAfter > limited[i].RetryAfter {
			return true
		}
	}
	return false
}

// common are the states of those rules that others has too, in its order.
func common(states, others []quota.State) []quota.State {
	found := make([]quota.State, 0, len(others))
	for _, o := range others {
		if i := slices.IndexFunc(states, func(s quota.State) bool { return s.Name == o.Name }); i >= 0 {
			found = append(found, states[i])
		}
	}
	return found
}
