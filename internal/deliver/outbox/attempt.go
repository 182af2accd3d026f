package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
)

// These are reasons why a send failed, is unknown, or was postponed. Rows, responses and the
// console show them. Further reasons are in the packages store, delivery, sms and policy.
const (
	ReasonExpired       = "expired"        // the code's life ended before the message could go out
	ReasonUnreadable    = "unreadable"     // secret_keys lacks a key, so the recipient can't be decrypted, or the code can't be derived
	ReasonNoAnswer      = "no_answer"      // the provider may have accepted the message, but no answer came
	reasonNotConfigured = "not_configured" // no provider is configured for this channel any longer
	temporary           = "temporary_"     // prefix: the reason of a postponed send ends with the stage that failed
	reasonBacklog       = "backlog"        // more messages wait than may be sent now
	ReasonInternal      = "internal"       // a panic ended the attempt before a provider could have the message
)

// attempt makes one attempt to deliver a send. It checks whether the message is still wanted and
// allowed, composes the message and sends it. If postponement is nil, out is the outcome. Otherwise
// the send is postponed. The caller must record the result in the database. After a panic,
// outcomeAfterPanic decides the result.
func (o *Outbox) attempt(ctx context.Context, f *flight) (out store.Outcome, postponement *store.Postponement) {
	ctx = delivery.WithHandover(ctx)
	defer panics.Recover(panics.Attempt, func() { out, postponement = o.outcomeAfterPanic(f.work.Send, delivery.HandedOver(ctx)) })
	set := o.Policy.Get()
	w := o.currentWork(ctx, f)
	if out, ends := o.outcomeWithoutSending(set, w); ends {
		return out, nil
	}
	reason, err := o.stopReason(ctx, set, w)
	switch {
	case err != nil: // the database cannot say whether the prefix is paused
		return out, &store.Postponement{After: o.retryDelay(w.Send.Attempt), Reason: temporary + "log"}
	case reason != "":
		bad := reason == store.ReasonSuppressed
		return store.Outcome{Status: store.Failed, Reason: reason, Refund: true, BadAddress: bad}, nil
	}
	used, acceptedBy := o.usedProviders(ctx, w.Send)
	if !o.ResendOther[w.Send.Channel] {
		used = nil // a resend keeps the order of the servers or carriers
	}
	message, out := o.compose(set, w, used, acceptedBy)
	if message == nil {
		return out, nil
	}
	waiting, end := o.beginWait(ctx, f)
	out, fail := o.send(waiting, w, message)
	end(fail)
	o.logAttempt(f, out, fail)
	o.noteAttempt(f.lane, fail)
	if fail == nil {
		return out, nil
	}
	o.recordCarrierHold(ctx, w, fail)
	if fail.BadAddress() && fail.Reason == "" && slices.ContainsFunc(acceptedBy, func(name string) bool { return name != out.Provider }) {
		fail.Class = delivery.Temporary // not final: another server accepted an earlier message, and a later attempt may use it
	}
	w.Now = f.now()
	out, postponement = o.classifyFailure(w, out, fail, set.SuppressFor)
	if postponement != nil {
		o.notePostponed(f, fail, postponement.After)
	}
	return out, postponement
}

// outcomeAfterPanic returns the outcome of an attempt that panicked, or the attempt's postponement.
// If a provider may have the message, the send is unknown. Otherwise the send is tried once more,
// because the panic may be due to one reply of one provider, which the next attempt may not get. If
// that attempt panics, too, the send fails.
func (o *Outbox) outcomeAfterPanic(s store.Send, handedOver bool) (out store.Outcome, postponement *store.Postponement) {
	switch {
	case handedOver:
		return store.Outcome{Status: store.Unknown, Reason: ReasonNoAnswer}, nil
	case s.Reason == ReasonInternal:
		return store.Outcome{Status: store.Failed, Reason: ReasonInternal, Refund: true}, nil
	}
	return out, &store.Postponement{After: o.retryDelay(s.Attempt), Reason: ReasonInternal}
}

// rereadAfter is how old a row in memory may be before an attempt reads its verification again.
const rereadAfter = 2 * time.Second

// currentWork returns the flight's work in its current state. If the flight has waited for at least
// rereadAfter, currentWork reads the verification again, because the verification may have been
// approved, canceled or erased. If the database fails, currentWork uses the old state.
func (o *Outbox) currentWork(ctx context.Context, f *flight) store.Work {
	if time.Since(f.readAt) >= rereadAfter {
		if v, _, now, err := o.Store.Verification(ctx, f.work.Verification.ID); err == nil {
			f.work.Verification, f.work.Now, f.readAt = v, now, time.Now()
		}
	}
	w := f.work
	w.Now = f.now()
	return w
}

// outcomeWithoutSending returns the outcome of a send that ends without a message, because its
// verification has ended or was erased, or because its recipient is a test recipient. If ends is
// false, the send must go on.
func (o *Outbox) outcomeWithoutSending(set policy.Set, w store.Work) (out store.Outcome, ends bool) {
	v, now := w.Verification, w.Now
	// The failure keeps the last attempt's provider and its reply code.
	failed := store.Outcome{
		Status: store.Failed, Provider: w.Send.Provider, ProviderCode: w.Send.ProviderCode,
		Refund: true,
	}
	switch {
	case len(v.Sealed) == 0: // erased: not refunded
		return store.Outcome{Status: store.Failed, Reason: store.ReasonErased}, true
	case !v.ApprovedAt.IsZero() || !v.CanceledAt.IsZero() || v.Attempts >= v.MaxAttempts && now.Before(v.ExpiresAt):
		failed.Reason = store.ReasonEnded
		return failed, true
	case !now.Before(v.ExpiresAt):
		failed.Reason = ReasonExpired
		return failed, true
	}
	_, test := set.TestRecipients.Of(o.Vault, v, now)
	return store.Outcome{Status: store.Sent, Provider: policy.TestProvider}, test
}

// usedProviders returns the mail servers or carriers of the verification's earlier sends (used),
// and those among them that accepted a message that did not bounce (acceptedBy); see
// store.SendDetails.UsedProviders. It returns no providers if the send is the verification's first,
// or if the database fails.
func (o *Outbox) usedProviders(ctx context.Context, s store.Send) (used, acceptedBy []string) {
	if s.Number < 2 {
		return nil, nil
	}
	details, err := o.Store.SendDetails(ctx, s.ID)
	if err != nil {
		return nil, nil
	}
	return details.UsedProviders()
}

// stopReason returns the reason why a send must not go out. The recipient may be suppressed, or the
// channel, the purpose, or the recipient's prefix for the caller's class may be paused. If reason
// is empty, the send may go out. Pauses of prefixes can change at any time, so stopReason reads
// them from the database at each attempt. It fails if the database does.
func (o *Outbox) stopReason(ctx context.Context, set policy.Set, w store.Work) (reason string, err error) {
	s := w.Send
	if s.Suppression != uuid.Nil {
		return store.ReasonSuppressed, nil
	}
	_, paused := set.Paused(s.Channel, s.Purpose)
	if !paused {
		paused, err = o.prefixPaused(ctx, s, w.Verification.Class)
	}
	if paused {
		return store.ReasonPaused, nil
	}
	return "", err
}

func (o *Outbox) prefixPaused(ctx context.Context, s store.Send, class store.Class) (bool, error) {
	if o.Watch.MinSends == 0 || s.Channel != recipient.SMS || s.Prefix == "" || o.Watch.Exempts(s.Prefix) {
		return false, nil
	}
	_, paused, err := o.Store.PrefixPaused(ctx, s.App, s.Prefix, class)
	return paused, err
}

// send sends the message, and notes in the database if a receipt is expected. out names the
// provider that answered. Its status is Sent even if fail is not nil: classifyFailure replaces it.
func (o *Outbox) send(ctx context.Context, w store.Work, message transmitFunc) (out store.Outcome, fail *delivery.Error) {
	result, err := message(ctx)
	out = store.Outcome{Status: store.Sent, Provider: result.Provider, ProviderCode: result.ReplyCodes, Took: result.Took}
	if err != nil {
		fail = &delivery.Error{Class: delivery.Unknown, Stage: "send", Err: err}
		_ = errors.As(err, &fail)
	}
	delivery.SetHandover(ctx, fail.MayBeAccepted())
	if err == nil {
		o.expectReceipt(ctx, w, result)
		return out, nil
	}
	out.ProviderCode = fail.ReplyCodes()
	return out, fail
}

// logAttempt logs a failed attempt. It logs a warning if the failure is not about the address, but
// at most one warning a minute for each server, stage and status. It logs the other failures, and
// the further ones within the minute, at level info. While a lane's attempts fail with
// StageAllSetAside or ErrPace, it logs only the first of these failures.
func (o *Outbox) logAttempt(f *flight, out store.Outcome, fail *delivery.Error) {
	suspended := fail != nil && (fail.Stage == delivery.StageAllSetAside || fail.Err == delivery.ErrPace)
	known := false
	o.update(f.lane, func(l *lane, _ time.Time) {
		known = suspended && l.suspensionLogged
		l.suspensionLogged = suspended || l.suspensionLogged && fail != nil && fail.Class == delivery.Temporary
	})
	if fail == nil || known {
		return
	}
	line := []any{
		"send", f.work.Send.ID, "request_id", f.work.Send.RequestID, "attempt", f.work.Send.Attempt, "server",
		out.Provider,
		"class", fail.Class, "stage", fail.Stage, "reply", out.ProviderCode, "cause", fail.Err,
	}
	if fail.Text != "" {
		line = append(line, "reply_text", fail.Text)
	}
	log := o.Logger.Info
	if fail.About != delivery.AboutMailbox && fail.About != delivery.AboutAddress {
		if _, due := o.failedAttempts.Add(fmt.Sprint(out.Provider, fail.Stage, fail.Status), time.Now()); due {
			log, line = o.Logger.Warn, append(line, logs.SeeSendsWait)
		}
	}
	log("delivery attempt failed", line...)
}

// classifyFailure returns the outcome of a failure or, if the send can be tried again in time, a
// postponement. The outcome may contain a refund, a suppression of the address, or the status
// Unknown.
func (o *Outbox) classifyFailure(w store.Work, out store.Outcome, fail *delivery.Error,
	suppressFor time.Duration,
) (store.Outcome, *store.Postponement) {
	out.Status, out.Refund = store.Failed, true
	switch fail.Class {
	case delivery.Rejected:
		out.Reason, out.BadAddress = cmp.Or(fail.Reason, store.ReasonRejected), fail.BadAddress()
		switch {
		case fail.NoMailbox():
			out.Suppress = o.suppression(w.Verification, store.CauseHardBounce, suppressFor)
			out.Suppress.Words = delivery.NormalizeReply(out.ProviderCode, fail.Text)
		case fail.Reason == sms.ReasonOptedOut:
			out.Suppress = o.suppression(w.Verification, store.CauseOptOut, suppressFor)
		}
	case delivery.Temporary:
		wait, reason := max(o.retryDelay(w.Send.Attempt), fail.RetryAfter), temporary+fail.Stage
		// A send that waits for the pace does not fail before its code expires.
		if fail.Err == delivery.ErrPace && w.Now.Before(w.Verification.ExpiresAt) {
			wait, reason = min(fail.RetryAfter, w.Verification.ExpiresAt.Sub(w.Now)-1), reasonBacklog
		}
		if w.Now.Add(wait).Before(w.Verification.ExpiresAt) {
			return out, &store.Postponement{After: wait, Reason: reason, Provider: out.Provider, ProviderCode: out.ProviderCode}
		}
		out.Reason = ReasonExpired
	default:
		out.Status, out.Reason, out.Refund = store.Unknown, ReasonNoAnswer, false
	}
	return out, nil
}

// recordCarrierHold writes to the database that a carrier accepts no messages for the recipient for
// the time fail.Hold, if that is at least 1 s. It blocks until the database answers.
func (o *Outbox) recordCarrierHold(ctx context.Context, w store.Work, fail *delivery.Error) {
	if fail.Hold < time.Second {
		return
	}
	o.retryWrite(ctx, func(ctx context.Context) (bool, error) {
		return true, o.Store.AddCarrierHold(ctx, recipient.SMS, w.Send.Recipient, fail.Hold)
	})
}

// suppression returns the suppression of a message's address. If the recipient cannot be decrypted,
// it returns the zero value, which suppresses nothing. It also does so for an address of
// delivery.SimulatorDomain, because a developer may simulate a bounce of the same address again.
func (o *Outbox) suppression(v store.Verification, why store.SuppressionCause, lasts time.Duration) store.NewSuppression {
	to, err := o.Vault.OpenRecipient(v)
	if err != nil || to.Domain() == delivery.SimulatorDomain {
		return store.NewSuppression{}
	}
	return store.NewSuppression{Cause: why, Address: o.Vault.SuppressionHash(to), For: lasts}
}

// expectReceipt writes to the database that a receipt is expected. It does so if the carrier's
// reports identify a message by the carrier's own ID, or if the carrier can be polled. It blocks
// until the database answers.
func (o *Outbox) expectReceipt(ctx context.Context, w store.Work, r delivery.Result) {
	if o.Receipts == nil || r.CarrierID == "" {
		return
	}
	ask := time.Duration(0)
	if _, can := o.Receipts.Poller(r.Provider); can {
		ask = o.PollAfter
	} else if !o.Receipts.ReportsUseCarrierID(r.Provider) {
		return
	}
	o.retryWrite(ctx, func(ctx context.Context) (bool, error) {
		return true, o.Store.ExpectReceipt(ctx, store.PendingReceipt{Carrier: r.Provider, ID: r.CarrierID, Send: w.Send.ID},
			ask)
	})
}

// retryDelay returns the wait after attempt n. The wait begins with 2 s and doubles up to 30 s. A
// random part of up to a quarter is added or subtracted, so that replicas do not retry at the same
// time. A replica looks for due sends only once every Tick, so a retry begins up to a Tick later.
// With DefaultTick, the first retry still begins within 10 s of the failure.
func (o *Outbox) retryDelay(n int) time.Duration {
	d := min(2*time.Second<<min(max(n-1, 0), 5), 30*time.Second)
	return d*3/4 + o.Random(d/2)
}
