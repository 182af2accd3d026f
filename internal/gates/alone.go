package gates

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Peek returns the state of every rule for a subject now, and counts nothing. It completes the limiter's answer from the database, and
// writes lost events back to the limiter. While the limiter is unavailable, the database and this process answer. Error: of the database,
// or of a bad request.
func (g *Gate) Peek(ctx context.Context, s policy.Subject) (quota.Decision, error) {
	buckets := s.Buckets()
	d, err := g.callLimiter(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets, Logged: Logged(s.Purpose)}, g.shared.Peek)
	if err == nil {
		d, err = g.CompleteFromLog(ctx, s, d)
	}
	if errors.Is(err, errAway) {
		return g.peekWithoutLimiter(ctx, s, buckets)
	}
	return d, err
}

// PeekAfterSend is Peek after a send with the decision d. If the database decided that send alone, the database answers again: a limiter
// that is back meanwhile may not have the send yet.
func (g *Gate) PeekAfterSend(ctx context.Context, s policy.Subject, d quota.Decision) (quota.Decision, error) {
	if d.Clock == store.LogClock {
		return g.peekWithoutLimiter(ctx, s, s.Buckets())
	}
	return g.Peek(ctx, s)
}

// peekWithoutLimiter returns the state of every rule without the limiter: the rules on the recipient and its failures from the database,
// the other rules from this process.
func (g *Gate) peekWithoutLimiter(ctx context.Context, s policy.Subject, buckets map[quota.Scope]string) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	rules := s.Purpose.Policy.Rules
	events, failures, now, err := g.log.HistoryAt(ctx, s.LogBucket(), s.Purpose.LongestRecipientWindow(),
		quota.LongestKeep(quota.OfScope(rules, quota.Failures)), store.LogClock, func() time.Time { return time.Time{} })
	if err != nil {
		return quota.Decision{}, err
	}
	history := map[quota.Scope][]quota.Event{quota.Recipient: events, quota.Failures: failures}
	notInLog := func(r quota.Rule) bool { return !policy.CountedInLog(r) }
	d := quota.Evaluate(slices.DeleteFunc(slices.Clone(rules), notInLog), history, now)
	d.Clock = store.LogClock
	rest, err := g.local.Peek(ctx, quota.Request{Rules: slices.DeleteFunc(slices.Clone(rules), policy.CountedInLog), Buckets: buckets})
	if err != nil {
		return quota.Decision{}, err
	}
	d.Rules = statesInOrder(rules, append(d.Rules, rest.Rules...))
	return d, nil
}

// statesInOrder returns the states of the rules, in the order of the rules.
func statesInOrder(rules []quota.Rule, states []quota.State) []quota.State {
	sorted := make([]quota.State, 0, len(rules))
	for _, r := range rules {
		for _, s := range states {
			if s.Name == r.Name { // a policy names each rule once
				sorted = append(sorted, s)
			}
		}
	}
	return sorted
}
