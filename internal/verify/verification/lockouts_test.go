package verification_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// reserved has rules that keep places for secret keys and known browsers.
var reserved = vtest.WithReserve(map[string]int{"hour": 2, "day": 4}, vtest.WithRules(
	quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
))

func byBrowser(to string, options ...vtest.Option) verification.Request {
	return vtest.AskFor(to, append(options, vtest.By(vtest.Browser))...)
}

// boundedApp admits many sends, and bounds the failed checks of an app.
func boundedApp(limit int) func(*vtest.Settings) {
	return func(s *vtest.Settings) {
		wide(s)
		s.Checks = vtest.Checks
		s.Checks.App.Limit = limit
	}
}

func from(ip string) verification.Caller {
	c := vtest.Browser
	c.IP = netip.MustParseAddr(ip)
	return c
}

// Attackers enter as many wrong codes as the app's bound allows, from many networks, for recipients
// of their own. No honest caller is refused, an alarm is logged, and new codes for browsers are
// longer until the attack ends.
func TestAppFailureBoundUnderAttack(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(boundedApp(500)), func(r *vtest.Rig) {
		honest := from("203.0.113.7")
		approve := func(what string, ask verification.Request, length int) {
			t.Helper()
			id := r.Send(ask).View.ID
			code := r.LastCode()
			vtest.Equal(r, what+": characters", len(code), length)
			vtest.Equal(r, what+": characters: Length", r.Get(id).CodeFormat.Length, length)
			c, _, _ := r.Try(ask.Caller, id, code)
			r.WantChecked(what, c, verification.Approved, true)
		}
		both := func(length int) {
			t.Helper()
			approve("a browser", vtest.AskFor("honest@example.com", vtest.By(honest)), length)
			approve("a back end", vtest.AskFor("honest@example.com"), 6)
		}
		compared := 0
		for n := range 50 {
			attacker := from(fmt.Sprintf("10.0.%d.9", n))
			for i := range 2 {
				own := r.SendTo(fmt.Sprintf("r%d-%d@attacker.example", n, i), vtest.By(attacker))
				compared += r.Guess(attacker, 5, own.View.ID)
			}
			if n%20 == 10 {
				both(6)
			}
		}
		r.Want("wrong codes compared", compared, 500)
		r.Sleep(time.Minute)
		both(8)
		extra := vtest.AskFor("more@attacker.example", vtest.By(from("10.9.9.9")))
		r.Guess(extra.Caller, 5, r.Send(extra).View.ID)
		r.Sleep(time.Minute)
		vtest.Equal(r, "bounds met, and refusals", r.Metrics.Take("bound app") > 0, true)
		vtest.Equal(r, "bounds met, and refusals", r.Metrics.Take("bound network"), 0)
		vtest.Equal(r, "bounds met, and refusals", r.Metrics.Take("checked refused"), 0)
		alarms := func() int {
			return strings.Count(r.Printed.String(), "level=ERROR msg=\"failed checks exceed the app")
		}
		r.Want("alarms", alarms(), 1)
		r.Guess(extra.Caller, 1, r.Send(extra).View.ID)
		r.Sleep(time.Minute)
		r.Want("alarms a minute later", alarms(), 2)
		r.Sleep(time.Hour)
		both(6)
	})
}

// A code that is already long, and a code that is only sent again, keep their lengths.
func TestCodeLengthUnderAttack(t *testing.T) {
	vtest.InForms(t, vtest.DefaultTick(func(s *vtest.Settings) {
		boundedApp(5)(s)
		long := s.Purposes["login"]
		long.CodeLength = 9
		s.Purposes["login"] = long
	}), func(r *vtest.Rig) {
		before := r.Send(byBrowser("early@example.com"))
		r.Guess(vtest.Browser, 5, r.Send(byBrowser("attacker@example.com")).View.ID)
		r.Sleep(time.Second)
		again := r.Send(byBrowser("early@example.com", vtest.Resending(before.View.ID)))
		vtest.Equal(r, "sent again: ID", again.View.ID, before.View.ID)
		vtest.Equal(r, "sent again: characters", len(r.LastCode()), 6)
		r.Send(byBrowser(vtest.Ana, vtest.For("login")))
		r.Want("a long code", len(r.LastCode()), 9)
		a := r.Send(byBrowser(vtest.Ana))
		vtest.Equal(r, "characters", len(r.LastCode()), 8)
		vtest.Equal(r, "rules", len(a.Quota.Rules), 3)
		vtest.Equal(r, "observed", len(r.Rows()[3].Observed), 0)
	})
}

// Unknown browsers, and back ends that act for strangers, get at most the limit less the reserve,
// and every figure in their answers says so, even while the limiter is away. A secret key can then
// use the rest.
func TestReserve(t *testing.T) {
	for _, alone := range []bool{false, true} {
		for _, by := range []verification.Caller{vtest.Browser, vtest.ForStranger} {
			vtest.InBubbleWith(t, vtest.MinuteTick(reserved), func(r *vtest.Rig) {
				if alone {
					r.LoseLimiter()
				}
				ask := vtest.AskFor(vtest.Ana, vtest.By(by))
				wantFigures := func(what string, d quota.Decision, want string) {
					t.Helper()
					var figures []string
					for _, s := range d.Rules {
						if s.Scope == quota.Recipient {
							figures = append(figures, fmt.Sprintf("%s %d/%d", s.Name, s.Remaining(), s.Limit))
						}
					}
					r.Want(what, figures, want)
				}
				all := func(exact, own int) int { // a browser learns only of its own send
					if by.Kind == verification.Browser {
						return own
					}
					return exact
				}
				id := r.Send(ask).View.ID
				r.Send(ask)
				wantFigures("the third", r.Send(ask).Quota, fmt.Sprintf("[hour 0/3 day %d/6]", all(3, 5)))
				refused := r.Refuse(ask).Quota
				r.Want("refused by", refused.Violated(), []string{"hour"})
				vtest.Equal(r, "for", refused.RetryAfter(), time.Hour)
				wantFigures("a secret key", r.SendTo(vtest.Ana).Quota, "[hour 1/5 day 6/10]")
				wantFigures("a secret key", r.SendTo(vtest.Ana).Quota, "[hour 0/5 day 5/10]")
				look, err := r.Svc.Get(r.Context(), by, id)
				r.NoError(err)
				wantFigures("a look, with more used than the limit", look.Quota, fmt.Sprintf("[hour 0/3 day %d/6]", all(1, 5)))
				r.Want("a secret key's wait", r.RefuseTo(vtest.Ana).Quota.RetryAfter(), time.Hour)
				r.Sleep(time.Hour)
				wantFigures("after the wait", r.Send(ask).Quota, "[hour 2/3 day 0/6]")
				r.Want("refused by", r.Refuse(ask).Quota.Violated(), "[day]")
				if !alone {
					r.MailServer.Answer(vtest.NoMailbox)
					r.SendTo(vtest.Ana) // this send fails, so its place is given back
					r.Want("left", vtest.Remaining(r.QuotaAt(r.Svc)), "[4 4]")
				}
			})
		}
	}
}

// If a back end acts for strangers, their wrong codes and their lockout don't affect the
// verification that it opened for a person it knows. Their requests don't send that verification's
// code again.
func TestABackEndForStrangers(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		own, forStranger := r.SendTo(vtest.Ana).View.ID, vtest.By(vtest.ForStranger)
		for range 4 {
			r.Guess(vtest.ForStranger, 5, r.SendTo(vtest.Ana, forStranger).View.ID)
		}
		r.WantLockedOut(vtest.AskFor(vtest.Ana, forStranger))
		vtest.Equal(r, "the back end's own: ID", r.SendTo(vtest.Ana).View.ID, own)
		vtest.Equal(r, "the back end's own: Number", r.Get(own).Send.Number, 2)
		r.WantApproved(own, r.LastCode())
	})
}

// A lockout counts for the class of the caller that opened the verifications, even if a caller of
// another class enters the codes. It refuses no sends of another class. An administrator sees the
// lockout of each class.
func TestLockoutsAreOfTheClassThatOpened(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		h, _ := r.Svc.Administration.HashRecipient("email", vtest.Ana)
		lockedOutClasses := func() (classes []store.Class) {
			all, err := r.Svc.Administration.Lockouts(r.Context(), "shop", "email", h)
			r.NoError(err)
			for _, out := range all {
				classes = append(classes, out.Class)
			}
			return classes
		}
		pending := r.Send(byBrowser(vtest.Ana)).View.ID
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		_, compared, wait := r.Try(vtest.BackEnd, pending, "000000")
		vtest.Equal(r, "a back end's check of a browser's code: compared", compared, false)
		vtest.Equal(r, "a back end's check of a browser's code: wait", wait, 24*time.Hour)
		r.FailStore(sqlitetest.Down, "Begin") // the lockout is cached, so sends do not call the database
		r.WantLockedOut(byBrowser(vtest.Ana))
		r.EndStoreFaults()
		r.SendTo(vtest.Ana)
		r.Want("locked out", lockedOutClasses(), "[unknown]")
		for i := range 4 {
			r.Guess(vtest.BackEnd, 5, r.SendTo(vtest.Ana, vtest.InSession(fmt.Sprint(i))).View.ID)
		}
		r.Want("locked out", lockedOutClasses(), "[ unknown]")
	})
}

// Strangers who are locked out take no place of the recipient, however long they go on. When the
// lockout must be read again, it is read before the limiter counts. The first send during the
// lockout, which only the database refused, gives its place back. After a reset by another process,
// strangers are admitted within seconds.
func TestLockedOutStrangersTakeNoPlace(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DefaultTick(wide), func(r *vtest.Rig) {
		stranger := byBrowser(vtest.Ana)
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(stranger).View.ID)
		}
		r.WantLockedOut(stranger)
		r.Sleep(time.Second) // meanwhile the wrong codes are counted
		takes := 0
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "Take" {
				takes++
			}
			return do()
		})
		for range 20 {
			r.Sleep(verification.LockoutRemembered / 3)
			r.WantLockedOut(stranger)
		}
		vtest.Equal(r, "calls that take a place", takes, 0)
		vtest.Equal(r, "the places of the four codes", r.Counted().Rules[0].Used, 4)
		other := r.Replica(r.MailServer)
		r.NoError(other.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		r.WantLockedOut(stranger)
		r.Sleep(verification.LockoutRemembered)
		r.Want("refusals in the database", r.RowBlockedBy(policy.LockoutName, "email", vtest.Ana).Count, 22)
		r.Send(stranger)
		r.Send(stranger)
	})
}

// The check that reaches an app's bound is still within it; the next check raises the alarm. A
// right code does not count.
func TestAppFailureBoundAlarm(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DefaultTick(boundedApp(3)), func(r *vtest.Rig) {
		id := r.SendTo(vtest.Ana).View.ID
		r.Guess(vtest.BackEnd, 2, id)
		r.WantApproved(id, r.LastCode())
		id = r.SendTo("bea@example.com").View.ID
		r.Guess(vtest.BackEnd, 1, id)
		r.Sleep(time.Second)
		r.Want("alarms at the bound", r.Metrics.Take("bound app"), 0)
		r.Guess(vtest.BackEnd, 1, id)
		r.Sleep(time.Second)
		r.Want("alarms over the bound", r.Metrics.Take("bound app"), 1)
	})
}

// Checks do not wait for the count of an app's wrong codes, and a stop loses none of the counts.
// Once the bound is exceeded, the limiter is called once for all wrong codes of a run.
func TestWrongCodesAreCountedInTheBackground(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(boundedApp(3)), func(r *vtest.Rig) {
		for i, want := range []struct{ takes, alarms int }{{4, 2}, {1, 5}} {
			id, takes := r.SendTo(vtest.NthAddress(i)).View.ID, 0
			r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
				if call == "Take" {
					takes++
				}
				return do()
			})
			noIP := vtest.BackEnd
			noIP.IP = netip.Addr{}
			r.Guess(noIP, 5, id)
			r.Want("counted before the answers", takes, 0)
			if i == 0 {
				r.Sleep(time.Minute)
			} else {
				r.Quit()
			}
			vtest.Equal(r, "takes", takes, want.takes)
			vtest.Equal(r, "alarms", r.Metrics.Take("bound app"), want.alarms)
		}
	})
}
