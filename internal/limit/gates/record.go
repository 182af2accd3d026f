package gates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/quota"
)

// maxRecordDelay is the longest time between reading events and recording them. For longer than
// that after a reset, the limiter refuses events that were read before the reset, so Record can't
// bring back events that were reset.
const maxRecordDelay = 5 * time.Second

// Record adds events to a scope's bucket in the limiter that replicas share in Redis, which can
// only make it stricter. read is an instant on this process's clock before the events were read
// from the database. Their ages are as of read. keep is as in quota.Limiter.
//
// It first reads the limiter's clock by a Peek and sends it with the ages, so that a slow limiter
// gives events no later instant. It also adds events of the scope Backoff, which the database
// doesn't count, in this process. Without Redis, it adds only those.
//
// Errors are those of both limiters, errLimiterAway during an outage, and another one if read is
// more than maxRecordDelay ago.
func (g *Gates) Record(ctx context.Context, scope quota.Scope, bucket string, keep time.Duration, read time.Time,
	events ...quota.AgedEvent,
) error {
	if scope == policy.BackoffScope {
		if err := g.local.Record(ctx, bucket, keep, agedBy(events, g.now().Sub(read), time.Time{})); err != nil {
			return err
		}
	}
	if g.shared == nil {
		return nil
	}
	if g.outage.lasts() {
		return errLimiterAway
	}
	bounded, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	clock, err := g.shared.Peek(bounded, quota.Request{
		Rules:   []quota.Rule{{Name: "clock", Scope: scope, Limit: 1, Window: quota.MinWindow}},
		Buckets: map[quota.Scope]string{scope: bucket},
	})
	if err != nil {
		return err
	}
	return g.record(ctx, bucket, keep, read, agedBy(events, g.now().Sub(read), clock.At))
}

// agedBy adds age to the ages of the events, as of the instant asOf. If age is negative, because a
// clock was set back, it adds 0.
func agedBy(events []quota.AgedEvent, age time.Duration, asOf time.Time) []quota.AgedEvent {
	aged := make([]quota.AgedEvent, len(events))
	for i, e := range events {
		aged[i] = quota.AgedEvent{ID: e.ID, Age: e.Age + max(0, age), AsOf: asOf}
	}
	return aged
}

// record adds events to a bucket in Redis. It fails if read, the time just before the events were
// read, is more than maxRecordDelay ago.
func (g *Gates) record(ctx context.Context, bucket string, keep time.Duration, read time.Time, events []quota.AgedEvent) error {
	if late := g.now().Sub(read); late > maxRecordDelay {
		return fmt.Errorf("gates: events were read too long ago: %v", late)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, events)
}

// Refund removes an event from buckets in this process and in Redis. In an outage, or if ctx has
// ended, it does so only in this process, and returns ctx's error or errLimiterAway. Other errors
// are those of both limiters.
func (g *Gates) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := g.local.Refund(ctx, id, buckets...); err != nil || g.shared == nil {
		return err
	}
	if ctx.Err() != nil || g.outage.lasts() && !g.outage.back.Load() {
		return cmp.Or(ctx.Err(), errLimiterAway)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Refund(ctx, id, buckets...)
}

// Reset deletes the events of buckets in this process and in Redis, even during an outage. Callers
// must reset the database first, because events that the database still counts would be added to
// Redis again. Errors are those of both limiters.
func (g *Gates) Reset(ctx context.Context, buckets ...string) error {
	err := g.local.Reset(ctx, buckets...)
	if g.shared != nil {
		err = errors.Join(err, g.shared.Reset(ctx, buckets...))
	}
	return err
}
