package verification_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/admission"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func TestSendArrives(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		v := a.View
		vtest.Equal(r, "the answer: To", v.To, "a•••@example.com")
		vtest.Equal(r, "the answer: State", v.State, "pending")
		vtest.Equal(r, "the answer: Status", v.Send.Status, "queued")
		vtest.Equal(r, "the answer: Number", v.Send.Number, 1)
		r.Want("the life", v.ExpiresAt.Sub(v.CreatedAt), 10*time.Minute)
		r.Want("characters of the ID: three of its week, and 26 of 5 bits each", len(v.ID), 29)
		r.WantBlockedBy(a.Quota, "minute", time.Minute)
		mails := r.MailServer.Attempts()
		local, _ := strings.CutSuffix(mails[0].MessageID, "@shop.example")
		send, signed := r.Settings.Vault.SendOfMessageID(local)
		vtest.Equal(r, "the mail", len(mails), 1)
		vtest.Equal(r, "the mail: To", mails[0].To, vtest.Ana)
		vtest.Equal(r, "the mail: send", send.String(), v.Send.ID)
		vtest.Equal(r, "the mail: signed", signed, true)
		r.WantSend(v.ID, vtest.Send{Status: store.Sent, Provider: "mx.example", ProviderCode: "250 2.0.0", Attempt: 1})
		r.WantApproved(v.ID, vtest.CodeIn(mails[0]))
	})
}

func TestWaitIsExact(t *testing.T) {
	vtest.InForms(t, nil, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(20 * time.Second)
		refused := r.RefuseTo(vtest.Ana)
		r.WantBlockedBy(refused.Quota, "minute", 40*time.Second)
		vtest.Equal(r, "the refusal: To", refused.View.To, "a•••@example.com")
		vtest.Equal(r, "the refusal: Channel", refused.View.Channel, recipient.Email)
		vtest.Equal(r, "the refusal: Purpose", refused.View.Purpose, "default")
		vtest.Equal(r, "the refusal: ID", refused.View.ID, "")
		r.Sleep(40*time.Second - time.Microsecond)
		r.RefuseTo(vtest.Ana)
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
	})
}

func TestHeldSendsCountNothing(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		until := time.Now().Add(2 * time.Minute)
		r.Svc.HoldUntil = until
		for _, left := range []time.Duration{2 * time.Minute, time.Microsecond} {
			r.Sleep(time.Until(until) - left)
			_, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
			held, ok := errors.AsType[*verification.HoldUntilError](err)
			if !ok {
				t.Fatalf("%v before the end: %v", left, err)
			}
			vtest.Equal(r, "held", errors.Is(err, fault.Unavailable), true)
			vtest.Equal(r, "held: RetryAfter", held.RetryAfter, left)
			vtest.Equal(r, "held", held.Until.Equal(until), true)
		}
		r.WantApproved(first.View.ID, r.LastCode())
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
	})
}

func TestAskIsRefusedByField(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		for _, c := range []struct {
			field  string
			change func(*verification.Request)
		}{
			{"channel", func(a *verification.Request) { a.Channel = "" }},
			{"channel", func(a *verification.Request) { a.Channel = "pigeon" }},
			{"to", func(a *verification.Request) { a.Channel, a.To = "sms", "+4915123456789" }},
			{"to", func(a *verification.Request) { a.To = "" }},
			{"to", func(a *verification.Request) { a.To = "noone" }},
			{"purpose", func(a *verification.Request) { a.Purpose = "unknown" }},
			{"reference", func(a *verification.Request) { a.Reference = strings.Repeat("ä", 65) }},
			{"reference", func(a *verification.Request) { a.Reference = "a\nb" }},
			// the text after this character is shown from right to left
			{"reference", func(a *verification.Request) { a.Reference = "a\u202eb" }},
			// U+2028 and U+2029 are not control characters
			{"reference", func(a *verification.Request) { a.Reference = "a\u2028b" }},
			{"reference", func(a *verification.Request) { a.Reference = "a\u2029b" }},
			{"reference", func(a *verification.Request) { a.Reference = "a\xffb" }},
			{"session", func(a *verification.Request) { a.Session = strings.Repeat("s", 129) }},
			{"session", func(a *verification.Request) { a.Session = "a\u202eb" }},
			{"session", func(a *verification.Request) { a.Session = "a\u2028b" }},
			{"session", func(a *verification.Request) { a.Caller, a.Session = vtest.Browser, "s" }},
			{"details", func(a *verification.Request) { a.Caller, a.Details = vtest.Browser, "Pay 40.00 EUR" }},
			{"details", func(a *verification.Request) { a.Details = strings.Repeat("é", 101) }},
			{"details", func(a *verification.Request) { a.Details = "Pay\n40" }},
			{"details", func(a *verification.Request) { a.Details = "see www.evil.com" }},
			{"details", func(a *verification.Request) { a.Details = "Pay \u202e04" }},
			{"details", func(a *verification.Request) { a.Details = "Pay " }},
			{"prefer", func(a *verification.Request) { a.Caller, a.Wait = vtest.Browser, time.Second }},
			{"to", func(a *verification.Request) { a.Resend, a.To = first.View.ID, "bea@example.com" }},
			{"purpose", func(a *verification.Request) { a.Resend, a.Purpose = first.View.ID, "login" }},
			{"channel", func(a *verification.Request) { a.Resend, a.Channel, a.To = first.View.ID, "sms", "" }},
		} {
			ask := vtest.AskFor(vtest.Ana)
			c.change(&ask)
			r.WantInvalid(r.SendError(ask), c.field, "")
		}
		r.WantMails(1)
	})
}

// However many requests come for one recipient, only a few are worked on at once. Requests for
// other recipients are answered as usual.
func TestRequestsForOneRecipientDelayNoOthers(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		began := time.Now()
		const attackers = 5 * admission.MaxPerRecipient
		answered := make(chan bool, attackers)
		for range attackers {
			go func() { r.RefuseTo(vtest.Ana); answered <- true }()
		}
		synctest.Wait()
		r.Want("answers at once", len(answered), admission.MaxPerRecipient)
		for i := range 50 {
			r.SendTo(vtest.NthAddress(i))
		}
		r.Want("others waited", time.Since(began), "0s")
		r.Sleep(time.Minute)
		vtest.Equal(r, "queues that are kept", r.Svc.Queues(), 0)
		vtest.Equal(r, "answers", len(answered), attackers)
	})
}

// A request that waits for its mail delays no other request.
func TestWaitingForTheMailTakesNoPlace(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		release := make(chan struct{})
		began := time.Now()
		for range 2 * admission.MaxPerRecipient {
			r.MailServer.Answer(vtest.Hang(release))
			go func() { _ = r.SendError(vtest.AskFor(vtest.Ana, vtest.Waiting(10*time.Second))) }()
			synctest.Wait()
		}
		vtest.Equal(r, "queues", r.Svc.Queues(), 0)
		vtest.Equal(r, "the time", time.Since(began), 0)
		close(release)
		r.Sleep(11 * time.Second)
	})
}

func TestAlternativeChannel(t *testing.T) {
	for status, want := range map[store.Status]recipient.Channel{
		store.Failed: recipient.Email, store.Undelivered: recipient.Email, store.Sent: "", store.Unknown: "",
		store.Queued: "",
	} {
		servertest.Same(t, string(status), verification.AlternativeChannel(recipient.SMS, status), want)
		servertest.Same(t, "of a mail", verification.AlternativeChannel(recipient.Email, status), "")
	}
}

func TestWaitingForTheOutcome(t *testing.T) {
	slowly := func(d time.Duration, then func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { <-time.After(d); return then(ctx) }
	}
	accept := func(context.Context) error { return nil }
	unknown, later := vtest.FailWith(delivery.Unknown, "dot", 0, ""),
		vtest.FailWith(delivery.Temporary, "rcpt", 451, "")
	type row struct {
		answer  func(context.Context) error
		wait    time.Duration
		status  store.Status
		allowed bool
		took    time.Duration
	}
	vtest.EachInBubble(t, map[string]row{
		"sent":                        {slowly(2*time.Second, accept), 5 * time.Second, store.Sent, false, 2 * time.Second},
		"not in time":                 {slowly(8*time.Second, accept), 5 * time.Second, store.Queued, false, 5 * time.Second},
		"never longer than the bound": {slowly(time.Minute, accept), time.Hour, store.Queued, false, verification.MaxWait},
		"refused for good":            {slowly(time.Second, vtest.NoMailbox), 5 * time.Second, store.Failed, true, time.Second},
		"refused for now":             {later, 10 * time.Second, store.Sent, false, 0},
		"unknown":                     {slowly(time.Second, unknown), 5 * time.Second, store.Unknown, false, time.Second},
	}, vtest.DefaultTick(nil), func(r *vtest.Rig, c row) {
		r.MailServer.Answer(c.answer)
		began := time.Now()
		a := r.SendTo(vtest.Ana, vtest.Waiting(c.wait))
		vtest.Equal(r, "status", a.View.Send.Status, c.status)
		vtest.Equal(r, "allowed", a.Quota.Allowed(), c.allowed)
		if took := time.Since(began); c.took > 0 && took != c.took {
			r.Errorf("took %v", took)
		}
		r.Sleep(time.Minute + 10*time.Second)
		if s := r.Get(a.View.ID).Send.Status; s == store.Queued || s != store.Sent && s != c.status {
			r.Errorf("in the end: %s", s)
		}
	})
}

// A caller that waits for the outcome learns of a failure only after the place was given back, so
// it may ask again at once.
func TestAFailureIsToldAfterItsRefund(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "Refund" {
				<-time.After(time.Second)
			}
			return do()
		})
		r.MailServer.Answer(vtest.NoMailbox)
		r.Want("the send", r.SendTo(vtest.Ana, vtest.Waiting(5*time.Second)).View.Send.Status, "failed")
		r.SendTo(vtest.Ana)
	})
}

func TestSendWaitsOnlyForAClientThatStays(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Answer(func(context.Context) error { <-time.After(10 * time.Second); return nil })
		ctx, hangUp := context.WithTimeout(r.Context(), time.Second)
		defer hangUp()
		began := time.Now()
		a, err := r.Svc.Send(ctx, vtest.AskFor(vtest.Ana, vtest.Waiting(15*time.Second)))
		r.NoError(err)
		vtest.Equal(r, "the answer", time.Since(began), time.Second)
		r.Sleep(10 * time.Second)
		r.WantStatus(a, "sent")
	})
}

// If the database fails during a check, the error says whether the attempt may be counted.
func TestFailuresSayWhatMayCount(t *testing.T) {
	for how, counted := range map[sqlitetest.Fault]bool{sqlitetest.Down: false, sqlitetest.Lost: true} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			a := r.SendTo(vtest.Ana)
			r.FailStore(how, "Check")
			_, err := r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, r.Code(0))
			r.WantError(err, fault.Unavailable)
			r.Want("may count", errors.Is(err, fault.Uncertain), counted)
			r.EndStoreFaults()
			r.Want("the code can be used again", r.Check(a.View.ID, r.Code(0)).Valid, !counted)
		})
	}
}
