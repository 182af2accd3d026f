package verification

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/delivery"
	"sendcode/internal/message"
	"sendcode/internal/recipient"
)

// Reasons of a send that failed or is unknown, as rows, answers and the console name them.
const (
	reasonRejected   = audit.ReasonRejected // the server refused it for good
	reasonExpired    = "expired"            // the code's life ended before the mail could go out
	reasonNoLonger   = "ended"              // approved or canceled while it waited
	reasonUnreadable = "unreadable"         // recipient or code can't be recovered: a key left the ring, or it was erased
	reasonTemplate   = "template"           // the message could not be rendered
	reasonNoAnswer   = "no_answer"          // nothing was heard after the whole mail was handed over
	reasonBlocked    = "blocked"            // the recipient is on the list of those who get no codes
	reasonSuppressed = audit.ReasonSuppressed
	reasonPaused     = audit.ReasonPaused
)

// failure is why an attempt did not end in Sent.
type failure struct {
	reason, provider, code string
}

// attempt makes one attempt, and gives what records its outcome.
func (o *outbox) attempt(ctx context.Context, f *flight) (end func()) {
	finish := func(out audit.Outcome) func() { return func() { o.finish(f, out) } }
	w, v := f.work, f.work.Verification
	if reason := o.pointless(v); reason != "" {
		return finish(audit.Outcome{Status: audit.Failed, Reason: reason, Refund: true})
	}
	if _, ok := o.testRecipient(v); ok {
		return finish(audit.Outcome{Status: audit.Sent, Provider: testProvider})
	}
	if reason := o.untried(w.Send); reason != "" {
		return finish(audit.Outcome{Status: audit.Failed, Reason: reason, Refund: true})
	}
	m, reason, err := o.compose(w)
	if errors.Is(err, errBlocked) {
		return finish(audit.Outcome{Status: audit.Failed, Reason: reason})
	}
	if err != nil {
		o.Logger.Error("a message could not be composed", "send", w.Send.ID, "reason", reason, "error", err)
		return finish(audit.Outcome{Status: audit.Failed, Reason: reason, Refund: true})
	}
	receipt, err := o.Sender.Send(ctx, m)
	if err == nil {
		return finish(audit.Outcome{Status: audit.Sent, Provider: receipt.Provider, ProviderCode: replyCode(receipt.Code, receipt.Enhanced), Took: receipt.Took})
	}
	return o.failed(f, receipt, err)
}

// failed sorts an error by what it says about the mail (MAIL-11, MAIL-13).
func (o *outbox) failed(f *flight, receipt delivery.Receipt, err error) (end func()) {
	var e *delivery.Error
	if !errors.As(err, &e) {
		e = &delivery.Error{Class: delivery.Unknown, Stage: "send", Err: err}
	}
	w := f.work
	why := failure{provider: receipt.Provider, code: replyCode(e.Code, e.Enhanced)}
	o.Logger.Info("an attempt failed", "send", w.Send.ID, "attempt", w.Send.Attempt, "class", e.Class.String(), "stage", e.Stage, "code", why.code)
	out := audit.Outcome{Status: audit.Failed, Provider: why.provider, ProviderCode: why.code, Took: receipt.Took, Refund: true}
	switch e.Class {
	case delivery.Rejected:
		out.Reason = reasonRejected
		if e.NoMailbox() {
			out.Bar = o.bar(w.Verification, audit.HardBounce)
		}
	case delivery.Temporary:
		wait := backoff(w.Send.Attempt)
		if o.Now().Add(wait).Before(w.Verification.ExpiresAt) {
			why.reason = "temporary_" + e.Stage
			return func() { o.postpone(f, wait, why) }
		}
		out.Reason = reasonExpired
	default:
		out.Status, out.Reason, out.Refund = audit.Unknown, reasonNoAnswer, false
	}
	return func() { o.finish(f, out) }
}

// pointless says why a mail would help nobody any more; empty if it would.
func (o *outbox) pointless(v audit.Verification) string {
	switch stateOf(v, o.Now()) {
	case Expired:
		return reasonExpired
	case Approved, Canceled:
		return reasonNoLonger
	}
	return ""
}

// compose makes the mail. It is the only place where the code and the full recipient meet, and neither leaves it
// but in the message.
func (o *outbox) compose(w audit.Work) (delivery.Message, string, error) {
	v := w.Verification
	address, err := o.Ring.Open(sealLabel, v.Sealed, []byte(v.ID))
	if err != nil {
		return delivery.Message{}, reasonUnreadable, err
	}
	to, err := recipient.Parse(v.Channel, string(address))
	if err != nil {
		return delivery.Message{}, reasonUnreadable, err
	}
	if o.Terms().Blocks.blocked(to, to.Hash(o.IndexKey)) {
		return delivery.Message{}, reasonBlocked, errBlocked
	}
	code, err := o.code(v)
	if err != nil {
		return delivery.Message{}, reasonUnreadable, err
	}
	terms := o.Terms() // a purpose that is gone leaves the code private
	m, err := o.Renderer.Render(message.Request{
		Locale: v.Locale, Purpose: v.Purpose, Notify: terms.Purposes[v.Purpose].Notify,
		Data: message.Data{App: or(terms.Titles[v.App], v.App), Code: code, Minutes: minutes(v.ExpiresAt.Sub(o.Now()))},
	})
	if err != nil {
		return delivery.Message{}, reasonTemplate, err
	}
	return delivery.Message{
		ID: fmt.Sprintf("%s@%s", w.Send.ID, o.Domain), From: o.MailFrom, To: string(address),
		Subject: m.Subject, Text: m.Text, HTML: m.HTML, Language: m.Language, Date: w.Send.LoggedAt,
	}, "", nil
}

// minutes is the true remaining validity, rounded down, at least 1. A send that starts at once has spent some of its
// life on the way here; that is not worth a minute.
func minutes(left time.Duration) int { return max(1, int((left+onTheWay)/time.Minute)) }

// onTheWay is far less than a mail takes, so nobody is told a minute too much by it.
const onTheWay = 2 * time.Second

// backoff is the wait before the attempt after the nth: 2 s, doubling up to 30 s, a quarter more or less, so that
// replicas do not come back in step. The first retry starts within 10 s of the failure, a tick included.
func backoff(n int) time.Duration {
	d := min(2*time.Second<<min(max(n-1, 0), 5), 30*time.Second)
	return d*3/4 + rand.N(d/2)
}

func replyCode(code int, enhanced string) string {
	switch {
	case code == 0:
		return ""
	case enhanced == "":
		return fmt.Sprint(code)
	}
	return fmt.Sprintf("%d %s", code, enhanced)
}

// finish records an outcome until the log has taken it: the mail is out, and a row that says otherwise would send it
// again. It gives up only when the process is told to end at once.
func (o *outbox) finish(f *flight, out audit.Outcome) {
	applied := o.insist(func(ctx context.Context) (bool, error) {
		out.Held, _ = o.holds(f)
		return o.Log.Finish(ctx, out)
	})
	held, inDoubt := o.holds(f)
	if !applied {
		o.Logger.Warn("an outcome came too late; another attempt holds the send", "send", held.ID, "attempt", held.Attempt)
		return
	}
	s := f.work.Send
	defer o.waiters.tell(s.ID, out) // after the refund: who hears of it may ask again at once
	o.Observer.Finished(s.Channel, s.App, out.Status, o.Now().Sub(s.LoggedAt))
	if out.Refund && !inDoubt {
		r := audit.Refund{Held: held, App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient}
		if err := o.confirm(context.Background(), r); err != nil {
			o.Logger.Warn("a refund waits for the limiter", "send", held.ID, "error", err)
		}
	}
	if out.Status == audit.Failed && audit.Failure(out.Reason) {
		o.rejected(s)
	}
}

func (o *outbox) postpone(f *flight, wait time.Duration, why failure) {
	o.insist(func(ctx context.Context) (bool, error) {
		held, _ := o.holds(f)
		return o.Log.Postpone(ctx, audit.Postponement{Held: held, After: wait, Reason: why.reason, Provider: why.provider, ProviderCode: why.code})
	})
}

// insist repeats a write to the log until it answers.
func (o *outbox) insist(write func(context.Context) (bool, error)) bool {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(o.base), logTimeout)
		applied, err := write(ctx)
		cancel()
		if err == nil {
			return applied
		}
		o.Logger.Warn("the log did not take an outcome; repeating", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-o.base.Done():
			timer.Stop()
			return false
		}
	}
}
