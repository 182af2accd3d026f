package verification_test

import (
	"testing"
	"time"

	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

func TestResend(t *testing.T) {
	session := func(id string) func(*verification.Ask) { return func(a *verification.Ask) { a.Session = id } }
	browser := func(a *verification.Ask) { a.Caller = vtest.Browser }
	for name, c := range map[string]struct {
		first, again func(*verification.Ask)
		named        bool // the second request names the first's verification
		same         bool
	}{
		"same back end":                       {same: true},
		"same session":                        {first: session("s1"), again: session("s1"), same: true},
		"another session":                     {first: session("s1"), again: session("s2")},
		"no session after one":                {first: session("s1")},
		"another purpose of the policy":       {again: func(a *verification.Ask) { a.Purpose = "login" }},
		"browser that knows the address only": {again: browser},
		"browser that names it":               {again: browser, named: true, same: true},
		"browser that names it and nothing else": {named: true, same: true,
			again: func(a *verification.Ask) { *a = verification.Ask{Caller: vtest.Browser} }},
		"browser after browser": {first: browser, again: browser},
		"folded address":        {again: func(a *verification.Ask) { a.To = "Ana.Maria@EXAMPLE.com" }, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				ask, again := vtest.AskFor(vtest.Ana), vtest.AskFor(vtest.Ana)
				if c.first != nil {
					c.first(&ask)
				}
				if c.again != nil {
					c.again(&again)
				}
				first := r.Send(ask)
				r.Sleep(time.Minute)
				if c.named {
					again.Resend = first.View.ID
				}
				second := r.Send(again)
				if same := second.View.ID == first.View.ID; same != c.same || (r.Code(0) == r.Code(1)) != c.same {
					t.Fatalf("same verification: %v", same)
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
		r.WantError(r.SendError(verification.Ask{Caller: stranger, Resend: first.View.ID}), verification.ErrNotFound)
		r.WantError(vtest.Err(r.Svc.Get(r.Context(), stranger, first.View.ID)), verification.ErrNotFound)
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), stranger, first.View.ID, "000000")), verification.ErrNotFound)
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), stranger, first.View.ID)), verification.ErrNotFound)
		if v := r.Get(first.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a stranger burned a try: %d left", v.AttemptsRemaining)
		}
	})
}
