package outbox

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// finish writes an outcome to the database. It repeats the write until the write succeeds, because
// otherwise another process would send the message again. It gives up only when the process stops.
// After the write, finish refunds a failed send in the limiter, and records the failure there if a
// rule counts the failure. It also answers the request that waits, and ends the attempt's trace. If
// another attempt has the lease of the send, finish writes nothing and logs a warning.
func (o *Outbox) finish(ctx context.Context, f *flight, out store.Outcome) {
	s := f.work.Send
	out = o.withEvent(ctx, f, out)
	defer o.endAttemptTrace(ctx, out.Status, out.Reason)
	applied := o.retryWrite(ctx, func(ctx context.Context) (bool, error) {
		for { // again after this process has taken over its own row
			out.AttemptID, _ = o.leases.attemptOf(f)
			applied, err := o.Store.Finish(ctx, out)
			if held, _ := o.leases.attemptOf(f); applied || err != nil || held == out.AttemptID {
				return applied, err
			}
		}
	})
	held, inDoubt := o.leases.attemptOf(f)
	if !applied {
		o.Logger.Warn("late outcome discarded: another attempt has the lease of the send", "send", held.ID, "attempt",
			held.Attempt,
			logs.SeeDatabaseSlow)
		return
	}
	o.WakeForEvent(out.Event)
	out.Refund = out.Refund && !inDoubt
	defer o.notifyWaiter(s.ID, out) // after the refund: the waiting caller may send again at once
	o.Observer.Finished(s.Channel, s.App, out.Status, f.work.Verification.CallerChecks, f.now().Sub(s.LoggedAt))
	if out.Refund {
		o.Repair.Refund(context.WithoutCancel(ctx), store.Refund{AttemptID: held, Verification: f.work.Verification})
	}
	switch {
	case out.Status != store.Failed:
	case out.BadAddress:
		o.Repair.CountBadAddress(context.WithoutCancel(ctx), s)
	case store.CountsTowardBackoffRule(out.Reason):
		// If Redis does not answer, only this process counts the failure.
		_ = o.Limiter.Record(context.WithoutCancel(ctx), policy.BackoffScope,
			buckets.Backoff(s.App, s.Channel, s.Recipient, f.work.Verification.Class), policy.BackoffRule.Window, o.Now(),
			quota.AgedEvent{ID: string(s.ID[:])})
	}
}

// withEvent returns the outcome as corrected by knownOutcome, with the event for the app. It
// recovers from a panic and then returns the outcome unchanged. The outcome must be written to the
// database, because otherwise the message would be sent again.
func (o *Outbox) withEvent(ctx context.Context, f *flight, out store.Outcome) (done store.Outcome) {
	done = out
	defer panics.Recover(panics.Attempt)
	s := f.work.Send
	_, s.InDoubt = o.leases.attemptOf(f) // another process may have had the row since the work was read
	out = o.knownOutcome(ctx, s, out)
	event, err := webhook.NewEvent(o.Policy.Get().Subscriptions[s.App], "send."+string(out.Status),
		out.Provider == policy.TestProvider, o.IDs, o.Now())
	if err != nil {
		o.Logger.Error("could not make event ID", "send", s.ID, "error", err, logs.SeeDefect)
	}
	out.Event = event
	return out
}

// knownOutcome corrects the outcome of a failed send that an earlier attempt may have delivered.
// Such a send becomes Unknown, unless a server says that the address accepts no messages. If the
// send's code was entered and no other send of the verification can have delivered the code, the
// send becomes Sent.
func (o *Outbox) knownOutcome(ctx context.Context, s store.Send, out store.Outcome) store.Outcome {
	if !s.InDoubt || out.Status != store.Failed || out.BadAddress && out.Reason != store.ReasonSuppressed {
		return out
	}
	out.Status, out.Refund, out.BadAddress = store.Unknown, false, false
	details, err := o.Store.SendDetails(ctx, s.ID)
	if err != nil || details.Verification == nil || details.Verification.ApprovedAt.IsZero() {
		return out
	}
	others := details.Verification.Sends - 1
	for _, r := range details.Related {
		if r.ID != s.ID && r.Status == store.Failed && !r.InDoubt {
			others--
		}
	}
	if others == 0 {
		out.Status, out.Reason = store.Sent, ""
		out.Provider, out.ProviderCode, out.Took = "", "", 0 // they describe the last attempt, whose message was not accepted
	}
	return out
}

func (o *Outbox) postpone(ctx context.Context, f *flight, p store.Postponement) {
	defer o.endAttemptTrace(ctx, store.Queued, p.Reason)
	o.retryWrite(ctx, func(ctx context.Context) (bool, error) {
		p.AttemptID, _ = o.leases.attemptOf(f)
		return o.Store.Postpone(ctx, p)
	})
	f.postponed = p.AttemptID
}

// retryWrite repeats a write to the database until the write succeeds, and returns the result of
// the write. If the process stops first, it returns false. The parameter ctx is the attempt's
// context. The write continues even if ctx ends. The pause between two writes grows to a second or,
// after a panic, to a minute, because each panic is logged with its stack.
func (o *Outbox) retryWrite(ctx context.Context, write func(context.Context) (bool, error)) (applied bool) {
	for wait, longest := 50*time.Millisecond, time.Second; ; wait = min(2*wait, longest) {
		done, err := o.writeOnce(context.WithoutCancel(ctx), write)
		if err == nil {
			return done
		}
		if errors.Is(err, panics.Err) {
			longest = time.Minute
		}
		o.warnFailedWrite(err)
		select {
		case <-time.After(wait):
		case <-o.base.Done():
			return false
		}
	}
}

// writeOnce calls write. It returns an error after a panic, so that the write is repeated. Without
// the outcome in the database, the message would be sent again.
func (o *Outbox) writeOnce(ctx context.Context, write func(context.Context) (bool, error)) (done bool, err error) {
	defer panics.Recover(panics.Attempt, func() { err = panics.Err })
	return write(ctx)
}

// warnFailedWrite counts a failed write. At most once a second it logs a warning with the number of
// failed writes. Every flight repeats its write if the database is unavailable, so a warning for
// each write would be too much.
func (o *Outbox) warnFailedWrite(err error) {
	if n, due := o.failedWrites.Add("", time.Now()); due {
		o.Logger.Warn("could not store outcomes; retrying", "count", n, "error", err, logs.SeeDatabaseAway)
	}
}
