package page_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// aWidgetOnAPageThatMayNot tests a page that may not use the key. The widget explains this in plain
// words to the person and to the author of the page, and sends nothing.
func aWidgetOnAPageThatMayNot(t *testing.T, browser context.Context) {
	for name, c := range map[string]struct{ markup, said string }{
		"its origin is in no list":      {tag(""), "the service lets no page of this origin read its answers: http://"},
		"the key is not known":          {`<send-code key="pk_unknown"></send-code>`, "The API key is not known here."},
		"there is no key":               {`<send-code></send-code>`, "it has no public key"},
		"the key is a secret one":       {`<send-code public-key="sk_uitest_0123456789abcdef"></send-code>`, "a secret key"},
		"the purpose is not configured": {tag(`purpose="gifts"`), "No purpose of that name is configured."},
		"by phone, the key is not known": {
			`<send-code public-key="pk_unknown" channel="sms"></send-code>`,
			"The API key is not known here.",
		},
		"the channel is not set up there": {tag(`channel="fax"`), ""},
	} {
		w := running(t)
		b, site := embeddedBeside(t, browser, w, browsertest.Look{}, c.markup, "")
		b.tolerate = "e" // the browser has its own words for each of these
		if c.markup == tag("") {
			w.Allow()
		}
		b.do(chromedp.Navigate(site.URL))
		if name == "the channel is not set up there" {
			b.asked(pagetest.Address)
		} // otherwise the notice appears before the person types anything
		b.card("misplaced", "Codes can't be sent from here", "This page is not set up to use this service", "nothing was sent")
		b.awaitEvent("failed", `"reason":"misplaced"`)
		is(t, w.Codes.Sends(), 0)
		b.await("a word to the developer", func() bool { return b.consoleHas("<send-code>: " + c.said) })
		if strings.Contains(c.said, "secret") {
			const made = `import(%q).then(({ Client }) => { try { new Client({ key: 'sk_uitest_0123456789abcdef' }); return '' } catch (e) { return e.message } })`
			contains(t, eval[string](b, fmt.Sprintf(made, w.URL+"client.js")), "a secret key (sk_…) is no secret in a page")
			b.await("a word about the client", func() bool { return b.consoleHas("sendcode: " + c.said) })
		}
	}
}

// aWidgetBehindAPagesTools tests pages on which tracing adds headers to each fetch, in several
// forms of the arguments of fetch. The widget works. If the page may not use the key, the widget
// still detects this.
func aWidgetBehindAPagesTools(t *testing.T, browser context.Context) {
	for _, c := range map[string]struct{ headers, added string }{
		"Sentry": {"sentry-trace baggage traceparent", `real(url, { ...init, headers: { ...init.headers, ...more } })`},
		"OpenTelemetry": {
			"traceparent tracestate baggage b3 x-b3-traceid x-b3-spanid x-b3-sampled uber-trace-id",
			`real(new Request(new Request(url, init), { headers: all }))`,
		},
		"Datadog": {
			"x-datadog-origin x-datadog-parent-id x-datadog-sampling-priority x-datadog-trace-id x-datadog-tags traceparent tracestate",
			`real(url, { ...init, headers: [...all] })`,
		},
		"New Relic": {"newrelic traceparent tracestate", `real(url, { ...init, headers: all })`},
		"Elastic":   {"elastic-apm-traceparent traceparent tracestate", `real(new Request(url, { ...init, headers: all }))`},
	} {
		w := accepting(t)
		b, site := embeddedBeside(t, browser, w, browsertest.Look{}, tag(""), "")
		b.tolerate = "e" // the browser has its own words for a page that may not use the key
		b.first(fmt.Sprintf(`window.real = fetch; window.traced = []; window.fetch = (url, init = {}) => {
			const more = Object.fromEntries(%q.split(' ').map((name) => [name, '00-1-01'])), all = new Headers(init.headers);
			for (const [name, value] of Object.entries(more)) all.set(name, value);
			traced.push(init.method ?? 'GET');
			return %s }`, c.headers, c.added))
		w.Allow()
		b.do(chromedp.Navigate(site.URL))
		b.card("misplaced", "Codes can't be sent from here")
		w.Allow(site.Origin())
		b.do(chromedp.Navigate(site.URL))
		b.asked(pagetest.Address)
		b.card("code", "Check your mail")
		b.getsIn()
		if all := eval[string](b, `traced.join()`); !strings.Contains(all, "GET") || strings.Count(all, "POST") != 2 {
			t.Errorf("the tool saw %s", all)
		}
	}
}

// aWidgetAndAnOutage tests that a request which is repeated after a lost answer or an outage has
// the same key. A new request has another key.
func aWidgetAndAnOutage(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	b.asked("ana@")
	b.card("ask", "after the @") // the field shows the mistake, and nothing is stored
	b.run(`window.real = fetch`, `window.left = 2`, `window.fetch = async (...all) => {
		const a = await real(...all); if (all[1].method === 'POST') { if (--left === 0) window.fetch = real; throw new DOMException('', 'TimeoutError') } return a }`)
	b.asked(pagetest.Address)
	b.until(b.q("#offline") + `.innerText.startsWith("That didn't work.")`)
	b.until(b.q("#send:not(.busy)"))
	b.awaitEvent("failed", `"reason":"network"`)
	w.Codes.SetDown(true)
	b.run(`freeze()`) // with stopped clocks the short wait does not end
	b.keys(kb.Enter)
	b.card("away", "We can't do this right now", "It isn't your fault", "Your address is kept: ana@example.com", "Try again in 0:02")
	b.awaitEvent("failed", `"reason":"unavailable"`)
	w.Codes.SetDown(false)
	b.jump(2*time.Second, 2*time.Second)
	b.ready()
	b.says("Try again") // the text does not mention another code
	b.click("#again")
	b.card("code", "On its way")         // a repetition has the answer of the first request
	b.jump(2*time.Second, 2*time.Second) // the next look begins
	b.card("code", "Check your mail")
	w.Codes.SetDown(true)
	b.types("code", pagetest.Code)
	b.card("code", "this didn't work")
	is(t, b.value("#code"), pagetest.Code)
	b.do(chromedp.Reload())
	b.card("away", "We can't do this right now")
	w.Codes.SetDown(false)
	b.card("code", "Check your mail") // the card changes without a press
	w.Codes.SetDown(true)
	b.click("[data-act=change]") // the next try repeats the last request, not the one before
	b.asked("cem@example.com")
	b.card("away", "Your address is kept: cem@example.com")
	w.Codes.SetDown(false)
	b.ready()
	b.click("#again")
	b.card("code", "c•••@example.com")
	var keys []string // the keys of all requests after the mistake
	for _, request := range w.Codes.SendRequests()[1:] {
		keys = append(keys, request.IdempotencyKey)
	}
	if len(keys) != 6 || keys[0] == "" || len(slices.Compact(slices.Clone(keys[:4]))) != 1 || keys[3] == keys[4] || keys[4] != keys[5] {
		t.Errorf("the keys of the requests are %q", keys)
	}
}

// aWidgetContinues tests a press without a connection. The request is sent once when the connection
// is back, even if the card would be different by then.
func aWidgetContinues(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	b.card("ask")
	w.Codes.SetDown(true)
	b.asked("eve@example.com")
	b.card("away", "Your address is kept: eve@example.com")
	w.Codes.SetDown(false)
	b.ready()
	b.tolerate = "e" // the browser's own words for a request that fails
	b.lose()
	b.click("#again")
	b.until(b.q("#again:not(.busy)") + ` && ` + b.q("#offline") + `.innerText.includes("We'll continue")`)
	b.run(`window.get = Storage.prototype.getItem`, // another tab enters a right code
		`Storage.prototype.getItem = function (name) { return this === localStorage ? 'a token' : get.call(this, name) }`)
	b.rest(1500 * time.Millisecond) // the next look begins after a second
	b.do(pagetest.Offline(false))
	b.card("code", "e•••@example.com")
}

// aWidgetsAnswerIsLost tests a lost answer. A reload and the same address bring the code that was
// sent. Until then the browser stores a random key, but nothing about the recipient. A key that was
// stored for another recipient is replaced. After a resend whose answer was lost, a later resend
// still sends a message.
func aWidgetsAnswerIsLost(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	loses := func(act func()) {
		b.Helper()
		before := w.Codes.Sends()
		b.run(losesAll)
		act()
		b.await("a send", func() bool { return w.Codes.Sends() == before+1 })
		b.until(`window.fetch === real && ` + b.q("#card") + ` && !` + b.q(".busy"))
	}
	loses(func() { b.asked(pagetest.Address) })
	b.until(`/^[0-9a-f]{32}$/.test(Object.values({...sessionStorage}).join())`)
	b.do(chromedp.Reload())
	b.asked(pagetest.Address)
	b.card("code", "a•••@example.com")
	is(t, w.Codes.Sends(), 1)
	b.nothingKeptBut("verification-1")
	b.pass(61 * time.Second)
	b.ready()
	loses(func() { b.click("#again") })
	b.card("code", "Code sent again") // the next look shows it
	b.pass(61 * time.Second)
	b.ready()
	b.click("#again")
	b.await("a third send", func() bool { return w.Codes.Sends() == 3 })
	b.run(`document.querySelector('send-code').reset()`)
	loses(func() { b.asked("ben@example.com") })
	b.do(chromedp.Reload())
	b.asked("cem@example.com")
	b.card("code", "c•••@example.com")
	is(t, w.Codes.Sends(), 5)
	containsNone(t, eval[string](b, b.q("#card")+`.innerText`), "reload this page")
	b.run(`document.querySelector('send-code').reset()`)
	loses(func() { b.asked("dan@example.com") })
	b.run(`document.querySelector('send-code').reset()`)
	b.nothingKeptBut("")
	b.first(`Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('', 'SecurityError') } })`)
	b.do(chromedp.Reload())
	b.asked("eva@example.com")
	b.card("code", "e•••@example.com", "Don't close or reload this page")
}

// losing is a script that drops the answers to the next n checks. Its second parameter is the
// statement that runs instead of each answer.
const losing = `window.real = fetch; window.lose = %d; window.fetch = async (...all) => { const answer = await real(...all);
	if (String(all[0]).endsWith('/check') && lose > 0) { lose--; %s } return answer }`

// theAnswerToACodeIsLost tests that the widget repeats the request with the same key, and that the
// repetition does not count as another check. Only an answer with a proof counts as approved.
// Without a key the card says that the code is used, and a press asks for a new code.
func theAnswerToACodeIsLost(t *testing.T, browser context.Context) {
	const lost, away = `throw new TypeError('lost')`, `return new Response('{}', { status: 503 })`
	const form = `document.querySelector('form').checkValidity() + ' ' + document.querySelector('send-code').value.split('.').length`
	for name, c := range map[string]struct {
		times     int
		how, card string
	}{
		"once": {1, lost, "approved"}, "twice, with a proxy's word": {2, away, "approved"},
		"until somebody looks": {3, lost, "approved"}, "without a key": {1, lost, "ended"},
	} {
		t.Log(name)
		w := accepting(t)
		b := embedded(t, browser, w, browsertest.Look{}, `<form method="post">`+tag(`name="proof" required`)+`</form>`)
		if c.how == away {
			b.tolerate = "no answer of the service: 503"
		}
		b.asked(pagetest.Address)
		b.card("code")
		b.run(fmt.Sprintf(losing, min(c.times, 2), c.how))
		if c.card == "ended" {
			b.run(`lose = 0`, `delete Crypto.prototype.getRandomValues`)
		}
		b.types("code", "111111")
		b.awaitEvent("wrong", `"attempts_remaining":4`)
		b.run(fmt.Sprintf(`lose = %d`, c.times))
		b.types("code", pagetest.Code)
		b.card(c.card)
		is(t, w.Codes.Checks(), 2)
		if c.card == "ended" {
			b.card("ended", "This code was already used", "A code works once.")
			is(t, eval[string](b, form), "false 1")
			b.pass(61 * time.Second)
			b.ready()
			b.click("#again")
			b.card("code", "Check your mail")
			b.getsIn()
		}
		is(t, eval[string](b, form), "true 3")
		is(t, eval[int](b, `heard.filter(([name]) => name === 'approved').length`), 1)
	}
}

// aWidgetBesideToJSON tests a page whose library, such as Prototype 1.6, has given arrays and
// objects a method toJSON, which JSON.stringify then calls. The widget works as usual, also in a
// known browser.
func aWidgetBesideToJSON(t *testing.T, browser context.Context) {
	w := accepting(t)
	b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(""), "")
	b.first(`Array.prototype.toJSON = Object.prototype.toJSON = function () { return 'an object' }`)
	for n := range 2 {
		w.Advance(24 * time.Hour)
		b.do(chromedp.Navigate(s.URL))
		b.asked(pagetest.Address)
		b.card("code")
		is(t, len(w.Codes.SendRequests()[n].KnownTokens), n)
		b.focus("code")
		b.paste(pagetest.Code)
		b.card("approved")
	}
}

// impostor is a script that answers in place of the service, like a service worker or a firewall,
// while window.other has an answer: {status, body}, or 'cors' for an answer that the page may not
// read.
const impostor = `window.real = fetch; window.others = 0; window.fetch = async (...all) => {
	if (!window.other || !String(all[0]).includes('/v1/')) return real(...all);
	others++;
	if (other === 'cors') throw new TypeError('Failed to fetch');
	return new Response(other.body, { status: other.status, headers: { 'Content-Type': /^[{[]/.test(other.body) ? 'application/json' : 'text/html' } });
}`

// anotherOneAnswers tests answers that do not come from the service, with several statuses. The
// widget forgets nothing, does not report that a code has expired or that the page is set up
// wrongly, and the next press works.
func anotherOneAnswers(t *testing.T, browser context.Context) {
	b, s := embeddedBeside(t, browser, accepting(t), browsertest.Look{}, tag(""), "")
	b.tolerate = "e" // the client logs warnings
	b.first(impostor + `; window.other = { status: 403, body: '<title>Just a moment</title>' }`)
	b.do(chromedp.Navigate(s.URL))
	b.card("ask")
	b.until(`others >= 2`) // the request for the channels, and its repetition
	b.rest(longer)
	b.card("ask")
	unanswered := func(kind string) {
		b.Helper()
		b.until(b.q("#offline") + `.innerText.includes("That didn't work. Try again.") && !` + b.q(".busy"))
		b.card(kind)
	}
	b.asked(pagetest.Address)
	unanswered("ask")
	b.run(`other = undefined`)
	b.click("#send")
	b.card("code", "a•••@example.com")
	for _, other := range []string{
		`{ status: 200, body: '<h1>You are offline</h1>' }`, `{ status: 202, body: 'null' }`, `{ status: 200, body: '{"status":"ok"}' }`,
		`{ status: 200, body: '{"id":"another","status":"expired","send":{"id":"s"},"quota":{"rules":[]}}' }`,
		`{ status: 404, body: '<h1>Not found</h1>' }`, `{ status: 404, body: '{"type":"about:blank","status":404}' }`,
		`{ status: 403, body: '{"error":"blocked"}' }`, `{ status: 503, body: '{}' }`, `'cors'`,
	} {
		b.run(`others = 0`, `other = `+other)
		b.until(`(` + returnScript + `, others > 0)`)
		b.rest(glance)
		b.card("code", "a•••@example.com")
	}
	for _, other := range []string{`{ status: 200, body: '<h1>You are offline</h1>' }`, `{ status: 403, body: '{"error":"blocked"}' }`, `'cors'`} {
		b.run(`other = ` + other)
		b.fills("code", pagetest.Code+kb.Enter) // Enter submits the code again
		unanswered("code")
		is(t, b.value("#code"), pagetest.Code)
	}
	b.run(`other = undefined`)
	b.keys(kb.Enter)
	b.card("approved")
	is(t, [2]int{b.world.Codes.Sends(), b.world.Codes.Checks()}, [2]int{1, 1})
	is(t, eval[bool](b, `heard.some(([name, detail]) => name === 'expired' || detail.reason === 'misplaced')`), false)
	is(t, b.consoleHas("no answer of the service: 403, text/html"), true)
}

// example returns the code blocks in a language of docs/widget.md.
func example(t *testing.T, language string) []string {
	t.Helper()
	return servertest.Blocks(t, read(t, "../../../docs/widget.md"), language)
}

// aWidgetByItsDocumentation tests a sign-in with the real program, on a page of another origin with
// the snippet and the policy of the documentation. A double click sends one mail.
func aWidgetByItsDocumentation(t *testing.T, browser context.Context) {
	var policy, markup string
	site := pagetest.NewSite("", func() (string, string, string) { return policy, "", markup })
	t.Cleanup(site.Close)
	service := apptest.Embedded(t).Write(
		fmt.Sprintf("apps: [{name: shop, origins: [%q], keys: [{id: web, kind: public, sha256: %x}]}]\n",
			site.Origin(), sha256.Sum256([]byte(pagetest.PublicKey)))).Start(1)
	real := strings.NewReplacer("https://codes.example", service.Replicas[0].Base, "pk_your_public_key", pagetest.PublicKey)
	_, policy, _ = strings.Cut(strings.TrimSpace(real.Replace(example(t, "http")[0])), ": ")
	policy += "; require-trusted-types-for 'script'; trusted-types 'none'"
	markup = real.Replace(example(t, "html")[0])

	b := open(t, browser, world(t), browsertest.Look{})
	b.tolerate = "favicon" // the documented policy allows a site no icon
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(eventScript + `; window.posted = []; window.ask = fetch; window.fetch = (to, how) => to === '/login/email' ? posted.push(how.body) : ask(to, how);
		addEventListener('approved', (e) => { window.proof = e.detail.proof }); ` + example(t, "js")[0]) // as a script of the head
	b.do(chromedp.Navigate(site.URL))
	b.card("ask", "Get a code")
	b.run(`document.body.replaceWith(document.body.cloneNode(true))`) // as routers replace a page
	b.card("ask", "Get a code")
	b.types("to", pagetest.Address)
	b.press("#send", 2)
	b.keys(kb.Enter)
	b.card("code", "Check your mail", "Code sent to a•••@example.com", "Send again in", "3 left", "7 left")
	if n := eval[int](b, b.root+`.querySelectorAll('.pips-row').length`); n != 3 { // the rules of the network are left out
		t.Errorf("%d rules are shown", n)
	}
	code := service.CodeIn(service.AwaitMail(pagetest.Address, 1)[0])
	b.focus("code")
	b.paste(code[:3] + " " + code[3:])
	b.card("approved", "a•••@example.com")
	claims := eval[string](b, `atob(proof.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))`)
	if !strings.Contains(claims, `"shop"`) || !strings.Contains(claims, `"purpose":"default"`) {
		t.Errorf("the proof says %s", claims)
	}
	is(t, eval[bool](b, `posted.join() === proof`), true)
	is(t, len(service.Mails()), 1)
}
