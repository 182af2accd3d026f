package verification

import (
	"errors"
	"testing"
	"time"
)

func TestResend(t *testing.T) {
	other := backEnd
	other.App = "elsewhere"
	for _, c := range []struct {
		name  string
		first func(*Ask)
		again func(*Ask, Answer)
		same  bool
	}{
		{"same back end", nil, nil, true},
		{"same session", func(a *Ask) { a.Session = "s1" }, func(a *Ask, _ Answer) { a.Session = "s1" }, true},
		{"another session", func(a *Ask) { a.Session = "s1" }, func(a *Ask, _ Answer) { a.Session = "s2" }, false},
		{"no session after one", func(a *Ask) { a.Session = "s1" }, nil, false},
		{"another purpose of the policy", nil, func(a *Ask, _ Answer) { a.Purpose = "login" }, false},
		{"browser that knows the address only", nil, func(a *Ask, _ Answer) { a.Caller = browser }, false},
		{"browser that names it", nil, func(a *Ask, first Answer) { a.Caller, a.Resend = browser, first.View.ID }, true},
		{"browser that names it and nothing else", nil, func(a *Ask, first Answer) {
			*a = Ask{Caller: browser, Resend: first.View.ID}
		}, true},
		{"browser after browser", func(a *Ask) { a.Caller = browser }, func(a *Ask, _ Answer) { a.Caller = browser }, false},
		{"folded address", nil, func(a *Ask, _ Answer) { a.To = "Ana.Maria@EXAMPLE.com" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ask := askFor(ana)
				if c.first != nil {
					c.first(&ask)
				}
				first := r.send(ask)
				waited(minute)
				again := askFor(ana)
				if c.again != nil {
					c.again(&again, first)
				}
				second := r.send(again)
				if same := second.View.ID == first.View.ID; same != c.same {
					t.Fatalf("same verification: %v", same)
				}
				mails := r.post.all()
				if same := codeIn(mails[0]) == codeIn(mails[1]); same != c.same {
					t.Errorf("same code: %v", same)
				}
				if c.same && (second.View.Send.Number != 2 || !second.View.ExpiresAt.Equal(first.View.ExpiresAt)) {
					t.Errorf("a resend must keep the expiry and count on: %+v", second.View)
				}
			})
		})
	}
}

func TestResendNearTheEndOpensANewOne(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.send(askFor(ana))
		waited(8*minute + time.Second)
		second := r.send(askFor(ana))
		if second.View.ID == first.View.ID || second.View.ExpiresAt.Sub(second.View.CreatedAt) != 10*minute {
			t.Errorf("with 119 s left: %+v", second.View)
		}
	})
}

func TestShortLivedCodesAreResentToo(t *testing.T) {
	short := func(s *Settings) {
		p := s.Purposes["default"]
		p.Life = 100 * time.Second
		s.Purposes["default"] = p
	}
	inBubbleWith(t, short, func(r *rig) {
		first := r.send(askFor(ana))
		waited(minute)
		if second := r.send(askFor(ana)); second.View.ID != first.View.ID {
			t.Error("with 40 of 100 s left a resend keeps the code")
		}
		waited(minute)
		third := r.send(askFor(ana))
		waited(81 * time.Second)
		if fourth := r.send(askFor(ana)); fourth.View.ID == third.View.ID {
			t.Error("with 19 of 100 s left a resend opens a new verification")
		}
	})
}

func TestResendOfAnotherApp(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.send(askFor(ana))
		stranger := Caller{App: "elsewhere", Kind: Secret}
		if _, err := r.svc.Send(r.Context(), Ask{Caller: stranger, Resend: first.View.ID}); !errors.Is(err, ErrNotFound) {
			t.Errorf("Send: %v", err)
		}
		if _, err := r.svc.Get(r.Context(), stranger, first.View.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		if _, err := r.svc.Check(r.Context(), stranger, first.View.ID, "000000"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Check: %v", err)
		}
		if v := r.get(first.View.ID); v.AttemptsRemaining != maxAttempts {
			t.Errorf("a stranger burned a try: %d left", v.AttemptsRemaining)
		}
	})
}
