package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// unreliableFeatures are features of browsers that the scripts of page and widget use. In an old
// browser or a private window, or because of a policy or an extension, a feature may be absent (a),
// throw an error (t), never answer (n), or have an odd value (o). web/static/browser.js handles
// these cases.
var unreliableFeatures = []struct{ feature, how string }{
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
	{"History.prototype.pushState", "at"},
	{"performance.getEntriesByType", "at"},
	{"performance.timeOrigin", "a"},
	{"ElementInternals.prototype.states", "a"},
	{"CustomStateSet.prototype.add", "at"},
}

// without returns a script that makes features fail in the way how, as unreliableFeatures
// describes. If features throw, accessors of objects throw at once, and functions and constructors
// throw when they are called.
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

// browsersThatLack tests, for each way of failing, a browser in which all features that may fail in
// this way do so. The person still gets a proof.
func browsersThatLack(t *testing.T, browser context.Context) {
	for _, how := range "atno" {
		var features []string
		for _, l := range unreliableFeatures {
			if strings.ContainsRune(l.how, how) {
				features = append(features, l.feature)
			}
		}
		aWayWithout(t, browser, features, how)
	}
}

// aWayWithout tests that, without the features, a person gets a proof by a text message on our
// page, which contains the widget.
func aWayWithout(t *testing.T, browser context.Context, features []string, how rune) {
	t.Helper()
	t.Logf("%c: %v", how, features)
	w := accepting(t)
	w.Codes.SetCountries("DE", "FR")
	b := open(t, browser, w, browsertest.Look{})
	b.first(without(features, how))
	b.visit("")
	b.click("#by-sms")
	b.until(b.q("#country"))
	b.run(b.q("#country") + `.value = 'DE'`)
	b.fills("phone", pagetest.Number+kb.Enter)
	b.card("code", "+49 151•••789")
	b.types("code", "111111")
	b.card("code", "4 tries left")
	b.keys(pagetest.Code)
	b.card("approved")
}

// In a browser that keeps neither cookies nor storage, the page works, and asks people not to close
// or reload it.
func TestPageWithoutCookies(t *testing.T) {
	browser := browsertest.CookielessChromium(t)
	w := accepting(t)
	b := open(t, browser, w, browsertest.Look{})
	b.visit("")
	b.asked(pagetest.Address)
	b.card("code", "Don't close or reload this page")
	b.getsIn()
}
