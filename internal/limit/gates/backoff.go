package gates

import (
	"context"
	"slices"

	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A failed send is refunded, so the rules on the recipient do not slow down repeated sends. The
// rule policy.BackoffRule slows them down instead. It counts the sends that failed for a reason
// other than the address.
//
// These counts are only in the limiter and in this process. If both lose them, the rule starts
// again from zero. The harm is small: the rule then admits at most its limit of further sends, to a
// server that refuses them anyway.
//
// A counted send no longer counts if a later message was sent to the recipient. It also no longer
// counts if a pause stopped the send and the pause is over. The limiter does not know this, so when
// the rule refuses, the database's rows are read.

// correctBackoff corrects the state of BackoffRule in the decision d if the rule refuses. The state
// computed from the database's rows replaces the limiter's state (promise 4 of docs/PROMISES.md).
// If the rule admits by the new state, correctBackoff refunds the sends that no longer count. If
// the database fails, it returns d unchanged.
func (g *Gates) correctBackoff(ctx context.Context, p buckets.Plan, d quota.Decision) quota.Decision {
	i := slices.IndexFunc(d.Rules, func(r quota.State) bool { return r.Scope == quota.Backoff && r.RetryAfter > 0 })
	if i < 0 {
		return d
	}
	bucket, rule := p.Buckets[quota.Backoff], d.Rules[i].Rule
	x := g.backoffs.read(ctx, readKey{bucket: bucket, stranger: p.Class.IsStranger()}, g.now,
		func(quota.State) bool { return false },
		func(ctx context.Context) (quota.State, error) { return g.reconcileBackoff(ctx, p, bucket, rule) })
	if x.err != nil {
		g.logNotAdded(ctx, x.err)
		return d
	}
	d.Rules = slices.Clone(d.Rules)
	d.Rules[i] = x.rows
	return d
}

// reconcileBackoff computes the state of BackoffRule from the failed sends in the database. If the
// rule admits by this state, reconcileBackoff refunds the sends that no longer count. It returns
// errors of the database and of the limiter.
func (g *Gates) reconcileBackoff(ctx context.Context, p buckets.Plan, bucket string, rule quota.Rule) (quota.State, error) {
	failed, now, err := g.db.FailedSends(ctx, store.FailedSendsQuery{
		App: p.App, Channel: p.Channel, Recipient: p.Recipient, Class: p.Class, Within: rule.Window,
	})
	if err != nil {
		return quota.State{}, err
	}
	set := g.policy.Get()
	var counted []quota.Event
	var over []string
	for _, f := range failed {
		_, paused := set.Paused(p.Channel, f.Purpose)
		if f.CountsTowardBackoffRule && (!f.Paused || f.PauseInForce || paused) {
			counted = append(counted, quota.Event{ID: string(f.ID[:]), At: f.EndedAt})
		} else {
			over = append(over, string(f.ID[:]))
		}
	}
	state := quota.Evaluate([]quota.Rule{rule}, map[quota.Scope][]quota.Event{quota.Backoff: counted}, now).Rules[0]
	refund := g.Refund
	if g.outage.lasts() {
		refund = g.local.Refund
	}
	for _, id := range over {
		if state.RetryAfter == 0 && err == nil {
			err = refund(ctx, id, bucket)
		}
	}
	return state, err
}
