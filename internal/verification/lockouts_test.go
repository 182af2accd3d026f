package verification_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// apart are rules for apps with both kinds of key, as docs/policies.md has them.
var apart = vtest.WithRules(
	quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	quota.Rule{Name: "browser_hour", Scope: quota.Recipient.OfBrowsers(), Limit: 3, Window: time.Hour},
	quota.Rule{Name: "browser_day", Scope: quota.Recipient.OfBrowsers(), Limit: 6, Window: 24 * time.Hour},
)

func byBrowser(to string) verification.Ask {
	return verification.Ask{Caller: vtest.Browser, Channel: "email", To: to, Locale: "en"}
}

// A browser that asks for codes for another person and enters wrong ones stops neither their back end's sends nor its checks.
func TestABrowserLocksOutNoBackEnd(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(apart), func(r *vtest.Rig) {
		var ids []string
		for range 3 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.Guess(vtest.Browser, 20, ids...)
		if a := r.Refuse(byBrowser(vtest.Ana)); a.Quota.Violated()[0] != "browser_hour" {
			t.Errorf("refused by %v", a.Quota.Violated())
		}
		own := r.SendTo(vtest.Ana)
		r.WantApproved(own.View.ID, r.LastCode())
		r.Sleep(time.Hour)
		fourth := r.Send(byBrowser(vtest.Ana))
		r.Guess(vtest.Browser, 5, fourth.View.ID)
		fifth := func() time.Duration { return r.WantLockedOut(byBrowser(vtest.Ana)) }
		if wait := fifth(); wait != 23*time.Hour+10*time.Minute {
			t.Errorf("the wait is %v", wait)
		}
		r.Sleep(time.Second)
		if wait := fifth(); wait != 23*time.Hour+10*time.Minute-time.Second {
			t.Errorf("a second later, the wait is %v", wait)
		}
		ask := byBrowser(vtest.Ana)
		ask.Resend = fourth.View.ID
		fifth()
		r.Sleep(verification.LockoutRemembered) // so that the log decides
		fifth()
		for range 4 { // none of these refusals took a place of the back end's
			own := r.SendTo(vtest.Ana)
			r.WantApproved(own.View.ID, r.LastCode())
		}
		r.Sleep(2 * time.Minute) // the outbox writes them
		rows := 0
		for _, s := range r.Rows() {
			if s.BlockedBy == verification.ChecksRule {
				rows += s.Count
			}
		}
		if rows != 4 {
			t.Errorf("%d refusals are in the log", rows)
		}
		r.Sleep(23*time.Hour + 10*time.Minute)
		r.Send(byBrowser(vtest.Ana))
	})
}

func from(ip string) verification.Caller {
	c := vtest.Browser
	c.IP = netip.MustParseAddr(ip)
	return c
}

// 10,000 wrong codes from 1,000 networks, for recipients of the attackers' own: no honest caller is stopped, people are alarmed, and
// browsers' new codes are longer until it is over.
func TestAnAppUnderAttack(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(wide), func(r *vtest.Rig) {
		ears := r.CountChecks()
		honest := from("203.0.113.7")
		approve := func(what string, ask verification.Ask, length int) {
			t.Helper()
			id := r.Send(ask).View.ID
			code := r.LastCode()
			if len(code) != length || r.Get(id).Code.Length != length {
				t.Errorf("%s: a code of %d characters, want %d", what, len(code), length)
			}
			if c, _, _ := r.Try(ask.Caller, id, code); !c.Valid {
				t.Errorf("%s: the right code: %+v", what, c)
			}
		}
		both := func(length int) {
			t.Helper()
			ask := byBrowser("honest@example.com")
			ask.Caller = honest
			approve("a browser", ask, length)
			approve("a back end", vtest.AskFor("honest@example.com"), 6)
		}
		compared := 0
		for n := range 1000 {
			attacker := from(fmt.Sprintf("10.%d.%d.9", n/250, n%250))
			for i := range 2 {
				ask := byBrowser(fmt.Sprintf("r%d-%d@attacker.example", n, i))
				ask.Caller = attacker
				compared += r.Guess(attacker, 5, r.Send(ask).View.ID)
			}
			if n%250 == 100 {
				both(6)
			}
		}
		if compared != 10_000 {
			t.Errorf("%d wrong codes were compared", compared)
		}
		both(8)
		extra := byBrowser("more@attacker.example")
		extra.Caller = from("10.9.9.9")
		r.Guess(extra.Caller, 5, r.Send(extra).View.ID)
		if ears.Bounds["app"] == 0 || ears.Bounds["network"] != 0 || ears.Outcomes["refused"] != 0 {
			t.Errorf("the bounds were met %v, checks %v", ears.Bounds, ears.Outcomes)
		}
		alarms := func() int { return strings.Count(r.Printed.String(), "level=ERROR msg=\"codes are being guessed") }
		if alarms() != 1 {
			t.Errorf("%d alarms", alarms())
		}
		r.Sleep(time.Minute)
		if r.Guess(extra.Caller, 1, r.Send(extra).View.ID); alarms() != 2 {
			t.Errorf("%d alarms a minute later", alarms())
		}
		r.Sleep(time.Hour)
		both(6)
	})
}

// A code that is long already, and one that is only sent again, stay as they are.
func TestLengthsUnderAttack(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		wide(s)
		long := s.Purposes["login"]
		long.CodeLength = 9
		s.Purposes["login"] = long
		s.Checks = vtest.Checks
		s.Checks.App.Limit = 5
	}, func(r *vtest.Rig) {
		before := r.Send(byBrowser("early@example.com"))
		r.Guess(vtest.Browser, 5, r.Send(byBrowser("attacker@example.com")).View.ID)
		ask := byBrowser("early@example.com")
		ask.Resend = before.View.ID
		if a := r.Send(ask); a.View.ID != before.View.ID || len(r.LastCode()) != 6 {
			t.Errorf("sent again: %d characters", len(r.LastCode()))
		}
		ask = byBrowser(vtest.Ana)
		ask.Purpose = "login"
		if r.Send(ask); len(r.LastCode()) != 9 {
			t.Errorf("a long code has %d characters", len(r.LastCode()))
		}
		a := r.Send(byBrowser(vtest.Ana))
		if len(r.LastCode()) != 8 || len(a.Quota.Rules) != 3 || len(r.Rows()[3].Observed) != 0 {
			t.Errorf("%d characters; rules %+v", len(r.LastCode()), a.Quota.Rules)
		}
	})
}

// A rule for browsers counts and refuses them alone, also while the limiter is away, and a failed send gives its place back.
func TestRulesOfBrowsers(t *testing.T) {
	only := func(s *vtest.Settings) {
		wide(s)
		vtest.AlsoRules(quota.Rule{Name: "browsers", Scope: quota.Recipient.OfBrowsers(), Limit: 2, Window: time.Hour})(s)
	}
	check := func(r *vtest.Rig) {
		r.Helper()
		r.SendTo(vtest.Ana)
		r.SendTo(vtest.Ana)
		if a := r.SendTo(vtest.Ana); len(a.Quota.Rules) != 1 {
			r.Errorf("a secret key hears %+v", a.Quota.Rules)
		}
		r.Send(byBrowser(vtest.Ana))
		r.Send(byBrowser(vtest.Ana))
		if a := r.Refuse(byBrowser(vtest.Ana)); a.Quota.Violated()[0] != "browsers" {
			r.Errorf("refused by %v", a.Quota.Violated())
		}
		r.SendTo(vtest.Ana)
		r.Send(byBrowser("bob@example.com"))
	}
	vtest.InBubbleWith(t, only, func(r *vtest.Rig) {
		check(r)
		r.NoError(r.Svc.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.Send(byBrowser(vtest.Ana))
	})
	vtest.InBubbleWith(t, only, func(r *vtest.Rig) {
		r.LoseLimiter()
		check(r)
		r.EmptyLimiter()
		r.Sleep(time.Hour)
		for range 3 { // none of these was delivered
			r.MailServer.Answer(vtest.NoMailbox)
			r.Send(byBrowser(vtest.Ana))
			r.Sleep(2 * time.Second)
		}
		r.Send(byBrowser(vtest.Ana))
		r.Send(byBrowser(vtest.Ana))
		r.Refuse(byBrowser(vtest.Ana))
	})
}

// Each kind's lockout is told to the administrator. A browser that names a back end's verification goes by the back end's.
func TestLockoutsAreOfTheKindThatOpened(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		h, _ := r.Svc.Desk.Hash("email", vtest.Ana)
		told := func() (kinds []bool) {
			all, err := r.Svc.Lockouts(r.Context(), "shop", "email", h)
			r.NoError(err)
			for _, out := range all {
				kinds = append(kinds, out.ByBrowser)
			}
			return kinds
		}
		for range 4 {
			r.Guess(vtest.Browser, 5, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		r.WantLockedOut(byBrowser(vtest.Ana))
		id := r.SendTo(vtest.Ana).View.ID
		named := byBrowser("")
		named.Channel, named.Resend = "", id
		if a := r.Send(named); a.View.ID != id || a.View.Send.Number != 2 {
			t.Errorf("a browser that names it: %+v", a.View)
		}
		if kinds := told(); !slices.Equal(kinds, []bool{true}) {
			t.Errorf("locked out: %v", kinds)
		}
		for i := range 4 {
			ask := vtest.AskFor(vtest.Ana)
			ask.Session = fmt.Sprint(i)
			r.Guess(vtest.BackEnd, 5, r.Send(ask).View.ID)
		}
		if kinds := told(); !slices.Equal(kinds, []bool{true, false}) {
			t.Errorf("locked out: %v", kinds)
		}
	})
}

// ended is a log in which a lockout has ended between the try that met it and the look at it.
type ended struct{ *sqlite.DB }

func (ended) LockedOut(context.Context, store.Verification) (store.Lockout, error) {
	return store.Lockout{}, nil
}

// A check that meets a lockout is told a wait, also where it has just ended. The lockout is known to sends then: the log is not asked again.
func TestACheckMeetsALockout(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		for _, id := range ids[1:] {
			r.Guess(vtest.Browser, 5, id)
		}
		check := func(s *vtest.Service) time.Duration {
			_, err := s.Check(r.Context(), vtest.Browser, ids[0], "000000")
			var barred *verification.TooManyChecksError
			if !errors.As(err, &barred) {
				t.Fatal(err)
			}
			return barred.RetryAfter
		}
		if wait := check(r.ReplicaOn(ended{r.Store}, r.MailServer, r.Carrier)); wait != time.Second {
			t.Errorf("a lockout that has ended: wait %v", wait)
		}
		if wait := check(r.Svc); wait < 23*time.Hour {
			t.Errorf("wait %v", wait)
		}
		r.Store.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" {
				t.Error("a send asks the log")
			}
			return sqlite.None
		})
		r.WantLockedOut(byBrowser(vtest.Ana))
		r.MendStore()
	})
}

// The check that reaches an app's bound is within it: the next one alarms. A right code takes its own count back, so it never does.
func TestAnAppsBoundIsPassedByTheNextFailure(t *testing.T) {
	three := func(s *vtest.Settings) {
		s.Checks = vtest.Checks
		s.Checks.App.Limit = 3
	}
	vtest.InBubbleWith(t, three, func(r *vtest.Rig) {
		ears := r.CountChecks()
		browser := from("203.0.113.7")
		ask := byBrowser("ana@example.com")
		ask.Caller = browser
		id := r.Send(ask).View.ID
		r.Guess(browser, 2, id)
		if c, _, _ := r.Try(browser, id, r.LastCode()); !c.Valid { // the third, while it is compared
			t.Errorf("the right code: %+v", c)
		}
		other := byBrowser("bea@example.com")
		other.Caller = browser
		id = r.Send(other).View.ID
		if r.Guess(browser, 1, id); ears.Bounds["app"] != 0 {
			t.Errorf("%d alarms at the bound", ears.Bounds["app"])
		}
		if r.Guess(browser, 1, id); ears.Bounds["app"] != 1 {
			t.Errorf("%d alarms over the bound", ears.Bounds["app"])
		}
	})
}
