package auth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
)

// attackFrom tries n wrong passwords for the account from each of the networks, with four addresses
// of the network in turn. An address that was refused does not try again, since the clock stands
// still. compared is the number of passwords that were compared.
func (r *rig) attackFrom(networks, n int) (compared int) {
	r.Helper()
	for i := range networks {
		var refused [4]bool
		for j := range n {
			k := j % len(refused)
			if refused[k] {
				continue
			}
			switch r.from(fmt.Sprintf("198.%d.%d.%d:1", 18+i/250, i%250, k)).Login("wrong").Code {
			case http.StatusUnauthorized:
				compared++
			case http.StatusTooManyRequests:
				refused[k] = true
			}
		}
	}
	return compared
}

// attackLogins uses up the attempts that unknown browsers have for the account.
func (r *rig) attackLogins() { r.attackFrom(41, 11) }

// Attackers in twelve networks guess for a day, as fast as they are admitted. The owner can still
// log in from a new browser, and the attackers get few guesses.
func TestLoginLimitLeavesNewBrowsers(t *testing.T) {
	r := newRig(t)
	compared := 0
	for i := range 96 {
		compared += r.attackFrom(12, 40)
		owner := r.from(fmt.Sprintf("203.0.%d.9:1", i))
		want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
		r.Clock.Add(15 * time.Minute)
	}
	servertest.Same(t, "guesses", compared, 12*100)
}

// Even with more networks, attackers get no more attempts than the rule account_day allows.
func TestLoginLimitHoldsForManyNetworks(t *testing.T) {
	r := newRig(t)
	compared := 0
	for range 8 {
		compared += r.attackFrom(100, 30)
		r.Clock.Add(15 * time.Minute)
	}
	servertest.Same(t, "guesses", compared, 2000)
}

// An attack keeps out no administrator who uses a known browser, or logs in through the provider.
// If a rule on unknown browsers' attempts at one account refuses logins, an error with their count
// is logged, at most once a minute.
func TestLoginDuringAnAttackFromAKnownBrowser(t *testing.T) {
	var refused []string
	r, server := newRigWithProvider(t, func(c *Config) { c.Refused = func(what, rule string) { refused = append(refused, what+" "+rule) } })
	owner := r.LoggedIn()
	want(t, owner.Post("/admin/logout", nil), http.StatusSeeOther)
	alarms := func(n int) {
		t.Helper()
		got := strings.Count(r.Printed.String(), `level=ERROR msg="login refused to unknown browsers`)
		servertest.Same(t, "alarms", got, n)
	}
	r.attackLogins()
	alarms(1)
	r.Clock.Add(time.Minute)
	r.attackLogins()
	alarms(2)
	if !slices.Contains(refused, "login account") {
		t.Errorf("the metric was not counted up: %d refusals", len(refused))
	}

	fresh := r.from("192.0.2.50:1")
	rec := want(t, fresh.Login(consoletest.Password), http.StatusTooManyRequests)
	contains(t, rec, "Browsers that have logged in to this account before can still log in")
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "840")
	r.As("reader")                // the attack does not count for another account
	owner.From = "203.0.113.99:1" // a known browser stays known if its address changes
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
	want(t, owner.Get("/admin"), http.StatusOK)

	consoletest.SetIdentity(server, "bo", "support")
	for _, from := range []string{"203.0.113.5:1", "198.18.0.7:1"} { // even from an attacker's address
		consoletest.LeadsTo(t, r.from(from).ByProvider(""))
	}
	r.Clock.Add(14*time.Minute - time.Microsecond)
	want(t, fresh.Login(consoletest.Password), http.StatusTooManyRequests)
	r.Clock.Add(time.Microsecond)
	want(t, fresh.Login(consoletest.Password), http.StatusSeeOther)
}

// A stolen cookie of a known browser gives ten guesses in 15 minutes and thirty a day, from any
// address.
func TestLoginLimitOfAStolenCookie(t *testing.T) {
	r := newRig(t)
	owner := r.LoggedIn()
	r.attackLogins()
	guesses := func() (n int) {
		for i := range 15 {
			thief := r.from(fmt.Sprintf("198.19.%d.7:1", i))
			for name, c := range owner.Cookies {
				if strings.Contains(name, "-browser-") {
					thief.Cookies[name] = c
				}
			}
			if len(thief.Cookies) != 1 {
				t.Fatalf("cookies: %v", owner.Cookies)
			}
			if thief.Login("wrong").Code == http.StatusUnauthorized {
				n++
			}
		}
		return n
	}
	servertest.Same(t, "guesses at once", guesses(), 10)
	all := 10
	for range 4 {
		r.Clock.Add(15 * time.Minute)
		all += guesses()
	}
	servertest.Same(t, "guesses in a day", all, 30)
}

// Every login gives the browser another cookie, so attempts of a thief with an earlier cookie do
// not count against the browser.
func TestLoginsRenewTheCookieOfABrowser(t *testing.T) {
	r := newRig(t)
	owner := r.LoggedIn()
	name := knownBrowserCookieName("admin")
	stolen := owner.Cookies[name]
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
	if owner.Cookies[name].Value == stolen.Value {
		t.Fatal("the cookie is the same after another login")
	}
	thief := r.Browser()
	thief.Cookies[name] = stolen
	for range 10 {
		want(t, thief.Login("wrong"), http.StatusUnauthorized)
	}
	want(t, thief.Login("wrong"), http.StatusTooManyRequests)
	r.attackLogins()
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
}

// A cookie that was altered, has expired, or belongs to another account makes no browser known.
func TestCookiesOfOthersAreNotKnown(t *testing.T) {
	r := newRig(t)
	r.As("reader")
	owner, reader := r.LoggedIn(), r.Browser()
	want(t, reader.LoginAs("the-reader", "the-reader's password"), http.StatusSeeOther)
	admins, readers := knownBrowserCookieName("admin"), knownBrowserCookieName("the-reader")
	good, other := owner.Cookies[admins].Value, reader.Cookies[readers].Value
	if len(owner.Cookies) != 2 || admins == readers {
		t.Fatalf("%v", owner.Cookies)
	}
	r.attackLogins()
	for what, value := range map[string]string{
		"another account's": other, "cut": good[:len(good)-2], "empty": "",
		"text": "known", "altered": "B" + good[1:],
	} {
		owner.Cookies[admins].Value = value
		servertest.Same(t, what, owner.Login(consoletest.Password).Code, http.StatusTooManyRequests)
	}
	owner.Cookies[admins].Value = good
	r.Clock.Add(90*24*time.Hour - time.Second)
	r.attackLogins()
	want(t, owner.Login("wrong"), http.StatusUnauthorized)
	r.Clock.Add(time.Second)
	want(t, owner.Login(consoletest.Password), http.StatusTooManyRequests)
}
