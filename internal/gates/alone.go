package gates

import (
	"context"
	"errors"
	"slices"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Look says what every rule of a subject says now, and counts nothing. Error: of the limiter or the log.
func (g *Gate) Look(ctx context.Context, s policy.Subject) (quota.Decision, error) {
	buckets := s.Buckets()
	d, err := g.peek(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets, Logged: Logged(s.Purpose)})
	if err == nil {
		d, err = g.complete(ctx, s, buckets, d)
	}
	if errors.Is(err, errAway) {
		return g.explainAlone(ctx, s, buckets)
	}
	return d, err
}

// LookAfter is Look after a send that was decided as d says. A limiter that is back only now may not have the send: where the log
// decided alone, the log is asked.
func (g *Gate) LookAfter(ctx context.Context, s policy.Subject, d quota.Decision) (quota.Decision, error) {
	if d.Clock == store.LogClock {
		return g.explainAlone(ctx, s, s.Buckets())
	}
	return g.Look(ctx, s)
}

// explainAlone is what every rule says without the limiter: the recipient's and its failures' from the log, the others' from this
// process.
func (g *Gate) explainAlone(ctx context.Context, s policy.Subject, buckets map[quota.Scope]string) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	rules := s.Purpose.Policy.Rules
	events, now, err := g.log.History(ctx, s.InLog(), s.Purpose.Window())
	if err != nil {
		return quota.Decision{}, err
	}
	history := map[quota.Scope][]quota.Event{quota.Recipient: events}
	if failures := quota.OfScope(rules, quota.Failures); len(failures) > 0 {
		if history[quota.Failures], _, err = g.log.Rejected(ctx, s.InLog(), quota.Longest(failures)); err != nil {
			return quota.Decision{}, err
		}
	}
	notInLog := func(r quota.Rule) bool { return !policy.InLog(r) }
	d := quota.Evaluate(slices.DeleteFunc(slices.Clone(rules), notInLog), history, now)
	d.Clock = store.LogClock
	rest, err := g.local.Peek(ctx, quota.Request{Rules: slices.DeleteFunc(slices.Clone(rules), policy.InLog), Buckets: buckets})
	if err != nil {
		return quota.Decision{}, err
	}
	d.Rules = inOrder(rules, append(d.Rules, rest.Rules...))
	return d, nil
}

// inOrder puts states back into the order of the policy.
func inOrder(rules []quota.Rule, states []quota.State) []quota.State {
	var sorted []quota.State
	for _, r := range rules {
		for _, s := range states {
			if s.Name == r.Name { // a policy names each rule once
				sorted = append(sorted, s)
			}
		}
	}
	return sorted
}
