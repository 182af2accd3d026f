package gates

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/buckets"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A failed send is refunded, so the rules on the recipient do not slow its repetitions down.
// policy.BackoffRule does: it counts the sends that failed for another reason than the address.
// Only the limiter and this process count these. If both lose the events, at most one more limit
// of sends is admitted, to a server that refuses us anyway. When the rule refuses, the database's
// rows are read to find the sends that no longer count: those before the recipient's last sent
// message, and those that a pause stopped, if the pause is over.

// RecordBackoff counts a failed send in a bucket of BackoffRule, in this process and in the
// limiter. e.At and now are on the same clock. If the limiter does not answer, only this process
// counts the send.
func (g *Gates) RecordBackoff(ctx context.Context, bucket string, e quota.Event, now time.Time) {
	keep := policy.BackoffRule.Window
	if g.local != nil {
		_ = g.local.Record(ctx, bucket, keep, []quota.Event{{ID: e.ID, At: g.now().Add(e.At.Sub(now))}})
	}
	_ = g.recordAged(ctx, bucket, keep, e, now)
}

// correctBackoff replaces the state of BackoffRule in d, if the rule refuses, by the state that
// follows from the database. If the number of events differs, it rewrites the bucket. It reads the
// rows of a bucket at most once in RewriteEvery; between reads, or if the database or the limiter
// fails, it returns d.
func (g *Gates) correctBackoff(ctx context.Context, s buckets.Subject, d quota.Decision) quota.Decision {
	i := slices.IndexFunc(d.Rules, func(r quota.State) bool { return r.Scope == quota.Backoff && r.RetryAfter > 0 })
	bucket := s.Buckets()[quota.Backoff]
	if i < 0 || !g.rewrites.mayRewrite(bucket, g.now()) {
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	rule := d.Rules[i].Rule
	failed, now, err := g.db.FailedSends(ctx, store.FailedSendsQuery{
		App: s.App, Channel: s.Channel, Recipient: s.Recipient, Class: s.Class, Within: rule.Window,
	})
	ages := g.agesOfFailedSends(s, failed, now)
	if err == nil && len(ages) != d.Rules[i].Used {
		err = g.replaceBackoffEvents(ctx, bucket, rule, ages, d)
	}
	if err != nil {
		g.logUncompared(ctx, err)
		return d
	}
	events := map[quota.Scope][]quota.Event{quota.Backoff: eventsFromAges(ages, d.At)}
	d.Rules = slices.Clone(d.Rules)
	d.Rules[i] = quota.Evaluate([]quota.Rule{rule}, events, d.At).Rules[0]
	return d
}

// agesOfFailedSends returns the ages at now of the failed sends that still count, by their IDs. A
// send that a pause stopped does not count once the pause is over.
func (g *Gates) agesOfFailedSends(s buckets.Subject, failed []store.FailedSend, now time.Time) map[string]time.Duration {
	set, ages := g.policy.Get(), map[string]time.Duration{}
	for _, f := range failed {
		_, paused := set.Paused(s.Channel, f.Purpose)
		if !f.Paused || f.Held || paused {
			ages[string(f.ID[:])] = now.Sub(f.EndedAt)
		}
	}
	return ages
}

// eventsFromAges returns the events that have these ages at an instant, oldest first.
func eventsFromAges(ages map[string]time.Duration, at time.Time) (events []quota.Event) {
	for id, age := range ages {
		events = append(events, quota.Event{ID: id, At: at.Add(-age)})
	}
	slices.SortFunc(events, func(a, b quota.Event) int { return a.At.Compare(b.At) })
	return events
}

// replaceBackoffEvents replaces the events of a bucket of BackoffRule, in this process and, unless
// d was made without the limiter, in the limiter. Error: of the limiter.
func (g *Gates) replaceBackoffEvents(ctx context.Context, bucket string, rule quota.Rule, ages map[string]time.Duration,
	d quota.Decision) error {
	replace := func(in Limiter, at time.Time) error {
		if err := in.Reset(ctx, bucket); err != nil || len(ages) == 0 {
			return err
		}
		return in.Record(ctx, bucket, rule.Window, eventsFromAges(ages, at))
	}
	var err error
	if g.local != nil {
		err = replace(g.local, g.now())
	}
	if d.Clock != store.DatabaseClock {
		err = errors.Join(err, replace(g.shared, d.At))
	}
	return err
}
