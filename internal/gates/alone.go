package gates

import (
	"context"
	"slices"

	"sendcode/internal/buckets"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// peekWithoutLimiter returns the state of every rule without the limiter. The states of rules on
// the recipient and its failures come from the database, those of other rules from this process.
// Errors: of the database, or of a bad request.
func (g *Gates) peekWithoutLimiter(ctx context.Context, s buckets.Subject,
	buckets map[quota.Scope]string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	rules, look := s.Purpose.Policy.Rules, g.historyQuery(s)
	h, err := g.readRows(ctx, look)
	if err != nil {
		return Answer{}, err
	}
	history := map[quota.Scope][]quota.Event{
		quota.Recipient: h.Sends(s.Purpose.LongestRecipientWindow(), store.DatabaseClock, h.Now),
		quota.Failures:  h.RejectedSends(look.Rejected),
	}
	notInDatabase := func(r quota.Rule) bool { return !policy.CountedInDatabase(r) }
	d := quota.Evaluate(slices.DeleteFunc(slices.Clone(rules), notInDatabase), history, h.Now)
	d.Clock = store.DatabaseClock
	rest, err := g.local.Peek(ctx,
		quota.Request{Rules: slices.DeleteFunc(slices.Clone(rules), policy.CountedInDatabase), Buckets: buckets})
	if err != nil {
		return Answer{}, err
	}
	d.Rules = statesInOrder(rules, append(d.Rules, rest.Rules...))
	return Answer{d, &h}, nil
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
