package gates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/quota"
)

// maxRecordDelay is how long after events were read they may be recorded. After a reset, the
// limiter refuses events that were read before it; maxRecordDelay is shorter than the time for
// which it does.
const maxRecordDelay = 5 * time.Second

// Record adds events to the bucket of a scope in the limiter. That only ever makes the limiter
// stricter. read is an instant of this process's clock from before the events were read, and the
// ages of the events are as of read. keep is as in quota.Limiter.
//
// Record first reads the limiter's clock with a Peek. So the events get no later instant if the
// limiter runs the Record late. The database does not count events of the scope Backoff, so Record
// adds these in this process, too. Without Redis it adds only these.
//
// Errors: those of the limiter; errLimiterAway during an outage; an error if read is more than
// maxRecordDelay ago.
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

// agedBy returns the events with ages that are greater by age and as of the instant asOf. A
// negative age, from a clock that was set back, counts as 0.
func agedBy(events []quota.AgedEvent, age time.Duration, asOf time.Time) []quota.AgedEvent {
	aged := make([]quota.AgedEvent, len(events))
	for i, e := range events {
		aged[i] = quota.AgedEvent{ID: e.ID, Age: e.Age + max(0, age), AsOf: asOf}
	}
	return aged
}

// record adds events that were read at read to a bucket of the limiter. Errors: of the limiter, or
// if read is more than maxRecordDelay ago.
func (g *Gates) record(ctx context.Context, bucket string, keep time.Duration, read time.Time, events []quota.AgedEvent) error {
	if late := g.now().Sub(read); late > maxRecordDelay {
		return fmt.Errorf("gates: events were read %v ago", late)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, events)
}

// Refund removes an event from buckets of this process and, with Redis, of the limiter. During an
// outage, or if ctx has ended, it removes the event only in this process. Errors: of the limiter,
// errLimiterAway, or of ctx.
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

// Reset deletes the events of buckets, in this process and in the limiter, also during an outage.
// Reset the database first: otherwise the events that it still counts are added to the limiter
// again. Errors: those of the limiter.
func (g *Gates) Reset(ctx context.Context, buckets ...string) error {
	err := g.local.Reset(ctx, buckets...)
	if g.shared != nil {
		err = errors.Join(err, g.shared.Reset(ctx, buckets...))
	}
	return err
}
