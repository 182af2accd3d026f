package verification

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func emailOf(t *testing.T, address string) recipient.Recipient {
	t.Helper()
	r, err := recipient.Parse(recipient.Email, address)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A test recipient: nothing is sent, its code is known, and everything else is as for everybody.
func TestTestRecipients(t *testing.T) {
	change := func(s *Settings) {
		s.TestRecipients = map[recipient.Hash]TestRecipient{
			emailOf(t, "reviewer@example.com").Hash(s.IndexKey): {Code: "424242", Expires: time.Now().Add(time.Hour)},
		}
	}
	inBubbleWith(t, change, func(r *rig) {
		a := r.send(askFor("Reviewer@example.com"))
		if !a.View.Test || a.Quota.RetryAfter() != minute {
			t.Errorf("%+v", a)
		}
		r.refuse(askFor("reviewer@example.com"))
		if v := r.get(a.View.ID); v.Send.Status != store.Sent || v.Send.Provider != testProvider || !v.Test {
			t.Errorf("%+v", v)
		}
		for i := range 4 {
			if c := r.check(a.View.ID, "000000"); c.Valid || c.AttemptsRemaining != 4-i || !c.Test {
				t.Errorf("a wrong code: %+v", c)
			}
		}
		if c := r.check(a.View.ID, "424242"); !c.Valid {
			t.Errorf("the known code: %+v", c)
		}
		if c := r.check(a.View.ID, "424242"); c.Valid {
			t.Error("it is used once")
		}
		r.mails(0)

		others := r.send(askFor(ana))
		if c := r.check(others.View.ID, "424242"); c.Valid || c.Test || others.View.Test {
			t.Error("the known code opens another's verification")
		}
		r.mails(1)

		waited(59 * minute)
		last := r.send(askFor("reviewer@example.com"))
		waited(minute)
		if c := r.check(last.View.ID, "424242"); c.Valid || c.Test {
			t.Error("the code outlived its end")
		}
		after := r.send(askFor("reviewer@example.com"))
		if after.View.Test || r.check(after.View.ID, "424242").Valid {
			t.Error("a test recipient for longer than it may be")
		}
		r.mails(2)
	})
}

// Who is blocked gets nothing, and asking for it is not free; the record says why.
func TestBlockedRecipients(t *testing.T) {
	change := func(s *Settings) {
		s.Blocks = Blocks{
			Recipients: map[recipient.Hash]bool{emailOf(t, "abuser@example.com").Hash(s.IndexKey): true},
			Domains:    map[string]bool{"bad.example": true},
			Disposable: map[string]bool{"short.example": true},
		}
	}
	inBubbleWith(t, change, func(r *rig) {
		for _, to := range []string{"Abuser@EXAMPLE.com", "a@bad.example", "a@very.bad.example"} {
			a := r.send(askFor(to))
			if s := r.get(a.View.ID).Send; s.Status != store.Failed || s.Reason != reasonBlocked {
				t.Errorf("%s: %+v", to, s)
			}
			r.refuse(askFor(to))
		}
		r.mails(0)
		for _, to := range []string{"abuser@example.org", "a@notbad.example", "a@bad.example.org", "a@example"} {
			if _, err := recipient.Parse(recipient.Email, to); err == nil {
				r.send(askFor(to))
			}
		}
		r.mails(3)
		for _, to := range []string{"a@short.example", "a@very.short.example"} {
			_, err := r.svc.Send(r.Context(), askFor(to))
			var bad *InvalidError
			if !errors.As(err, &bad) || bad.Field != "to" || bad.Reason != "disposable" {
				t.Errorf("%s: %v", to, err)
			}
		}
		r.send(askFor("a@notshort.example"))
	})
}

func TestBlockedPrefixes(t *testing.T) {
	phone, err := recipient.Parse(recipient.SMS, "+4915123456789")
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]bool{"+49": true, "+4915123456789": true, "+44": false, "49": false} {
		if got := (Blocks{Prefixes: []string{prefix}}).blocked(phone, recipient.Hash{}); got != want {
			t.Errorf("%s: %v", prefix, got)
		}
	}
	if (Blocks{Prefixes: []string{"+49"}}).blocked(emailOf(t, "+4915123456789@example.com"), recipient.Hash{}) {
		t.Error("a mail address is no phone number")
	}
}
