package verification_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/bulkhead"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

func TestSendArrives(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		if a.View.To != vtest.AnaMasked || a.View.State != verification.Pending || a.View.Send.Status != store.Queued || a.View.Send.Number != 1 {
			t.Errorf("answer: %+v", a.View)
		}
		if got := a.View.ExpiresAt.Sub(a.View.CreatedAt); got != 10*time.Minute {
			t.Errorf("life is %v", got)
		}
		if len(a.View.ID) < 26 {
			t.Errorf("id %q has fewer than 128 bits", a.View.ID)
		}
		if a.Quota.Allowed() || a.Quota.RetryAfter() != time.Minute {
			t.Errorf("a success must tell the wait: %v", a.Quota.RetryAfter())
		}
		mails := r.MailServer.Attempts()
		if len(mails) != 1 || mails[0].To != vtest.Ana || mails[0].ID != a.View.Send.ID+"@shop.example" {
			t.Fatalf("mails: %+v", mails)
		}
		v := r.Get(a.View.ID)
		if v.Send.Status != store.Sent || v.Send.ProviderCode != "250 2.0.0" || v.Send.Provider != "mx.example" {
			t.Errorf("after delivery: %+v", v.Send)
		}
		r.WantApproved(a.View.ID, vtest.CodeIn(mails[0]))
	})
}

func TestWaitIsExact(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(20 * time.Second)
		a := r.RefuseTo(vtest.Ana)
		wait := a.Quota.RetryAfter()
		if worst, _ := a.Quota.Blocking(); wait != 40*time.Second || worst.Name != "minute" {
			t.Fatalf("wait is %v by %s", wait, worst.Name)
		}
		r.Sleep(wait - time.Microsecond)
		r.RefuseTo(vtest.Ana)
		r.Sleep(time.Microsecond)
		r.SendTo(vtest.Ana)
	})
}

func TestAskIsRefusedByField(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		for _, c := range []struct {
			field  string
			change func(*verification.Ask)
		}{
			{"channel", func(a *verification.Ask) { a.Channel = "" }},
			{"channel", func(a *verification.Ask) { a.Channel = "pigeon" }},
			{"to", func(a *verification.Ask) { a.Channel, a.To = "sms", "+4915123456789" }},
			{"to", func(a *verification.Ask) { a.To = "" }},
			{"to", func(a *verification.Ask) { a.To = "noone" }},
			{"to", func(a *verification.Ask) { a.To = "a@example.com\r\nBcc: b@example.com" }},
			{"to", func(a *verification.Ask) { a.To = strings.Repeat("a", 400) + "@example.com" }},
			{"purpose", func(a *verification.Ask) { a.Purpose = "unknown" }},
			{"reference", func(a *verification.Ask) { a.Reference = strings.Repeat("ä", 65) }},
			{"reference", func(a *verification.Ask) { a.Reference = "a\nb" }},
			{"session", func(a *verification.Ask) { a.Session = strings.Repeat("s", 129) }},
			{"session", func(a *verification.Ask) { a.Caller, a.Session = vtest.Browser, "s" }},
			{"prefer", func(a *verification.Ask) { a.Caller, a.Wait = vtest.Browser, time.Second }},
			{"locale", func(a *verification.Ask) { a.Locale = "en\x00" }},
			{"to", func(a *verification.Ask) { a.Resend, a.To = first.View.ID, "bea@example.com" }},
			{"purpose", func(a *verification.Ask) { a.Resend, a.Purpose = first.View.ID, "login" }},
			{"channel", func(a *verification.Ask) { a.Resend, a.Channel, a.To = first.View.ID, "sms", "" }},
		} {
			ask := vtest.AskFor(vtest.Ana)
			c.change(&ask)
			r.WantInvalid(r.SendError(ask), c.field, "")
		}
		r.WantMails(1)
	})
}

// However many requests come for one recipient, few are worked on at once; the requests for others are answered as ever.
func TestOneRecipientCannotCrowdOutTheOthers(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		began := time.Now()
		const attackers = 500
		answered := make(chan verification.Answer, attackers)
		for range attackers {
			go func() {
				a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))
				if err != nil || a.Admitted {
					t.Errorf("%+v, %v", a, err)
				}
				answered <- a
			}()
		}
		synctest.Wait()
		if n := len(answered); n != bulkhead.Abreast {
			t.Errorf("%d answers at once", n)
		}
		for i := range 200 {
			r.SendTo(vtest.NthAddress(i))
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("others waited %v", waited)
		}
		r.Sleep(time.Minute)
		if n := r.Svc.Lines(); n != 0 || len(answered) != attackers {
			t.Errorf("%d lines are kept, %d attackers were answered", n, len(answered))
		}
	})
}

// A request that waits for its mail holds up no other.
func TestWaitingForTheMailTakesNoPlace(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		release := make(chan struct{})
		began := time.Now()
		for range 2 * bulkhead.Abreast {
			r.MailServer.Answer(vtest.Hang(release))
			ask := vtest.AskFor(vtest.Ana)
			ask.Wait = 10 * time.Second
			go func() { _, _ = r.Svc.Send(r.Context(), ask) }()
			synctest.Wait()
		}
		if n := r.Svc.Lines(); n != 0 || time.Since(began) != 0 {
			t.Errorf("%d lines after %v", n, time.Since(began))
		}
		close(release)
		r.Sleep(11 * time.Second)
	})
}

func TestInsteadOfATextMessage(t *testing.T) {
	for _, c := range []struct {
		ch     recipient.Channel
		status store.Status
		want   recipient.Channel
	}{
		{recipient.SMS, store.Failed, recipient.Email}, {recipient.SMS, store.Undelivered, recipient.Email},
		{recipient.SMS, store.Sent, ""}, {recipient.SMS, store.Unknown, ""}, {recipient.SMS, store.Queued, ""},
		{recipient.Email, store.Failed, ""},
	} {
		if got := verification.Instead(c.ch, c.status); got != c.want {
			t.Errorf("%s %s: %q", c.ch, c.status, got)
		}
	}
}
