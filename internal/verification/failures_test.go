package verification_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// wide lets any number of codes be sent: what is refused is refused for another reason.
func wide(s *vtest.Settings) {
	for name, p := range s.Purposes {
		p.Policy.Rules = []quota.Rule{{Name: "wide", Scope: quota.Recipient, Limit: 10_000, Window: time.Hour}}
		s.Purposes[name] = p
	}
}

// Resends, new verifications, other sessions, other purposes, canceling: of a recipient's codes that callers of one kind asked
// for, 20 wrong ones are compared in a day, however they are asked for.
func TestGuessesOfOneRecipientADay(t *testing.T) {
	for name, asks := range map[string]func(n int) verification.Ask{
		"browsers": func(n int) verification.Ask {
			return verification.Ask{Caller: vtest.Browser, Channel: "email", To: vtest.Ana, Purpose: []string{"", "login"}[n%2]}
		},
		"secret keys": func(n int) verification.Ask {
			ask := vtest.AskFor(vtest.Ana)
			ask.Session, ask.Purpose = fmt.Sprint(n), []string{"", "login"}[n%2]
			return ask
		},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.MinuteTick(wide), func(r *vtest.Rig) {
				guess := func() (compared int) {
					for n := range 12 {
						a, err := r.Svc.Send(r.Context(), asks(n))
						var locked *verification.TooManyChecksError
						if errors.As(err, &locked) {
							continue
						}
						if err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						code := vtest.CodeIn(r.MailServer.All()[len(r.MailServer.All())-1])
						for range verification.MaxAttempts {
							if _, was, _ := r.Try(vtest.BackEnd, a.View.ID, vtest.WrongCode(code)); was {
								compared++
							}
						}
						if _, err := r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID); err != nil {
							t.Fatal(err)
						}
					}
					return compared
				}
				a := r.Send(asks(100))
				code := vtest.CodeIn(r.MailServer.All()[len(r.MailServer.All())-1])
				if n := guess(); n != gate.FailureLimit {
					t.Fatalf("%d wrong codes were compared", n)
				}
				_, compared, wait := r.Try(vtest.BackEnd, a.View.ID, code)
				if compared || wait != 24*time.Hour+10*time.Minute {
					t.Fatalf("the right code at the bound: compared %t, wait %v", compared, wait)
				}
				if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
					t.Errorf("a refused check cost a try: %d left", v.AttemptsRemaining)
				}
				r.Sleep(wait - time.Microsecond)
				if n := guess(); n != 0 {
					t.Errorf("1 µs early, %d were compared", n)
				}
				r.Sleep(time.Microsecond)
				if n := guess(); n != gate.FailureLimit {
					t.Errorf("on the next day, %d were compared", n)
				}
			})
		})
	}
}

func TestFailuresOfANetwork(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		fail := func(c verification.Caller, n int) (compared int, wait time.Duration) {
			for i := range n {
				id := r.Send(vtest.AskFor(fmt.Sprintf("r%d-%d@example.com", i/4, time.Now().UnixNano()))).View.ID
				r.Sleep(time.Microsecond)
				code := vtest.CodeIn(r.MailServer.All()[len(r.MailServer.All())-1])
				_, was, w := r.Try(c, id, vtest.WrongCode(code))
				if was {
					compared++
				}
				wait = max(wait, w)
			}
			return compared, wait
		}
		elsewhere, unnamed := vtest.Browser, vtest.BackEnd
		elsewhere.IP, unnamed.IP = netip.MustParseAddr("198.51.100.7"), netip.Addr{}
		if n, wait := fail(vtest.Browser, 105); n != 100 || wait <= 59*time.Minute || wait > time.Hour {
			t.Fatalf("%d compared, wait %v", n, wait)
		}
		if n, _ := fail(elsewhere, 1); n != 1 {
			t.Error("another network is held up")
		}
		if n, _ := fail(unnamed, 1); n != 1 {
			t.Error("a back end that names no client is held up")
		}
		right := r.SendTo(vtest.Ana)
		code := vtest.CodeIn(r.MailServer.All()[len(r.MailServer.All())-1])
		if _, compared, _ := r.Try(vtest.Browser, right.View.ID, code); compared {
			t.Error("a right code was compared from a network over its limit")
		}
		if v := r.Get(right.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a refused check cost a try: %d left", v.AttemptsRemaining)
		}
		r.Sleep(time.Hour)
		if n, _ := fail(vtest.Browser, 1); n != 1 {
			t.Error("held up after the hour")
		}
	})
}

// Right codes, ended ones and checks that the log did not take leave no failure behind.
func TestWhatIsNoFailure(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		used := func() int {
			checks := r.Svc.Terms().ChecksOrDefault()
			d, err := r.Limiter.Peek(r.Context(), quota.Request{Rules: []quota.Rule{checks.Network, checks.WideNetwork, checks.App},
				Buckets: map[quota.Scope]string{
					quota.App: quota.Bucket("shop", "email", "checks", "app"), quota.IP: quota.Bucket("shop", "email", "checks", "ip", "192.0.2.1/32"),
					quota.Network: quota.Bucket("shop", "email", "checks", "network", "192.0.2.0/24"),
				}})
			if err != nil || d.Rules[0].Used != d.Rules[1].Used || d.Rules[1].Used != d.Rules[2].Used {
				t.Fatalf("%+v %v", d, err)
			}
			return d.Rules[0].Used
		}
		is := func(want int, what string) {
			t.Helper()
			r.Sleep(time.Minute)
			if n := used(); n != want {
				t.Errorf("%s: %d failures, want %d", what, n, want)
			}
		}
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Check(a.View.ID, vtest.WrongCode(code))
		is(1, "a wrong code")
		r.Check(a.View.ID, code)
		is(1, "the right code")
		r.Check(a.View.ID, vtest.WrongCode(code))
		is(1, "an ended code")
		b := r.SendTo(vtest.Ana)
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Attempt" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if _, err := r.Svc.Check(r.Context(), vtest.BackEnd, b.View.ID, "000000"); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
		is(1, "a check that the log did not take")
		r.Store.SetFault(nil)
		if _, err := r.Svc.Check(r.Context(), vtest.BackEnd, "unknown", "000000"); !errors.Is(err, verification.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		is(1, "an unknown ID")
	})
}

// Without the limiter the log goes on alone: codes can be checked, and the recipient's bound holds.
func TestChecksWithoutTheLimiter(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		r.Limiter.Set(vtest.DownLimiter{})
		compared := 0
		var ids []string
		for range 6 {
			ids = append(ids, r.Send(verification.Ask{Caller: vtest.Browser, Channel: "email", To: vtest.Ana}).View.ID)
		}
		for _, id := range ids {
			for range verification.MaxAttempts {
				if _, was, _ := r.Try(vtest.Browser, id, "000000"); was {
					compared++
				}
			}
		}
		if compared != gate.FailureLimit {
			t.Errorf("%d compared", compared)
		}
		r.Limiter.Set(quota.NewMemory(time.Now, "process"))
	})
}
