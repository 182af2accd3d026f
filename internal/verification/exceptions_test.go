package verification_test

import (
	"testing"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	vtest "sendcode/internal/verification/verificationtest"
)

// A test recipient: nothing is sent, its code is known, and everything else is as for everybody.
func TestTestRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		letters(s) // its code is what was configured, whatever the purpose's codes are made of
		vtest.TestRecipient(t, "reviewer@example.com", "424242")(s)
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		a := r.SendTo("Reviewer@example.com")
		if !a.View.Test || a.View.Code != (code.Shape{Alphabet: code.Digits, Length: 6}) || a.Quota.RetryAfter() != time.Minute {
			t.Errorf("%+v", a)
		}
		r.RefuseTo("reviewer@example.com")
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != policy.TestProvider || !v.Test {
			t.Errorf("%+v", v)
		}
		for i := range 4 {
			if c := r.Check(a.View.ID, "000000"); c.Valid || c.AttemptsRemaining != 4-i || !c.Test {
				t.Errorf("a wrong code: %+v", c)
			}
		}
		r.WantApproved(a.View.ID, "424242")
		if c := r.Check(a.View.ID, "424242"); c.Valid {
			t.Error("it is used once")
		}
		r.WantMails(0)

		others := r.SendTo(vtest.Ana)
		if others.View.Test || r.Check(others.View.ID, "BCDFGHJK").Test {
			t.Error("another recipient is a test recipient")
		}
		r.WantMails(1)

		r.Sleep(59 * time.Minute)
		last := r.SendTo("reviewer@example.com")
		r.Sleep(time.Minute)
		r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, last.View.ID, "424242")), "code", "") // it has letters again
		after := r.SendTo("reviewer@example.com")
		if after.View.Test {
			t.Error("a test recipient for longer than it may be")
		}
		r.WantMails(2)
	})
}

// A blocked recipient gets nothing; the request counts, and the row has the reason.
func TestBlockedRecipients(t *testing.T) {
	change := func(s *vtest.Settings) {
		s.Blocks = policy.Blocks{
			Recipients: map[recipient.Hash]bool{vtest.ParseEmail(t, "abuser@example.com").Hash(s.Vault.IndexKey): true},
			Domains:    map[string]bool{"bad.example": true},
			Disposable: map[string]bool{"short.example": true},
		}
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		for _, to := range []string{"Abuser@EXAMPLE.com", "a@bad.example", "a@very.bad.example"} {
			a := r.SendTo(to)
			r.WantStatus(a, "failed "+outbox.ReasonBlocked)
			r.RefuseTo(to)
		}
		r.WantMails(0)
		for _, to := range []string{"abuser@example.org", "a@notbad.example", "a@bad.example.org", "a@example"} {
			if _, err := recipient.Parse(recipient.Email, to); err == nil {
				r.SendTo(to)
			}
		}
		r.WantMails(3)
		for _, to := range []string{"a@short.example", "a@very.short.example"} {
			r.WantInvalid(r.SendError(vtest.AskFor(to)), "to", "disposable")
		}
		r.SendTo("a@notshort.example")
	})
}

func TestBlockedPrefixes(t *testing.T) {
	phone, err := recipient.Parse(recipient.SMS, "+4915123456789")
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]bool{"+49": true, "+4915123456789": true, "+44": false, "49": false} {
		if got := (policy.Blocks{Prefixes: []string{prefix}}).Has(phone, recipient.Hash{}); got != want {
			t.Errorf("%s: %v", prefix, got)
		}
	}
	if (policy.Blocks{Prefixes: []string{"+49"}}).Has(vtest.ParseEmail(t, "+4915123456789@example.com"), recipient.Hash{}) {
		t.Error("a mail address is no phone number")
	}
}
