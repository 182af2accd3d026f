package verification

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// wide lets any number of codes be sent: what is refused is refused for another reason.
func wide(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy.Rules = []quota.Rule{{Name: "wide", Scope: quota.Recipient, Limit: 10_000, Window: time.Hour}}
		s.Purposes[name] = p
	}
}

// try checks once, and says whether a code was compared.
func (r *rig) try(c Caller, id, code string) (checked Checked, compared bool, wait time.Duration) {
	r.Helper()
	checked, err := r.svc.Check(r.Context(), c, id, code)
	var many *TooManyChecksError
	switch {
	case errors.As(err, &many):
		return checked, false, many.RetryAfter
	case err != nil:
		r.Fatalf("Check: %v", err)
	}
	return checked, !checked.uncompared && (checked.State == Pending || checked.State == MaxAttemptsReached || checked.Valid), 0
}

// Resends, new verifications, other sessions, other purposes, canceling: of a recipient's codes that callers of one kind asked
// for, 20 wrong ones are compared in a day, however they are asked for.
func TestGuessesOfOneRecipientADay(t *testing.T) {
	for name, asks := range map[string]func(n int) Ask{
		"browsers": func(n int) Ask {
			return Ask{Caller: browser, Channel: "email", To: ana, Purpose: []string{"", "login"}[n%2]}
		},
		"secret keys": func(n int) Ask {
			ask := askFor(ana)
			ask.Session, ask.Purpose = fmt.Sprint(n), []string{"", "login"}[n%2]
			return ask
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, seldom(wide), func(r *rig) {
				guess := func() (compared int) {
					for n := range 12 {
						a, err := r.svc.Send(r.Context(), asks(n))
						var locked *TooManyChecksError
						if errors.As(err, &locked) {
							continue
						}
						if err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						code := codeIn(r.post.all()[len(r.post.all())-1])
						for range maxAttempts {
							if _, was, _ := r.try(backEnd, a.View.ID, wrongFor(code)); was {
								compared++
							}
						}
						if _, err := r.svc.Cancel(r.Context(), backEnd, a.View.ID); err != nil {
							t.Fatal(err)
						}
					}
					return compared
				}
				a := r.send(asks(100))
				code := codeIn(r.post.all()[len(r.post.all())-1])
				if n := guess(); n != gate.FailureLimit {
					t.Fatalf("%d wrong codes were compared", n)
				}
				_, compared, wait := r.try(backEnd, a.View.ID, code)
				if compared || wait != 24*time.Hour+10*minute {
					t.Fatalf("the right code at the bound: compared %t, wait %v", compared, wait)
				}
				if v := r.get(a.View.ID); v.AttemptsRemaining != maxAttempts {
					t.Errorf("a refused check cost a try: %d left", v.AttemptsRemaining)
				}
				waited(wait - time.Microsecond)
				if n := guess(); n != 0 {
					t.Errorf("1 µs early, %d were compared", n)
				}
				waited(time.Microsecond)
				if n := guess(); n != gate.FailureLimit {
					t.Errorf("on the next day, %d were compared", n)
				}
			})
		})
	}
}

func TestFailuresOfANetwork(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		fail := func(c Caller, n int) (compared int, wait time.Duration) {
			for i := range n {
				id := r.send(askFor(fmt.Sprintf("r%d-%d@example.com", i/4, time.Now().UnixNano()))).View.ID
				waited(time.Microsecond)
				code := codeIn(r.post.all()[len(r.post.all())-1])
				_, was, w := r.try(c, id, wrongFor(code))
				if was {
					compared++
				}
				wait = max(wait, w)
			}
			return compared, wait
		}
		elsewhere, nobody := browser, backEnd
		elsewhere.IP, nobody.IP = netip.MustParseAddr("198.51.100.7"), netip.Addr{}
		if n, wait := fail(browser, 105); n != 100 || wait <= 59*minute || wait > time.Hour {
			t.Fatalf("%d compared, wait %v", n, wait)
		}
		if n, _ := fail(elsewhere, 1); n != 1 {
			t.Error("another network is held up")
		}
		if n, _ := fail(nobody, 1); n != 1 {
			t.Error("a back end that names no client is held up")
		}
		right := r.send(askFor(ana))
		code := codeIn(r.post.all()[len(r.post.all())-1])
		if _, compared, _ := r.try(browser, right.View.ID, code); compared {
			t.Error("a right code was compared from a network over its limit")
		}
		if v := r.get(right.View.ID); v.AttemptsRemaining != maxAttempts {
			t.Errorf("a refused check cost a try: %d left", v.AttemptsRemaining)
		}
		waited(time.Hour)
		if n, _ := fail(browser, 1); n != 1 {
			t.Error("held up after the hour")
		}
	})
}

// Right codes, ended ones and checks that the log did not take leave no failure behind.
func TestWhatIsNoFailure(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		used := func() int {
			checks := r.svc.Terms().checks()
			d, err := r.svc.limits.Peek(r.Context(), quota.Request{Rules: []quota.Rule{checks.Network, checks.WideNetwork, checks.App}, Buckets: map[quota.Scope]string{
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
			waited(minute)
			if n := used(); n != want {
				t.Errorf("%s: %d failures, want %d", what, n, want)
			}
		}
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		r.check(a.View.ID, wrongFor(code))
		is(1, "a wrong code")
		r.check(a.View.ID, code)
		is(1, "the right code")
		r.check(a.View.ID, wrongFor(code))
		is(1, "an ended code")
		b := r.send(askFor(ana))
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Attempt" {
				return sqlite.Down
			}
			return sqlite.None
		})
		if _, err := r.svc.Check(r.Context(), backEnd, b.View.ID, "000000"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without the log: %v", err)
		}
		is(1, "a check that the log did not take")
		r.log.SetFault(nil)
		if _, err := r.svc.Check(r.Context(), backEnd, "unknown", "000000"); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		is(1, "an unknown ID")
	})
}

// Without the limiter the log goes on alone: codes can be checked, and the recipient's bound holds.
func TestChecksWithoutTheLimiter(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		r.limiter.set(noLimiter{})
		compared := 0
		var ids []string
		for range 6 {
			ids = append(ids, r.send(Ask{Caller: browser, Channel: "email", To: ana}).View.ID)
		}
		for _, id := range ids {
			for range maxAttempts {
				if _, was, _ := r.try(browser, id, "000000"); was {
					compared++
				}
			}
		}
		if compared != gate.FailureLimit {
			t.Errorf("%d compared", compared)
		}
		r.limiter.set(quota.NewMemory(time.Now, "process"))
	})
}
