package verification

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/message"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Reasons of a send that failed or is unknown, as rows, answers and the console name them.
const (
	reasonRejected   = store.ReasonRejected // the server refused it for good
	reasonExpired    = "expired"            // the code's life ended before the mail could go out
	reasonNoLonger   = "ended"              // approved or canceled while it waited
	reasonUnreadable = "unreadable"         // recipient or code can't be recovered: a key left the ring
	reasonErased     = store.ReasonErased   // the recipient was, while it waited
	reasonTemplate   = "template"           // the message could not be rendered
	reasonNoAnswer   = "no_answer"          // nothing was heard after the whole mail was handed over
	reasonBlocked    = "blocked"            // the recipient is on the list of those who get no codes
	reasonSuppressed = store.ReasonSuppressed
	reasonPaused     = store.ReasonPaused
	reasonCountry    = "country_not_served" // the number's country was taken off the list while the send waited
	reasonOff        = "not_configured"     // nothing sends on this channel any more
)

// failure is why an attempt did not end in Sent.
type failure struct {
	reason, provider, code string
}

// attempt makes one attempt, and gives what records its outcome.
func (o *outbox) attempt(ctx context.Context, f *flight) (end func()) {
	finish := func(out store.Outcome) func() { return func() { o.finish(f, out) } }
	w := o.readAgain(ctx, f)
	v := w.Verification
	if len(v.Sealed) == 0 { // it frees no quota to be erased
		return finish(store.Outcome{Status: store.Failed, Reason: reasonErased})
	}
	if reason := o.pointless(v); reason != "" { // what the last attempt heard stays with it
		return finish(store.Outcome{Status: store.Failed, Reason: reason, Provider: w.Send.Provider, ProviderCode: w.Send.ProviderCode, Refund: true})
	}
	if _, ok := o.testRecipient(v); ok {
		return finish(store.Outcome{Status: store.Sent, Provider: testProvider})
	}
	reason, err := o.untried(ctx, w.Send)
	switch {
	case err != nil: // nothing leaves that may have to rest
		return func() { o.postpone(f, backoff(w.Send.Attempt), failure{reason: "temporary_log"}) }
	case reason != "":
		return finish(store.Outcome{Status: store.Failed, Reason: reason, Refund: true})
	}
	t, reason, err := o.open(w)
	if errors.Is(err, errBlocked) {
		return finish(store.Outcome{Status: store.Failed, Reason: reason})
	}
	var h heard
	if err == nil {
		h, reason, err = o.hand(ctx, w, t)
	}
	if err != nil {
		o.Logger.Error("a message could not be composed", "send", w.Send.ID, "reason", reason, "error", err)
		return finish(store.Outcome{Status: store.Failed, Reason: reason, Refund: true})
	}
	if h.trouble == nil {
		return finish(store.Outcome{Status: store.Sent, Provider: h.provider, ProviderCode: h.code, Took: h.took})
	}
	return o.failed(f, h)
}

// heard is what a mail server or a carrier said.
type heard struct {
	provider, code string
	took           time.Duration
	trouble        *trouble // nil: it took the message
}

// trouble is why it did not, or why that is not known.
type trouble struct {
	class  delivery.Class
	stage  string
	reason string        // of a rejection that is told apart; empty: rejected
	gone   bool          // there is nobody at the address
	after  time.Duration // that it asked to be left alone, with a temporary one
}

// hand gives the message to what sends on its channel. The error is about composing it, with its reason.
func (o *outbox) hand(ctx context.Context, w store.Work, t content) (heard, string, error) {
	if w.Verification.Channel == recipient.SMS {
		return o.handText(ctx, w, t)
	}
	m, reason, err := o.mail(w, t)
	if err != nil {
		return heard{}, reason, err
	}
	receipt, err := o.Sender.Send(ctx, m)
	h := heard{provider: receipt.Provider, code: replyCode(receipt.Code, receipt.Enhanced), took: receipt.Took}
	if err == nil {
		return h, "", nil
	}
	e := &delivery.Error{Class: delivery.Unknown, Stage: "send", Err: err}
	_ = errors.As(err, &e)
	h.code, h.trouble = replyCode(e.Code, e.Enhanced), &trouble{class: e.Class, stage: e.Stage, gone: e.NoMailbox()}
	return h, "", nil
}

// failed sorts a failure by what it says about the message (MAIL-11, MAIL-13).
func (o *outbox) failed(f *flight, h heard) (end func()) {
	w, e := f.work, h.trouble
	why := failure{provider: h.provider, code: h.code}
	o.Logger.Info("an attempt failed", "send", w.Send.ID, "attempt", w.Send.Attempt, "class", e.class.String(), "stage", e.stage, "code", why.code)
	out := store.Outcome{Status: store.Failed, Provider: why.provider, ProviderCode: why.code, Took: h.took, Refund: true}
	switch e.class {
	case delivery.Rejected:
		out.Reason = or(e.reason, reasonRejected)
		switch {
		case e.gone:
			out.Suppress = o.bar(w.Verification, store.HardBounce)
		case e.reason == sms.ReasonOptOut:
			out.Suppress = o.bar(w.Verification, store.OptOut)
		}
	case delivery.Temporary:
		wait := max(backoff(w.Send.Attempt), e.after)
		if o.Now().Add(wait).Before(w.Verification.ExpiresAt) {
			why.reason = "temporary_" + e.stage
			return func() { o.postpone(f, wait, why) }
		}
		out.Reason = reasonExpired
	default:
		out.Status, out.Reason, out.Refund = store.Unknown, reasonNoAnswer, false
	}
	return func() { o.finish(f, out) }
}

// pointless says why a mail would help nobody any more; empty if it would.
func (o *outbox) pointless(v store.Verification) string {
	switch stateOf(v, o.Now()) {
	case Expired:
		return reasonExpired
	case Approved, Canceled:
		return reasonNoLonger
	}
	return ""
}

// content is what a message is made of. Here alone the code and the full recipient meet, and neither leaves but in the
// message.
type content struct {
	to      recipient.Recipient
	request message.Request
	left    time.Duration // of the code's life
}

// open recovers what a row only has sealed, and looks again whether it may go there.
func (o *outbox) open(w store.Work) (content, string, error) {
	v, terms := w.Verification, o.Terms()
	to, err := o.recipientOf(v)
	if err != nil {
		return content{}, reasonUnreadable, err
	}
	if terms.Blocks.blocked(to, to.Hash(o.IndexKey)) {
		return content{}, reasonBlocked, errBlocked
	}
	if err := terms.Numbers.refuse(to); err != nil {
		return content{}, reasonCountry, err
	}
	code, err := o.code(v)
	if err != nil {
		return content{}, reasonUnreadable, err
	}
	left := v.ExpiresAt.Sub(o.Now())
	return content{to: to, left: left, request: message.Request{
		Locale: v.Locale, Purpose: v.Purpose, Notify: terms.Purposes[v.Purpose].Notify, // a purpose that is gone leaves the code private
		Data: message.Data{App: or(terms.Titles[v.App], v.App), Code: code, Minutes: minutes(left)},
	}}, "", nil
}

func (o *outbox) mail(w store.Work, t content) (delivery.Message, string, error) {
	t.request.Data.Support = store.SupportReference(w.Send.ID)
	m, err := o.Renderer.Render(t.request)
	if err != nil {
		return delivery.Message{}, reasonTemplate, err
	}
	marks := map[string]string{}
	for _, name := range o.Marks {
		marks[name] = w.Send.ID.String()
	}
	return delivery.Message{
		Marks: marks, ID: fmt.Sprintf("%s@%s", w.Send.ID, o.Domain), From: o.MailFrom, To: t.to.Address(),
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
func (o *outbox) finish(f *flight, out store.Outcome) {
	out.Event = o.tellOfSend(f.work.Send.App, out)
	applied := o.insist(func(ctx context.Context) (bool, error) {
		out.Held, _ = o.holds(f)
		return o.Log.Finish(ctx, out)
	})
	held, inDoubt := o.holds(f)
	if !applied {
		o.Logger.Warn("an outcome came too late; another attempt holds the send", "send", held.ID, "attempt", held.Attempt)
		return
	}
	o.told(out.Event)
	s := f.work.Send
	defer o.waiters.tell(s.ID, out) // after the refund: who hears of it may ask again at once
	o.Observer.Finished(s.Channel, s.App, out.Status, o.Now().Sub(s.LoggedAt))
	if out.Refund && !inDoubt {
		r := store.Refund{Held: held, App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient}
		if err := o.confirm(context.Background(), r); err != nil {
			o.Logger.Warn("a refund waits for the limiter", "send", held.ID, "error", err)
		}
	}
	if out.Status == store.Failed && store.Failure(out.Reason) {
		o.rejected(s)
	}
}

func (o *outbox) postpone(f *flight, wait time.Duration, why failure) {
	o.insist(func(ctx context.Context) (bool, error) {
		held, _ := o.holds(f)
		return o.Log.Postpone(ctx, store.Postponement{Held: held, After: wait, Reason: why.reason, Provider: why.provider, ProviderCode: why.code})
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
