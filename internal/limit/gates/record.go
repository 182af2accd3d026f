package gates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/quota"
)

// maxRecordDelay is how long after events were read they may be recorded. It is less than the time
// for which the limiter keeps out what was read before a reset.
const maxRecordDelay = 5 * time.Second

// Record adds events to the bucket of a scope in the limiter, which only ever makes it stricter. It
// first reads the limiter's clock with a Peek, so that the events get no later instant if the limiter
// runs the Record late. Record adds events of the scope Backoff, which the database does not count, in
// this process too. The ages of the events are as of read, an instant of this process's clock from
// before they were read. keep is as in quota.Limiter. Errors: of the limiter; errLimiterAway during
// an outage; an error if the events were read more than maxRecordDelay ago.
func (g *Gates) Record(ctx context.Context, scope quota.Scope, bucket string, keep time.Duration, read time.Time,
	events ...quota.AgedEvent) error {
	if g.local != nil && scope == quota.Backoff {
		if err := g.local.Record(ctx, bucket, keep, agedBy(events, g.now().Sub(read), time.Time{})); err != nil {
			return err
		}
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

// agedBy returns the events, older by a duration, with their ages as of an instant. A negative
// duration, which a clock that was set back gives, counts as 0.
func agedBy(events []quota.AgedEvent, by time.Duration, asOf time.Time) []quota.AgedEvent {
	aged := make([]quota.AgedEvent, len(events))
	for i, e := range events {
		aged[i] = quota.AgedEvent{ID: e.ID, Age: e.Age + max(0, by), AsOf: asOf}
	}
	return aged
}

// record adds events that were read at read to a bucket of the limiter. Errors: of the limiter, or if read
// is more than maxRecordDelay ago.
func (g *Gates) record(ctx context.Context, bucket string, keep time.Duration, read time.Time, events []quota.AgedEvent) error {
	if late := g.now().Sub(read); late > maxRecordDelay {
		return fmt.Errorf("gates: events were read %v ago", late)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, events)
}

// Refund removes an event from buckets of this process and of the limiter; only of this process during an
// outage, or if ctx has ended. Errors: of the limiter, errLimiterAway, or of ctx.
func (g *Gates) Refund(ctx context.Context, id string, buckets ...string) error {
	if g.local != nil {
		if err := g.local.Refund(ctx, id, buckets...); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.outage.lasts() {
		return errLimiterAway
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Refund(ctx, id, buckets...)
}

// Reset deletes the events of buckets, in this process and, except during an outage, in the limiter.
// Reset the database first: else what it still counts is added again. Errors: of the limiter, and
// errLimiterAway.
func (g *Gates) Reset(ctx context.Context, buckets ...string) error {
	err := errLimiterAway
	if !g.outage.lasts() {
		err = g.shared.Reset(ctx, buckets...)
	}
	if g.local != nil {
		err = errors.Join(err, g.local.Reset(ctx, buckets...))
	}
	return err
}

// Backfill adds the database's counted sends and failures to an in-process limiter, and keeps the
// events that are there. Call it at the start, when the limiter is empty, and after a change of
// policies that needs older events. Sends of purposes that are no longer configured are left out.
// Error: of the database or the limiter.
func (g *Gates) Backfill(ctx context.Context) error {
	set := g.policy.Get()
	record := func(c store.CountedSend, keep time.Duration, bucket string) error {
		return g.shared.Record(ctx, bucket, keep, []quota.AgedEvent{{ID: c.Event.ID, Age: c.Now.Sub(c.Event.At)}})
	}
	err := g.db.CountedSends(ctx, set.LongestRecipientWindow(), func(c store.CountedSend) error {
		p, ok := set.Purposes[c.Purpose]
		if keep := p.LongestRecipientWindow(); ok && keep > 0 {
			return record(c, keep, bucketnames.Recipient(c.App, c.Channel, p.CountedAs(), c.Recipient))
		}
		return nil
	})
	failures := set.LongestFailureWindow()
	if err != nil || failures == 0 {
		return err
	}
	return g.db.AllRejectedSends(ctx, failures, func(c store.CountedSend) error {
		return record(c, failures, bucketnames.Failures(c.App, c.Channel, c.Recipient))
	})
}
