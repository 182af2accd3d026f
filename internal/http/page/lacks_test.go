package page_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
)

// lacks are what scripts of page and widget use and a browser may lack (a), throw at (t), never answer
// (n) or give an odd value for (o): older ones, private windows, policies and extensions. web/static/browser.js has
// what is done about it.
var lacks = []struct{ feature, how string }{
	{"BroadcastChannel", "at"},
	{"BroadcastChannel.prototype.postMessage", "t"},
	{"sessionStorage", "at"},
	{"localStorage", "at"},
	{"Storage.prototype.getItem", "t"},
	{"Storage.prototype.setItem", "t"},
	{"navigator.credentials", "at"},
	{"CredentialsContainer.prototype.get", "atn"},
	{"Intl", "at"},
	{"Intl.DateTimeFormat", "at"},
	{"Intl.PluralRules", "at"},
	{"Intl.DisplayNames", "at"},
	{"Intl.Locale", "at"},
	{"Intl.Collator", "at"},
	{"String.prototype.localeCompare", "t"},
	{"AbortSignal.timeout", "at"},
	{"AbortSignal.any", "at"},
	{"AbortSignal.prototype.throwIfAborted", "a"},
	{"crypto", "at"},
	{"Crypto.prototype.getRandomValues", "at"},
	{"Crypto.prototype.randomUUID", "at"},
	{"navigator.onLine", "a"},
	{"navigator.language", "ao"},
	{"navigator.languages", "ao"},
	{"navigator.locks", "at"},
	{"navigator.clipboard", "at"},
	{"matchMedia", "at"},
	{"History.prototype.replaceState", "at"},
	{"performance.getEntriesByType", "at"},
	{"performance.timeOrigin", "a"},
	{"ElementInternals.prototype.states", "a"},
	{"CustomStateSet.prototype.add", "at"},
}

// without is a script that takes features away. Accessors of objects throw, what is called or made throws then.
func without(features []string, how rune) string {
	return fmt.Sprintf(`(() => {
	window.OTPCredential = class {};
	const refuse = function () { throw new DOMException('', 'SecurityError') };
	for (const path of %q.split(' ').filter(Boolean)) {
		const names = path.split('.'), last = names.pop(), owner = names.reduce((o, name) => o?.[name], window);
		if (!owner) continue; // was taken away with it
		const held = /^(sessionS|localS|.*(credentials|clipboard|locks|crypto)$)/.test(path);
		const odd = last === 'languages' ? ['en-US@posix', 'C', ''] : 'en-US@posix';
		const put = { a: { value: undefined }, n: { value: () => new Promise(() => {}) }, o: { value: odd }, t: held ? { get: refuse } : { value: refuse } }[%q];
		Object.defineProperty(owner, last, { configurable: true, ...put });
	}
})()`, strings.Join(features, " "), string(how))
}

// browsersThatLack features, all that can be so at once: the way to a proof is the same.
func browsersThatLack(t *testing.T, browser context.Context) {
	for _, how := range "atno" {
		var features []string
		for _, l := range lacks {
			if strings.ContainsRune(l.how, how) {
				features = append(features, l.feature)
			}
		}
		aWayWithout(t, browser, features, how)
	}
}

// aWayWithout features gets a proof by a text message on page and widget.
func aWayWithout(t *testing.T, browser context.Context, features []string, how rune) {
	t.Helper()
	w := accepting(t)
	w.Codes.SetCountries("DE", "FR")
	on, site := embeddedBeside(t, browser, w, pagetest.Look{}, tag(`channels="sms email" country="DE"`), "")
	for _, b := range []*tab{open(t, browser, w, pagetest.Look{}), on} {
		t.Logf("%c: %v, widget %v", how, features, b == on)
		b.first(without(features, how))
		if b == on {
			b.do(chromedp.Navigate(site.URL))
			b.until(b.q("#country"))
		} else {
			b.visit("")
			b.card("ask")
			b.click("#by-sms")
		}
		b.run(b.q("#country") + `.value = 'DE'`)
		b.fills("phone", pagetest.Number+kb.Enter)
		b.card("code", "+49 151•••789")
		b.types("code", "111111")
		b.card("code", "4 tries left")
		b.keys(pagetest.Code)
		b.card("approved")
		w.Advance(61 * time.Second)
	}
}

// In a browser that keeps no cookies the page sends nothing and says why, with scripts and without.
func TestCookiesAreOff(t *testing.T) {
	browser := browsertest.CookielessChromium(t)
	for _, noScript := range []bool{false, true} {
		w := world(t)
		b := open(t, browser, w, pagetest.Look{NoScript: noScript})
		b.visit("")
		for range 2 {
			b.fills("to", pagetest.Address+kb.Enter)
			b.card("cookies", "Your browser keeps no cookies", "Nothing was sent")
			b.click("#card .button")
			b.card("ask")
		}
		is(t, w.Codes.Sends(), 0)
	}
}

// A form of a page that was open for longer than its cookie lives sends nothing; the next press does.
func TestATabThatWasLeftOvernight(t *testing.T) {
	w := world(t)
	w.Also(page.AppPage{App: "news"})
	w.Codes.Immediately = store.Sent
	for _, query := range []string{"", "?app=news"} {
		asked := get(t, w, query)
		before := w.Codes.Sends()
		w.Advance(12 * time.Hour)
		again := submit(t, w, asked, "send", "to", pagetest.Address)
		shows(t, again, "ask", "Nothing was sent yet", "press the button once more")
		contains(t, again, `value="ana@example.com"`)
		is(t, w.Codes.Sends(), before)
		code := submit(t, w, again, "send", "to", pagetest.Address)
		shows(t, code, "code", "Check your mail")
		is(t, w.Codes.Sends(), before+1)
		w.Advance(12 * time.Hour)
		for _, act := range []string{"check", "again"} {
			shows(t, submit(t, w, code, act, "code", pagetest.Code), "ask", "This page was out of date")
			w.Forget()
		}
		is(t, w.Codes.Checks(), 0)
		is(t, w.Codes.Sends(), before+1)
	}
	form := formOf(t, w, "?app=news", "send", "to", pagetest.Address)
	w.Forget()
	is(t, raw(t, w, http.MethodPost, "?app=news", form, nil).Header.Get("Location"), "/?app=news&view=kept")
}

// Without cookies, each post ends at the card that says so.
func TestNoCookieIsKept(t *testing.T) {
	w := mailed(t)
	code := get(t, w, "")
	w.Client().Jar = nil
	for range 3 {
		for act, from := range map[string]string{"send": get(t, w, ""), "again": code, "check": code} {
			off := submit(t, w, from, act, "to", "ben@example.com", "code", pagetest.Code)
			shows(t, off, "cookies", "Nothing was sent", "Try again")
			contains(t, off, `href="/"`)
			silent(t, off, "ben@")
		}
	}
	is(t, w.Codes.Sends(), 1)
	is(t, w.Codes.Checks(), 0)
	w = mailed(t)
	kept := raw(t, w, http.MethodGet, "?view=kept", nil, nil)
	is(t, fmt.Sprint(kept.StatusCode, kept.Header.Get("Location")), "303/") // a reload without a cookie does not say so
}

// A browser that drops the cookie with its first code is told that there is a code, and why there is no field. The
// page's address keeps no mark where the cookie was kept.
func TestTheCookieOfTheFirstCodeIsLost(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	form := formOf(t, w, "", "send", "to", pagetest.Address)
	sent := raw(t, w, http.MethodPost, "", form, nil)
	marked := strings.TrimPrefix(sent.Header.Get("Location"), "/")
	for range 2 { // with the cookie of before, and with none
		shows(t, get(t, w, marked), "cookies", "A code was sent", "Allow cookies", "Try again")
		w.Forget()
	}
	w.Keep(sent.Cookies())
	is(t, raw(t, w, http.MethodGet, marked, nil, nil).Header.Get("Location"), "/")
	shows(t, get(t, w, marked), "code")
	w.Advance(61 * time.Second)
	is(t, raw(t, w, http.MethodPost, "", formOf(t, w, "", "again"), nil).Header.Get("Location"), "/")
}

// Browsers drop the page's Secure cookie over http, as where a proxy answers there. The card says what to open, and a
// log line, one a minute, what to set right.
func TestASecureCookieIsLost(t *testing.T) {
	w := world(t)
	const open, drops = "open it with https://", "does not keep the page's cookie"
	silent(t, get(t, w, "?view=kept")+w.Log.String(), open)
	w.URL = "http://codes.example/" // unlike a loopback address, it needs https
	for range 2 {
		shows(t, post(t, w, "", "send", "to", pagetest.Address), "cookies", "Nothing was sent", open)
	}
	is(t, w.Codes.Sends(), 0)
	is(t, strings.Count(w.Log.String(), drops), 1)
	w.Advance(time.Minute)
	shows(t, get(t, w, "?view=sent"), "cookies", "A code was sent", open)
	is(t, strings.Count(w.Log.String(), drops), 2)
}
