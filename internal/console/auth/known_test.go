package auth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// attackLogins tries wrong passwords from twelve networks, ten from each address: at the account, and at as many others. Those are there,
// with hashes that are cheap to compute; an unknown one is counted alike, as TestLoginTellsNothingOfAccounts shows.
func (r *rig) attackLogins() {
	r.Helper()
	for i := range 12 {
		b, other := r.from(fmt.Sprintf("198.18.%d.7:1", i)), fmt.Sprintf("other-%d", i)
		r.PutAccount(store.Account{Name: other, Role: "reader", Password: consoletest.SmallHash("theirs")})
		for range 5 {
			for _, name := range []string{"admin", other} {
				if rec := b.LoginAs(name, "wrong"); rec.Code == http.StatusSeeOther {
					r.Fatal("a wrong password logs in")
				}
			}
		}
	}
}

// An attack keeps no administrator out, and the rule over all attempts alarms, at most once a minute and with a count.
func TestAttacksKeepNoAdministratorOut(t *testing.T) {
	var refused []string
	r, server := besideProvider(t, func(c *Config) { c.Refused = func(what, rule string) { refused = append(refused, what+" "+rule) } })
	owner := r.LoggedIn()
	want(t, owner.Post("/admin/logout", nil), http.StatusSeeOther)
	alarms := func(n int) {
		t.Helper()
		got := strings.Count(r.Logged.String(), `level=ERROR msg="login attempts of unknown browsers are refused`)
		servertest.Same(t, "alarms", got, n)
	}
	r.attackLogins()
	alarms(1)
	r.Clock.Add(time.Minute)
	r.attackLogins()
	alarms(2)
	if !slices.Contains(refused, "login all") {
		t.Errorf("the metric was not counted up: %d refusals", len(refused))
	}

	fresh := r.from("192.0.2.50:1")
	rec := want(t, fresh.Login(consoletest.Password), http.StatusTooManyRequests)
	contains(t, rec, "Browsers that have logged in to this account before can still log in")
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "840")
	owner.From = "203.0.113.99:1" // a browser is known wherever it is
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
	want(t, owner.Get("/admin"), http.StatusOK)

	consoletest.Is(server, "bo", "support")
	for _, from := range []string{"203.0.113.5:1", "198.18.0.7:1"} { // also from an address that attacks
		consoletest.LeadsTo(t, r.from(from).ByProvider(""))
	}
	r.Clock.Add(14*time.Minute - time.Microsecond)
	want(t, fresh.Login(consoletest.Password), http.StatusTooManyRequests)
	r.Clock.Add(time.Microsecond)
	want(t, fresh.Login(consoletest.Password), http.StatusSeeOther)
}

// A stolen cookie of a known browser gives ten guesses in 15 minutes and thirty a day, from wherever.
func TestStolenCookiesGiveFewGuesses(t *testing.T) {
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

// Every login gives the browser another cookie, so what a thief did with an earlier one does not count against it.
func TestLoginsRenewTheCookieOfABrowser(t *testing.T) {
	r := newRig(t)
	owner := r.LoggedIn()
	name := browserCookieName("admin")
	stolen := owner.Cookies[name]
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
	if owner.Cookies[name].Value == stolen.Value {
		t.Fatal("the cookie is the same after another login")
	}
	thief := r.Browser()
	thief.Cookies[name] = stolen
	for range 9 { // the owner's last login was with this cookie
		want(t, thief.Login("wrong"), http.StatusUnauthorized)
	}
	want(t, thief.Login("wrong"), http.StatusTooManyRequests)
	r.attackLogins()
	want(t, owner.Login(consoletest.Password), http.StatusSeeOther)
}

// A cookie that was altered, has expired, or is another account's makes no browser known.
func TestCookiesOfOthersAreNotKnown(t *testing.T) {
	r := newRig(t)
	r.As("reader")
	owner, reader := r.LoggedIn(), r.Browser()
	want(t, reader.LoginAs("the-reader", "the-reader's password"), http.StatusSeeOther)
	admins, readers := browserCookieName("admin"), browserCookieName("the-reader")
	good, other := owner.Cookies[admins].Value, reader.Cookies[readers].Value
	if len(owner.Cookies) != 2 || admins == readers {
		t.Fatalf("%v", owner.Cookies)
	}
	r.attackLogins()
	for what, value := range map[string]string{"another account's": other, "cut": good[:len(good)-2], "empty": "", "text": "known", "altered": "B" + good[1:]} {
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
