package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

func TestResend(t *testing.T) {
	other := vtest.BackEnd
	other.App = "elsewhere"
	for _, c := range []struct {
		name  string
		first func(*verification.Ask)
		again func(*verification.Ask, verification.Answer)
		same  bool
	}{
		{"same back end", nil, nil, true},
		{"same session", func(a *verification.Ask) { a.Session = "s1" }, func(a *verification.Ask, _ verification.Answer) { a.Session = "s1" },
			true},
		{"another session", func(a *verification.Ask) { a.Session = "s1" }, func(a *verification.Ask, _ verification.Answer) { a.Session = "s2" },
			false},
		{"no session after one", func(a *verification.Ask) { a.Session = "s1" }, nil, false},
		{"another purpose of the policy", nil, func(a *verification.Ask, _ verification.Answer) { a.Purpose = "login" }, false},
		{"browser that knows the address only", nil, func(a *verification.Ask, _ verification.Answer) { a.Caller = vtest.Browser }, false},
		{"browser that names it", nil, func(a *verification.Ask, first verification.Answer) {
			a.Caller, a.Resend = vtest.Browser, first.View.ID
		},
			true},
		{"browser that names it and nothing else", nil, func(a *verification.Ask, first verification.Answer) {
			*a = verification.Ask{Caller: vtest.Browser, Resend: first.View.ID}
		}, true},
		{"browser after browser", func(a *verification.Ask) { a.Caller = vtest.Browser },
			func(a *verification.Ask, _ verification.Answer) { a.Caller = vtest.Browser }, false},
		{"folded address", nil, func(a *verification.Ask, _ verification.Answer) { a.To = "Ana.Maria@EXAMPLE.com" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				ask := vtest.AskFor(vtest.Ana)
				if c.first != nil {
					c.first(&ask)
				}
				first := r.Send(ask)
				r.Sleep(time.Minute)
				again := vtest.AskFor(vtest.Ana)
				if c.again != nil {
					c.again(&again, first)
				}
				second := r.Send(again)
				if same := second.View.ID == first.View.ID; same != c.same {
					t.Fatalf("same verification: %v", same)
				}
				mails := r.MailServer.All()
				if same := vtest.CodeIn(mails[0]) == vtest.CodeIn(mails[1]); same != c.same {
					t.Errorf("same code: %v", same)
				}
				if c.same && (second.View.Send.Number != 2 || !second.View.ExpiresAt.Equal(first.View.ExpiresAt)) {
					t.Errorf("a resend must keep the expiry and count on: %+v", second.View)
				}
			})
		})
	}
}

// With less than min(120 s, a fifth of its life) left, a code is not sent again.
func TestNearItsEndACodeIsReplaced(t *testing.T) {
	short := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.TTL = 100 * time.Second
		s.Purposes["default"] = p
	}
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		r.Sleep(8*time.Minute + time.Second)
		if second := r.SendTo(vtest.Ana).View; second.ID == first.View.ID || second.ExpiresAt.Sub(second.CreatedAt) != 10*time.Minute {
			t.Errorf("with 119 s left: %+v", second)
		}
	})
	vtest.InBubbleWith(t, short, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		if second := r.SendTo(vtest.Ana); second.View.ID != first.View.ID {
			t.Error("with 40 of 100 s left a resend keeps the code")
		}
		r.Sleep(time.Minute)
		third := r.SendTo(vtest.Ana)
		r.Sleep(81 * time.Second)
		if fourth := r.SendTo(vtest.Ana); fourth.View.ID == third.View.ID {
			t.Error("with 19 of 100 s left a resend opens a new verification")
		}
	})
}

func TestResendOfAnotherApp(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		stranger := verification.Caller{App: "elsewhere", Kind: verification.Secret}
		if _, err := r.Svc.Send(r.Context(), verification.Ask{Caller: stranger, Resend: first.View.ID}); !errors.Is(err,
			verification.ErrNotFound) {
			t.Errorf("Send: %v", err)
		}
		r.WantError(vtest.Err(r.Svc.Get(r.Context(), stranger, first.View.ID)), verification.ErrNotFound)
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), stranger, first.View.ID, "000000")), verification.ErrNotFound)
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), stranger, first.View.ID)), verification.ErrNotFound)
		if v := r.Get(first.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a stranger burned a try: %d left", v.AttemptsRemaining)
		}
	})
}
