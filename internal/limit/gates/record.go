package gates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/quota"
)

// maxRecordDelay is the longest time between reading events and recording them. After a reset, the
// limiter refuses events that were read before the reset, and does so for longer than
// maxRecordDelay. So Record cannot bring back events that the reset deleted.
const maxRecordDelay = 5 * time.Second

// Record adds events to the bucket of a scope in the limiter that the replicas share through Redis.
// This can only make the limiter stricter. The parameter read is an instant of this process's clock
// before the events were read from the database. The ages of the events are as of this instant. The
// parameter keep has the same meaning as in quota.Limiter.
//
// Record first reads the shared limiter's clock, by a Peek. It sends this time with the ages, so
// that the events do not get a later instant if the limiter is slow to record them. The database
// does not count events of the scope Backoff, so Record also adds these events to the limiter in
// this process. Without Redis, Record adds only events of the scope Backoff.
//
// Record returns the errors of both limiters. During an outage of Redis, it returns errLimiterAway.
// If read is more than maxRecordDelay ago, it returns another error.
func (g *Gates) Record(ctx context.Context, scope quota.Scope, bucket string, keep time.Duration, read time.Time,
	events ...quota.AgedEvent,
) error {
	if scope == quota.Backoff {
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

// agedBy returns the events with ages increased by age, as of the instant asOf. If age is negative
// because a clock was set back, agedBy uses 0.
func agedBy(events []quota.AgedEvent, age time.Duration, asOf time.Time) []quota.AgedEvent {
	aged := make([]quota.AgedEvent, len(events))
	for i, e := range events {
		aged[i] = quota.AgedEvent{ID: e.ID, Age: e.Age + max(0, age), AsOf: asOf}
	}
	return aged
}

// record adds events to a bucket of the limiter in Redis. The parameter read is an instant just
// before the events were read. If this instant is more than maxRecordDelay ago, record returns an
// error. It also returns errors of the limiter.
func (g *Gates) record(ctx context.Context, bucket string, keep time.Duration, read time.Time, events []quota.AgedEvent) error {
	if late := g.now().Sub(read); late > maxRecordDelay {
		return fmt.Errorf("gates: events were read %v ago", late)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, events)
}

// Refund removes an event from buckets of the limiter in this process and, with Redis, of the
// shared limiter in Redis. During an outage of Redis, or if ctx has ended, Refund removes the event
// only in this process. Then the error is that of ctx, or else errLimiterAway. Other errors are
// those of the two limiters.
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

// Reset deletes the events of buckets from the limiter in this process and from the limiter in
// Redis, even during an outage of Redis. Reset the database before calling Reset. Otherwise the
// events that the database still counts would be added to the limiter in Redis again. Reset returns
// the errors of both limiters.
func (g *Gates) Reset(ctx context.Context, buckets ...string) error {
	err := g.local.Reset(ctx, buckets...)
	if g.shared != nil {
		err = errors.Join(err, g.shared.Reset(ctx, buckets...))
	}
	return err
}
