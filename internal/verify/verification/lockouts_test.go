package verification_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// reserved are rules that keep places for secret keys and known browsers.
var reserved = vtest.WithReserve(map[string]int{"hour": 2, "day": 4}, vtest.WithRules(
	quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
))

func byBrowser(to string, options ...vtest.Option) verification.Request {
	return vtest.AskFor(to, append(options, vtest.By(vtest.Browser))...)
}

// A browser that asks for codes for another person and enters wrong ones stops neither their back
// end's sends nor its checks.
func TestABrowserLocksOutNoBackEnd(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(reserved), func(r *vtest.Rig) {
		var ids []string
		for range 3 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.Guess(vtest.Browser, 20, ids...)
		r.Want("refused by", r.Refuse(byBrowser(vtest.Ana)).Quota.Violated(), "[hour]")
		own := r.SendTo(vtest.Ana)
		r.WantApproved(own.View.ID, r.LastCode())
		r.Sleep(time.Hour)
		fourth := r.Send(byBrowser(vtest.Ana))
		r.Guess(vtest.Browser, 5, fourth.View.ID)
		fifth := func() time.Duration { return r.WantLockedOut(byBrowser(vtest.Ana)) }
		r.Want("the wait", fifth(), "23h0m0s")
		r.Sleep(time.Second)
		r.Want("a second later", fifth(), "22h59m59s")
		r.Sleep(verification.LockoutRemembered) // so that the database decides
		fifth()
		for range 4 { // none of these refusals took a place of the back end's
			own := r.SendTo(vtest.Ana)
			r.WantApproved(own.View.ID, r.LastCode())
		}
		r.Sleep(2 * time.Minute) // the outbox writes them
		rows := 0
		for _, s := range r.Rows() {
			if s.BlockedBy == verification.LockoutRuleName {
				rows += s.Count
			}
		}
		r.Want("refusals in the database", rows, 3)
		r.Sleep(23 * time.Hour)
		r.Send(byBrowser(vtest.Ana))
	})
}

// A lockout of browsers' codes that a back end runs into, or a browser into that of a back end's,
// stops no sends of the caller's own class.
func TestALockoutIsOfTheCodesClass(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.Guess(vtest.Browser, 20, ids[:4]...)
		_, compared, wait := r.Try(vtest.AskFor(vtest.Ana).Caller, ids[4], "000000")
		r.WantLine("a back end's check", "false true", compared, wait > 0)
		r.SendTo(vtest.Ana)
		r.WantLockedOut(byBrowser(vtest.Ana))
	})
}

// boundedApp has room for sends, and bounds the failed checks of an app.
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

// As many wrong codes as the app's bound allows, from many networks, for recipients of the
// attackers' own: no honest caller is stopped, people are alarmed, and browsers' new codes are
// longer until it is over.
func TestAnAppUnderAttack(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(boundedApp(500)), func(r *vtest.Rig) {
		honest := from("203.0.113.7")
		approve := func(what string, ask verification.Request, length int) {
			t.Helper()
			id := r.Send(ask).View.ID
			code := r.LastCode()
			r.WantLine(what+": characters", vtest.Line(length, length), len(code), r.Get(id).CodeShape.Length)
			c, _, _ := r.Try(ask.Caller, id, code)
			r.WantChecked(what, c, "approved true")
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
		both(8)
		extra := vtest.AskFor("more@attacker.example", vtest.By(from("10.9.9.9")))
		r.Guess(extra.Caller, 5, r.Send(extra).View.ID)
		r.WantLine("bounds met, and refusals", "true 0 0", r.Metrics.Take("bound app") > 0, r.Metrics.Take("bound network"),
			r.Metrics.Take("checked refused"))
		alarms := func() int {
			return strings.Count(r.Printed.String(),
				"level=ERROR msg=\"failed checks exceed the app")
		}
		r.Want("alarms", alarms(), 1)
		r.Sleep(time.Minute)
		r.Guess(extra.Caller, 1, r.Send(extra).View.ID)
		r.Want("alarms a minute later", alarms(), 2)
		r.Sleep(time.Hour)
		both(6)
	})
}

// A code that is long already, and one that is only sent again, stay as they are.
func TestLengthsUnderAttack(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		boundedApp(5)(s)
		long := s.Purposes["login"]
		long.CodeLength = 9
		s.Purposes["login"] = long
	}, func(r *vtest.Rig) {
		before := r.Send(byBrowser("early@example.com"))
		r.Guess(vtest.Browser, 5, r.Send(byBrowser("attacker@example.com")).View.ID)
		again := r.Send(byBrowser("early@example.com", vtest.Resending(before.View.ID)))
		r.WantLine("sent again", before.View.ID+" 6", again.View.ID, len(r.LastCode()))
		r.Send(byBrowser(vtest.Ana, vtest.For("login")))
		r.Want("a long code", len(r.LastCode()), 9)
		a := r.Send(byBrowser(vtest.Ana))
		r.WantLine("characters, rules, observed", "8 3 []", len(r.LastCode()), len(a.Quota.Rules), r.Rows()[3].Observed)
	})
}

// Unknown browsers and back ends that act for strangers stop at the limit less the reserve, in
// every figure that they are told, also while the limiter is away. A secret key then has the rest.
func TestReserve(t *testing.T) {
	stranger := vtest.BackEnd
	stranger.Stranger = true
	for _, alone := range []bool{false, true} {
		for _, by := range []verification.Caller{vtest.Browser, stranger} {
			vtest.InBubbleWith(t, vtest.MinuteTick(reserved), func(r *vtest.Rig) {
				if alone {
					r.LoseLimiter()
				}
				ask := vtest.AskFor(vtest.Ana, vtest.By(by))
				told := func(what string, d quota.Decision, want string) {
					t.Helper()
					var figures []string
					for _, s := range d.Rules {
						if s.Scope == quota.Recipient {
							figures = append(figures, fmt.Sprintf("%s %d/%d", s.Name, s.Remaining(), s.Limit))
						}
					}
					r.Want(what, figures, want)
				}
				all := func(exact, own int) int { // a browser is told of its own send alone
					if by.Kind == verification.Browser {
						return own
					}
					return exact
				}
				id := r.Send(ask).View.ID
				r.Send(ask)
				told("the third", r.Send(ask).Quota, fmt.Sprintf("[hour 0/3 day %d/6]", all(3, 5)))
				refused := r.Refuse(ask).Quota
				r.WantLine("refused by, for", vtest.Line("[hour]", time.Hour), refused.Violated(), refused.RetryAfter())
				told("a secret key", r.SendTo(vtest.Ana).Quota, "[hour 1/5 day 6/10]")
				told("a secret key", r.SendTo(vtest.Ana).Quota, "[hour 0/5 day 5/10]")
				look, err := r.Svc.Get(r.Context(), by, id)
				r.NoError(err)
				told("a look, with more used than the limit", look.Quota, fmt.Sprintf("[hour 0/3 day %d/6]", all(1, 5)))
				r.Want("a secret key's wait", r.RefuseTo(vtest.Ana).Quota.RetryAfter(), time.Hour)
				r.Sleep(time.Hour)
				told("after the wait", r.Send(ask).Quota, "[hour 2/3 day 0/6]")
				r.Want("refused by", r.Refuse(ask).Quota.Violated(), "[day]")
				if !alone {
					r.MailServer.Answer(vtest.NoMailbox)
					r.SendTo(vtest.Ana) // it costs nothing
					r.Want("left", vtest.Remaining(r.QuotaAt(r.Svc)), "[4 4]")
				}
			})
		}
	}
}

// A back end that acts for a stranger spends no tries of those that it opens for people it knows,
// and holds none of their verifications.
func TestABackEndForStrangers(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		stranger := vtest.BackEnd
		stranger.Stranger = true
		own := r.SendTo(vtest.Ana).View.ID
		for range 4 {
			r.Guess(stranger, 5, r.Send(vtest.AskFor(vtest.Ana, vtest.By(stranger))).View.ID)
		}
		r.WantLockedOut(vtest.AskFor(vtest.Ana, vtest.By(stranger)))
		r.WantLine("the back end's own", own+" 2", r.SendTo(vtest.Ana).View.ID, r.Get(own).Send.Number)
		r.WantApproved(own, r.LastCode())
		r.WantInvalid(r.SendError(verification.Request{Caller: stranger, Resend: own}), "trust", "mismatch")
		r.WantInvalid(r.SendError(vtest.AskFor(vtest.Ana, vtest.By(stranger), vtest.InSession("s"))), "session",
			"not_allowed")
	})
}

// Each class's lockout is told to the administrator. A browser that names a back end's verification
// goes by the back end's.
func TestLockoutsAreOfTheClassThatOpened(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		h, _ := r.Svc.Desk.HashRecipient("email", vtest.Ana)
		told := func() (classes []store.Class) {
			all, err := r.Svc.Desk.Lockouts(r.Context(), "shop", "email", h)
			r.NoError(err)
			for _, out := range all {
				classes = append(classes, out.Class)
			}
			return classes
		}
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.WantLockedOut(byBrowser(vtest.Ana))
		r.SendTo(vtest.Ana)
		r.Want("locked out", told(), "[unknown]")
		for i := range 4 {
			r.Guess(vtest.BackEnd, 5, r.SendTo(vtest.Ana, vtest.InSession(fmt.Sprint(i))).View.ID)
		}
		r.Want("locked out", told(), "[ unknown]")
	})
}

// Strangers who are locked out take no place of the recipient, however long they go on: when the
// lockout has to be read again, it is read before the limiter counts. After a reset by another
// process they get in within seconds.
func TestLockedOutStrangersTakeNoPlace(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		stranger := byBrowser(vtest.Ana)
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(stranger).View.ID)
		}
		r.WantLockedOut(stranger)
		takes := 0
		r.Limiter.Around(func(_ context.Context, call string, do func() error) error {
			if call == "Take" {
				takes++
			}
			return do()
		})
		for range 20 {
			r.Sleep(verification.LockoutRemembered / 3)
			r.WantLockedOut(stranger)
		}
		r.Want("places taken", takes, 0)
		other := r.Replica(r.MailServer)
		r.NoError(other.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.WantLockedOut(stranger)
		r.Sleep(verification.LockoutRemembered)
		r.Send(stranger)
		r.Send(stranger)
	})
}

// A check that meets a lockout is told a wait. Sends know of it then, and do not ask the database
// again.
func TestACheckMeetsALockout(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		for _, id := range ids[1:] {
			r.Guess(vtest.Browser, 5, id)
		}
		_, _, wait := r.Try(vtest.Browser, ids[0], "000000")
		r.Want("the wait", wait, 24*time.Hour)
		r.Store.SetFault(func(method string) sqlitetest.Fault {
			if method == "Begin" {
				t.Error("a send asks the database")
			}
			return sqlitetest.None
		})
		r.WantLockedOut(byBrowser(vtest.Ana))
		r.MendStore()
	})
}

// The check that reaches an app's bound is within it: the next one alarms. A right code takes its
// own count back, so it never does.
func TestAnAppsBoundIsPassedByTheNextFailure(t *testing.T) {
	vtest.InBubbleWith(t, boundedApp(3), func(r *vtest.Rig) {
		id := r.SendTo(vtest.Ana).View.ID
		r.Guess(vtest.BackEnd, 2, id)
		r.WantApproved(id, r.LastCode()) // the third, while it is compared
		id = r.SendTo("bea@example.com").View.ID
		r.Guess(vtest.BackEnd, 1, id)
		r.Want("alarms at the bound", r.Metrics.Take("bound app"), 0)
		r.Guess(vtest.BackEnd, 1, id)
		r.Want("alarms over the bound", r.Metrics.Take("bound app"), 1)
	})
}
