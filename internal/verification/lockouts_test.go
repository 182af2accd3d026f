package verification

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/recipient"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// apart are rules for apps with both kinds of key, as docs/policies.md has them.
func apart(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy.Rules = []quota.Rule{
			{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
			{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
			{Name: "browser_hour", Scope: quota.Recipient.OfBrowsers(), Limit: 3, Window: time.Hour},
			{Name: "browser_day", Scope: quota.Recipient.OfBrowsers(), Limit: 6, Window: 24 * time.Hour},
		}
		s.Purposes[name] = p
	}
}

func byBrowser(to string) Ask { return Ask{Caller: browser, Channel: "email", To: to, Locale: "en"} }

// lastCode is in the mail that was sent last.
func (r *rig) lastCode() string { return codeIn(r.post.all()[len(r.post.all())-1]) }

// guess enters wrong codes and says how many were compared.
func (r *rig) guess(c Caller, n int, ids ...string) (compared int) {
	r.Helper()
	for i := range n {
		if _, was, _ := r.try(c, ids[i%len(ids)], "00000x"[:5]+fmt.Sprint(i%10)); was {
			compared++
		}
	}
	return compared
}

// locked wants a send to be refused since its code could not be checked.
func (r *rig) locked(ask Ask) (wait time.Duration) {
	r.Helper()
	mails := len(r.post.all())
	_, err := r.svc.Send(r.Context(), ask)
	var many *TooManyChecksError
	if !errors.As(err, &many) || !many.Send || many.RetryAfter <= 0 {
		r.Fatalf("Send: %v, want it locked out", err)
	}
	synctest.Wait()
	if n := len(r.post.all()); n != mails {
		r.Errorf("%d mails went out", n-mails)
	}
	return many.RetryAfter
}

// A browser that asks for codes for somebody else and enters wrong ones stops neither their back end's sends nor its checks.
func TestABrowserLocksOutNoBackEnd(t *testing.T) {
	inBubbleWith(t, seldom(apart), func(r *rig) {
		var ids []string
		for range 3 {
			ids = append(ids, r.send(byBrowser(ana)).View.ID)
		}
		r.guess(browser, 20, ids...)
		if a := r.refuse(byBrowser(ana)); a.Quota.Violated()[0] != "browser_hour" {
			t.Errorf("refused by %v", a.Quota.Violated())
		}
		own := r.send(askFor(ana))
		if c := r.check(own.View.ID, r.lastCode()); !c.Valid {
			t.Errorf("the back end's right code: %+v", c)
		}
		waited(time.Hour)
		fourth := r.send(byBrowser(ana))
		r.guess(browser, 5, fourth.View.ID)
		fifth := func() time.Duration { return r.locked(byBrowser(ana)) }
		if wait := fifth(); wait != 23*time.Hour+10*minute {
			t.Errorf("the wait is %v", wait)
		}
		waited(time.Second)
		if wait := fifth(); wait != 23*time.Hour+10*minute-time.Second {
			t.Errorf("a second later, the wait is %v", wait)
		}
		ask := byBrowser(ana)
		ask.Resend = fourth.View.ID
		fifth()
		waited(lockoutRemembered) // so that the log decides
		fifth()
		for range 4 { // none of these refusals took a place of the back end's
			own := r.send(askFor(ana))
			if c := r.check(own.View.ID, r.lastCode()); !c.Valid {
				t.Errorf("the back end's right code while browsers are locked out: %+v", c)
			}
		}
		waited(2 * minute) // the outbox writes them
		rows := 0
		for _, s := range r.rows() {
			if s.BlockedBy == ChecksRule {
				rows += s.Count
			}
		}
		if rows != 4 {
			t.Errorf("%d refusals are in the log", rows)
		}
		waited(23*time.Hour + 10*minute)
		r.send(byBrowser(ana))
	})
}

// Nor does a back end's user lock out browsers, or another recipient.
func TestABackEndLocksOutNoBrowser(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		for i := range 4 {
			ask := askFor(ana)
			ask.Session = fmt.Sprint(i)
			r.guess(backEnd, 5, r.send(ask).View.ID)
		}
		r.locked(askFor(ana))
		id := r.send(byBrowser(ana)).View.ID
		if c, _, _ := r.try(browser, id, r.lastCode()); !c.Valid {
			t.Errorf("a browser's right code: %+v", c)
		}
		r.send(askFor("bob@example.com"))
	})
}

// A refused send holds no place that another caller needs: not even for the time that the log takes.
func TestALockoutIsRememberedForAMoment(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		for range 4 {
			r.guess(browser, 5, r.send(byBrowser(ana)).View.ID)
		}
		begins := 0
		r.log.SetFault(func(method string) sqlite.Fault {
			if method == "Begin" {
				begins++
			}
			return sqlite.None
		})
		for range 10 {
			r.locked(byBrowser(ana))
		}
		if begins > 1 {
			t.Errorf("the log was asked %d times", begins)
		}
		r.log.SetFault(nil)
	})
}

// bounds hears of checks.
type checkEars struct {
	nobody
	checked, bounds map[string]int
}

func (c checkEars) Checked(_ recipient.Channel, _, outcome string) { c.checked[outcome]++ }

func (c checkEars) CheckBound(_ recipient.Channel, _, rule string) { c.bounds[rule]++ }

func (r *rig) listen() checkEars {
	ears := checkEars{checked: map[string]int{}, bounds: map[string]int{}}
	r.svc.Observer = ears
	return ears
}

func from(ip string) Caller {
	c := browser
	c.IP = netip.MustParseAddr(ip)
	return c
}

// 10,000 wrong codes from 1,000 networks, for recipients of the attackers' own: no honest caller is stopped, people are alarmed, and
// browsers' new codes are longer until it is over.
func TestAnAppUnderAttack(t *testing.T) {
	inBubbleWith(t, seldom(wide), func(r *rig) {
		ears := r.listen()
		honest := from("203.0.113.7")
		approve := func(what string, ask Ask, length int) {
			t.Helper()
			id := r.send(ask).View.ID
			code := r.lastCode()
			if len(code) != length || r.get(id).Code.Length != length {
				t.Errorf("%s: a code of %d characters, want %d", what, len(code), length)
			}
			if c, _, _ := r.try(ask.Caller, id, code); !c.Valid {
				t.Errorf("%s: the right code: %+v", what, c)
			}
		}
		both := func(length int) {
			t.Helper()
			ask := byBrowser("honest@example.com")
			ask.Caller = honest
			approve("a browser", ask, length)
			approve("a back end", askFor("honest@example.com"), 6)
		}
		compared := 0
		for n := range 1000 {
			attacker := from(fmt.Sprintf("10.%d.%d.9", n/250, n%250))
			for i := range 2 {
				ask := byBrowser(fmt.Sprintf("r%d-%d@attacker.example", n, i))
				ask.Caller = attacker
				compared += r.guess(attacker, 5, r.send(ask).View.ID)
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
		r.guess(extra.Caller, 5, r.send(extra).View.ID)
		if ears.bounds["app"] == 0 || ears.bounds["network"] != 0 || ears.checked["refused"] != 0 {
			t.Errorf("the bounds were met %v, checks %v", ears.bounds, ears.checked)
		}
		alarms := func() int { return strings.Count(r.printed.String(), "level=ERROR msg=\"more codes fail") }
		if alarms() != 1 {
			t.Errorf("%d alarms", alarms())
		}
		waited(minute)
		if r.guess(extra.Caller, 1, r.send(extra).View.ID); alarms() != 2 {
			t.Errorf("%d alarms a minute later", alarms())
		}
		waited(time.Hour)
		both(6)
	})
}

// A code that is long already, and one that is only sent again, stay as they are.
func TestLengthsUnderAttack(t *testing.T) {
	inBubbleWith(t, func(s *Settings) {
		wide(s)
		long := s.Purposes["login"]
		long.CodeLength = 9
		s.Purposes["login"] = long
		s.Checks = DefaultChecks()
		s.Checks.App.Limit = 5
	}, func(r *rig) {
		before := r.send(byBrowser("early@example.com"))
		r.guess(browser, 5, r.send(byBrowser("attacker@example.com")).View.ID)
		ask := byBrowser("early@example.com")
		ask.Resend = before.View.ID
		if a := r.send(ask); a.View.ID != before.View.ID || len(r.lastCode()) != 6 {
			t.Errorf("sent again: %d characters", len(r.lastCode()))
		}
		ask = byBrowser(ana)
		ask.Purpose = "login"
		if r.send(ask); len(r.lastCode()) != 9 {
			t.Errorf("a long code has %d characters", len(r.lastCode()))
		}
		a := r.send(byBrowser(ana))
		if len(r.lastCode()) != 8 || len(a.Quota.Rules) != 3 || len(r.rows()[3].Observed) != 0 {
			t.Errorf("%d characters; rules %+v", len(r.lastCode()), a.Quota.Rules)
		}
	})
}

// Networks are bounded each by itself and together.
func TestWideNetworks(t *testing.T) {
	inBubbleWith(t, wide, func(r *rig) {
		ears := r.listen()
		fail := func(c Caller, n int) (compared int, wait time.Duration) {
			for i := range n {
				id := r.send(askFor(fmt.Sprintf("w%d-%d@example.com", i/4, time.Now().UnixNano()))).View.ID
				waited(time.Microsecond)
				_, was, w := r.try(c, id, wrongFor(r.lastCode()))
				if was {
					compared++
				}
				wait = max(wait, w)
			}
			return compared, wait
		}
		for i := range 3 {
			if n, _ := fail(from(fmt.Sprintf("198.51.100.%d", i)), 100); n != 100 {
				t.Fatalf("%d compared from address %d", n, i)
			}
		}
		if n, wait := fail(from("198.51.100.9"), 2); n != 0 || wait <= 59*minute {
			t.Errorf("%d compared from a fourth address, wait %v", n, wait)
		}
		if n, _ := fail(from("198.51.101.9"), 1); n != 1 {
			t.Error("the next network is held up")
		}
		for i := range 3 {
			fail(from(fmt.Sprintf("2001:db8:1:%d::1", i)), 100)
		}
		if n, _ := fail(from("2001:db8:1:9::1"), 1); n != 0 {
			t.Error("a fourth /64 of a /48 is let in")
		}
		if n, _ := fail(from("2001:db8:2:9::1"), 1); n != 1 {
			t.Error("the next /48 is held up")
		}
		if ears.bounds["wide_network"] != 3 || ears.checked["refused"] != 3 {
			t.Errorf("the bounds were met %v, checks %v", ears.bounds, ears.checked)
		}
		warnings := func() int { return strings.Count(r.printed.String(), "level=WARN msg=\"checks were refused") }
		if warnings() != 1 || strings.Contains(r.printed.String(), "198.51.100") {
			t.Errorf("%d warnings", warnings())
		}
		waited(2 * minute) // the tick tells of the others
		if warnings() != 2 || !strings.Contains(r.printed.String(), "shop email wide_network:2") {
			t.Errorf("%d warnings: %s", warnings(), r.printed.String())
		}
	})
}

// A rule for browsers counts and refuses them alone, also while the limiter is away, and a failed send gives its place back.
func TestRulesOfBrowsers(t *testing.T) {
	only := func(s *Settings) {
		wide(s)
		for name, p := range s.Purposes {
			p.Policy.Rules = append(p.Policy.Rules, quota.Rule{Name: "browsers", Scope: quota.Recipient.OfBrowsers(), Limit: 2, Window: time.Hour})
			s.Purposes[name] = p
		}
	}
	check := func(r *rig) {
		r.Helper()
		r.send(askFor(ana))
		r.send(askFor(ana))
		if a := r.send(askFor(ana)); len(a.Quota.Rules) != 1 {
			r.Errorf("a secret key hears %+v", a.Quota.Rules)
		}
		r.send(byBrowser(ana))
		r.send(byBrowser(ana))
		if a := r.refuse(byBrowser(ana)); a.Quota.Violated()[0] != "browsers" {
			r.Errorf("refused by %v", a.Quota.Violated())
		}
		r.send(askFor(ana))
		r.send(byBrowser("bob@example.com"))
	}
	inBubbleWith(t, only, func(r *rig) {
		check(r)
		r.noError(r.svc.ResetQuota(r.Context(), r.person(), actOf("quota.reset")))
		r.send(byBrowser(ana))
	})
	inBubbleWith(t, only, func(r *rig) {
		r.lose()
		check(r)
	})
	inBubbleWith(t, only, func(r *rig) {
		for range 3 { // none of these was delivered
			r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
			r.send(byBrowser(ana))
			waited(2 * time.Second)
		}
		r.send(byBrowser(ana))
		r.send(byBrowser(ana))
		r.refuse(byBrowser(ana))
	})
}
