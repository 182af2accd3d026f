package gates

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sendcode/internal/buckets"
	"sendcode/internal/runbook"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Record records in a bucket of the limiter a send that the database admitted alone. e.At is on the
// database's clock. It replaces the instant of a Take that a stalled limiter ran late. Error: of
// the limiter.
func (g *Gates) Record(ctx context.Context, bucket string, keep time.Duration, e quota.Event) error {
	if apart := g.ClocksApart(); apart.Abs() > store.MaxClockSkew {
		e.At = e.At.Add(apart)
	}
	return g.record(ctx, bucket, keep, e)
}

// UpdateEventTime sets the instant of a send in the limiter's recipient bucket to the instant of
// this Take, which the database will have too. An earlier request with the same send ID may have
// counted the send at an earlier instant. A failure is only logged.
func (g *Gates) UpdateEventTime(ctx context.Context, s buckets.Subject, sendID string, taken quota.Decision) {
	bucket := s.Buckets()[quota.Recipient]
	if taken.Clock == store.DatabaseClock || bucket == "" {
		return
	}
	if err := g.record(ctx, bucket, s.Purpose.LongestRecipientWindow(),
		quota.Event{ID: sendID, At: taken.At}); err != nil {
		g.logger.WarnContext(ctx, "could not update time of send in limiter", "error", err, runbook.Redis.See())
	}
}

// A send whose address takes no messages is refunded: a mistyped address costs nothing. So that a
// bad address cannot be tried for ever, such sends count in a separate bucket, for rules of the
// scope failures. Both gates decide such a rule: the database from its rows, the limiter from the
// events that RecordFailure adds.

// RecordFailure adds a send whose address takes no messages to a bucket of the limiter. e.At and
// now are on the same clock. Without a rule on failures it does nothing. Errors: as of callLimiter,
// or of the limiter.
func (g *Gates) RecordFailure(ctx context.Context, bucket string, e quota.Event, now time.Time) error {
	keep := g.policy.Get().FailureWindow()
	if keep == 0 {
		return nil
	}
	return g.recordAged(ctx, bucket, keep, e, now)
}

// recordAged adds an event to a bucket of the limiter with its age at now. e.At and now are on the
// same clock; the limiter's clock may show another time.
func (g *Gates) recordAged(ctx context.Context, bucket string, keep time.Duration, e quota.Event, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	clock, err := g.callLimiter(ctx, quota.Request{
		Rules:   []quota.Rule{{Name: "clock", Scope: quota.Failures, Limit: 1, Window: quota.MinWindow}},
		Buckets: map[quota.Scope]string{quota.Failures: bucket},
	}, g.shared.Peek, false)
	if err != nil {
		return err
	}
	e.At = e.At.Add(clock.At.Sub(now))
	return g.record(ctx, bucket, keep, e)
}

func (g *Gates) record(ctx context.Context, bucket string, keep time.Duration, e quota.Event) error {
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, []quota.Event{e})
}

// Refund removes an event from buckets of this process and of the limiter. It calls the limiter
// even if a call failed less than LimiterRetryDelay ago. Error: of the limiter.
func (g *Gates) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := g.RefundLocal(ctx, id, buckets...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Refund(ctx, id, buckets...)
}

// RefundLocal removes an event from buckets of this process alone.
func (g *Gates) RefundLocal(ctx context.Context, id string, buckets ...string) error {
	g.refunded.put(id, g.now())
	g.only.invalidate(buckets...)
	if g.local == nil {
		return nil
	}
	return g.local.Refund(ctx, id, buckets...)
}

// Reset deletes the events of buckets, in this process and in the limiter.
func (g *Gates) Reset(ctx context.Context, buckets ...string) (err error) {
	defer g.only.invalidate(buckets...)
	for _, b := range buckets {
		events, _, unread := g.shared.Events(ctx, b)
		err = cmp.Or(err, unread)
		for _, e := range events { // a failover may undo the reset; events without a row would then count again
			g.refunded.put(e.ID, g.now())
		}
	}
	err = errors.Join(err, g.shared.Reset(ctx, buckets...))
	if g.local != nil {
		err = errors.Join(err, g.local.Reset(ctx, buckets...))
	}
	return err
}

// Rebuild adds the database's counted sends and failures to an in-process limiter, and keeps the
// events that are there. Call it at the start, when the limiter is empty, and after a change of
// policies that needs older events. clock names the limiter's clock. A send taken on that clock
// keeps its instant; other sends get the database's instant. Sends of purposes that are no longer
// configured are left out. Error: of the database or the limiter.
func (g *Gates) Rebuild(ctx context.Context, clock string) error {
	set := g.policy.Get()
	err := g.db.CountedSends(ctx, clock, set.LongestRecipientWindow(), func(c store.CountedSend) error {
		p, ok := set.Purposes[c.Purpose]
		if !ok || p.LongestRecipientWindow() == 0 {
			return nil
		}
		bucket := buckets.Recipient(c.App, c.Channel, p.Policy.Name, c.Recipient)
		return g.shared.Record(ctx, bucket, p.LongestRecipientWindow(), []quota.Event{c.Event})
	})
	failures := set.FailureWindow()
	if err != nil || failures == 0 {
		return err
	}
	return g.db.AllRejectedSends(ctx, failures, func(c store.CountedSend) error {
		return g.shared.Record(ctx, buckets.Failures(c.App, c.Channel, c.Recipient), failures, []quota.Event{c.Event})
	})
}
