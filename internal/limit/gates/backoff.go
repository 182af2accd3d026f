package gates

import (
	"context"
	"slices"

	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A failed send is refunded, so the recipient's rules don't slow down repeated sends.
// policy.BackoffRule does: it counts sends that failed for a reason other than the address.
//
// These counts are only in the limiter and in this process. If both lose them, the rule begins at
// zero and admits at most its limit of further sends, to a server that refuses them anyway.
//
// A counted send no longer counts once a later message was sent to the recipient, or once the pause
// that stopped the send is over. The limiter doesn't learn of this, so when the rule refuses, the
// database's rows are read.

// If BackoffRule refuses in d, correctBackoff replaces its state by the state that the database's
// rows give (promise 4 of docs/PROMISES.md). If that state admits, it refunds the sends that no
// longer count. If the database or a refund fails, it returns d unchanged.
func (g *Gates) correctBackoff(ctx context.Context, p buckets.Plan, d quota.Decision) quota.Decision {
	i := slices.IndexFunc(d.Rules, func(r quota.State) bool { return r.Scope == policy.BackoffScope && r.RetryAfter > 0 })
	if i < 0 {
		return d
	}
	bucket, rule := p.Buckets[policy.BackoffScope], d.Rules[i].Rule
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

// reconcileBackoff returns the state of BackoffRule by the failed sends in the database. If that
// state admits, it refunds the sends that no longer count. Errors are the database's and the
// limiter's.
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
	state := quota.Evaluate([]quota.Rule{rule}, map[quota.Scope][]quota.Event{policy.BackoffScope: counted}, now).Rules[0]
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
