package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
)

// A test recipient: nothing is sent, its code is known, and everything else is as for everybody.
func TestTestRecipients(t *testing.T) {
	change := func(s *rig.Settings) {
		s.TestRecipients = map[recipient.Hash]policy.TestRecipient{
			rig.EmailOf(t, "reviewer@example.com").Hash(s.Vault.IndexKey): {Code: "424242", Expires: time.Now().Add(time.Hour)},
		}
	}
	rig.InBubbleWith(t, change, func(r *rig.Rig) {
		a := r.Send(rig.AskFor("Reviewer@example.com"))
		if !a.View.Test || a.Quota.RetryAfter() != rig.Minute {
			t.Errorf("%+v", a)
		}
		r.Refuse(rig.AskFor("reviewer@example.com"))
		if v := r.Get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != policy.TestProvider || !v.Test {
			t.Errorf("%+v", v)
		}
		for i := range 4 {
			if c := r.Check(a.View.ID, "000000"); c.Valid || c.AttemptsRemaining != 4-i || !c.Test {
				t.Errorf("a wrong code: %+v", c)
			}
		}
		if c := r.Check(a.View.ID, "424242"); !c.Valid {
			t.Errorf("the known code: %+v", c)
		}
		if c := r.Check(a.View.ID, "424242"); c.Valid {
			t.Error("it is used once")
		}
		r.Mails(0)

		others := r.Send(rig.AskFor(rig.Ana))
		if c := r.Check(others.View.ID, "424242"); c.Valid || c.Test || others.View.Test {
			t.Error("the known code opens another's verification")
		}
		r.Mails(1)

		rig.Waited(59 * rig.Minute)
		last := r.Send(rig.AskFor("reviewer@example.com"))
		rig.Waited(rig.Minute)
		if c := r.Check(last.View.ID, "424242"); c.Valid || c.Test {
			t.Error("the code outlived its end")
		}
		after := r.Send(rig.AskFor("reviewer@example.com"))
		if after.View.Test || r.Check(after.View.ID, "424242").Valid {
			t.Error("a test recipient for longer than it may be")
		}
		r.Mails(2)
	})
}

// Who is blocked gets nothing, and asking for it is not free; the record says why.
func TestBlockedRecipients(t *testing.T) {
	change := func(s *rig.Settings) {
		s.Blocks = policy.Blocks{
			Recipients: map[recipient.Hash]bool{rig.EmailOf(t, "abuser@example.com").Hash(s.Vault.IndexKey): true},
			Domains:    map[string]bool{"bad.example": true},
			Disposable: map[string]bool{"short.example": true},
		}
	}
	rig.InBubbleWith(t, change, func(r *rig.Rig) {
		for _, to := range []string{"Abuser@EXAMPLE.com", "a@bad.example", "a@very.bad.example"} {
			a := r.Send(rig.AskFor(to))
			if s := r.Get(a.View.ID).Send; s.Status != store.Failed || s.Reason != outbox.ReasonBlocked {
				t.Errorf("%s: %+v", to, s)
			}
			r.Refuse(rig.AskFor(to))
		}
		r.Mails(0)
		for _, to := range []string{"abuser@example.org", "a@notbad.example", "a@bad.example.org", "a@example"} {
			if _, err := recipient.Parse(recipient.Email, to); err == nil {
				r.Send(rig.AskFor(to))
			}
		}
		r.Mails(3)
		for _, to := range []string{"a@short.example", "a@very.short.example"} {
			_, err := r.Svc.Send(r.Context(), rig.AskFor(to))
			var bad *verification.InvalidError
			if !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "disposable" {
				t.Errorf("%s: %v", to, err)
			}
		}
		r.Send(rig.AskFor("a@notshort.example"))
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
	if (policy.Blocks{Prefixes: []string{"+49"}}).Has(rig.EmailOf(t, "+4915123456789@example.com"), recipient.Hash{}) {
		t.Error("a mail address is no phone number")
	}
}
