package page_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// foreignAnswers are scripts that answer in place of the service, like a service worker, a
// firewall, a proxy, a captive portal, or another service under the same name. In them, real is the
// browser's fetch.
var foreignAnswers = map[string]string{
	"an offline page":                   `new Response('<!doctype html><h1>You are offline</h1>', { status: 200, headers: { 'Content-Type': 'text/html' } })`,
	"nothing":                           `new Response(null, { status: 204 })`,
	"JSON that ends too early":          `new Response('{"id":"verification-1","status":"expired","send":{"id"', { status: 200, headers: { 'Content-Type': 'application/json' } })`,
	"null":                              `Response.json(null)`,
	"a list":                            `Response.json([{ id: 'verification-1', status: 'expired', valid: false }])`,
	"another service's JSON":            `Response.json({ id: 'verification-1', status: 'expired', valid: 'no', channels: [{ id: 'C1', name: 'general' }], send: true, quota: {} })`,
	"channels that are none":            `Response.json({ channels: [null] })`,
	"another service's not found":       `Response.json({ type: 'https://shop.example/problems/not-found', title: 'Not Found', status: 404 }, { status: 404 })`,
	"another service's refusal":         `Response.json({ type: 'https://shop.example/problems/forbidden', status: 403, detail: 'No.' }, { status: 403 })`,
	"the page of a login":               `new Response('<form action="/login"></form>', { status: 401, headers: { 'Content-Type': 'application/json' } })`,
	"a gateway's page, for a day":       `new Response('<h1>502 Bad Gateway</h1>', { status: 502, headers: { 'Retry-After': '86400' } })`,
	"an answer that scripts can't read": `real(location.href, { mode: 'no-cors' }).then(() => Response.error())`,
	"a redirect to another origin":      `new TypeError('Failed to fetch')`,
	"an answer without an end":          `new Response(new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('{"id":')); c.error(new TypeError('network error')); } }), { status: 200 })`,
}

// quickRetryScript is a script that shortens the pause of one second before a request is repeated.
const quickRetryScript = `{ const set = setTimeout; window.setTimeout = (run, ms, ...all) => set(run, ms === 1000 ? 20 : ms, ...all); }`

// othersAnswerEachRequest tests answers of foreignAnswers to the widget's requests: the shown card
// stays, the person reads that the request failed, and the next try works. Here each answer occurs
// at one stage. In `make nightly`, each answer occurs at every stage.
func othersAnswerEachRequest(t *testing.T, tab *browsertest.Tab) {
	names := slices.Sorted(maps.Keys(foreignAnswers))
	for first := 0; first < len(names); first += stages {
		var chosen [stages]string
		for i := range chosen {
			chosen[i] = names[(first+i)%len(names)]
		}
		t.Run(strings.Join(chosen[:], ", "), func(t *testing.T) { othersAnswer(t, tab, chosen) })
	}
}

// stages is the number of stages at which others answer the widget: the first card, a send, a look
// and a check, a resend, and a reload.
const stages = 5

// othersAnswer takes a widget through all stages. At each stage, one of the foreignAnswers answers.
func othersAnswer(t *testing.T, tab *browsertest.Tab, names [stages]string) {
	w := accepting(t)
	var answers []string
	for _, name := range names {
		answers = append(answers, "() => "+foreignAnswers[name])
	}
	g := visits(t, tab, w, tag("required"), quickRetryScript+`window.others = [`+strings.Join(answers, ",\n")+`];
		Object.assign(window, { other: Number(sessionStorage.getItem('stage') ?? 0), none: -1 });
		window.instead = () => others[other]?.();`)
	failed := func(kind string) {
		g.Helper()
		g.Shows("#offline", "That didn't work. Try again.")
		g.Until(`!el.shadowRoot.querySelector('.busy')`)
		g.card(kind)
	}
	g.Until(`asked.length >= 2`) // the request of the first card, and its repetition
	g.card("ask")
	g.run(`other = 1`)
	g.Fill("#to", pagetest.Address+"\r")
	failed("ask")
	is(t, w.Codes.Sends(), 0)
	g.run(`other = none`)
	g.run(`el.shadowRoot.querySelector('#send').click()`)
	g.card("code", "a•••@example.com")
	g.run(`asked.length = 0`, `other = 2`, returnScript)
	g.Until(`asked.length >= 1`)
	g.enters("111111")
	failed("code")
	g.is(`el.shadowRoot.querySelector('#code').value === '111111'`)
	g.run(`other = none`, `el.shadowRoot.querySelector('#check').click()`)
	g.card("code", "That code is wrong")
	w.Advance(61 * time.Second)
	g.run(`other = 3`, `asked.length = 0`, `el.shadowRoot.querySelector('#again').removeAttribute('aria-disabled')`,
		`el.shadowRoot.querySelector('#again').click()`)
	failed("code")
	g.run(`other = none`, `el.shadowRoot.querySelector('#again').click()`)
	g.Until(`heard.filter(([name]) => name === 'sent').length === 2`)
	g.run(`sessionStorage.setItem('stage', 4)`)
	g.Go(browsertest.Value[string](g.Page, `location.href`)) // the look after a reload
	g.Until(`asked.filter((one) => one.startsWith('GET') && one.endsWith('verification-1')).length > 1`)
	g.run(`other = none`, `document.dispatchEvent(new Event('visibilitychange'))`)
	g.card("code", "a•••@example.com")
	g.enters(pagetest.Code)
	g.card("approved")
	g.is(`!heard.some(([name, detail]) => name === 'expired' || detail.reason === 'misplaced')`)
	is(t, [2]int{w.Codes.Sends(), w.Codes.Checks()}, [2]int{2, 2})
	g.wantNoScriptErrors()
}

// answersWithoutStatusOrHeaders tests tools of a page that keep an answer's body but lose its
// status or its headers, like service workers that return new Response(body).
func answersWithoutStatusOrHeaders(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), `
		window.instead = async (method, path, how, url) => new Response(await (await real(url, how)).text());`)
	g.asks("ana@")
	g.card("ask", "after the @")
	g.asks(pagetest.Address)
	g.card("code", "a•••@example.com")
	g.enters("111111")
	g.card("code", "That code is wrong. 4 tries left")
	g.run(`el.shadowRoot.querySelector('#again').removeAttribute('aria-disabled')`, `el.shadowRoot.querySelector('#again').click()`)
	g.Until(`heard.some(([name]) => name === 'refused')`)
	g.enters(pagetest.Code)
	g.card("approved")
	g.wantNoScriptErrors()
}

// aCacheAnswersLooks tests a cache that returns earlier answers of the service: the confirmation,
// its proof and the newest message stay.
func aCacheAnswersLooks(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, `<form method="post">`+tag(`name="proof" required`)+`</form>`, `window.kept = undefined; window.cached = 0;
		window.instead = async (method, path, how, url) => {
			if (method !== 'GET' || !path.includes('verification-')) return undefined;
			const fresh = kept ?? await (await real(url, how)).text();
			if (kept) cached++;
			window.last = fresh;
			return new Response(fresh);
		};`)
	cached := func() {
		g.Helper()
		g.run(`cached = 0`)
		g.Until(`(` + returnScript + `, cached > 1)`)
	}
	g.asks(pagetest.Address)
	g.card("code", "Send again in")
	g.Until(`(` + returnScript + `, window.last)`)
	g.run(`kept = last`)
	w.Advance(61 * time.Second)
	g.run(`el.shadowRoot.querySelector('#again').removeAttribute('aria-disabled')`, `el.shadowRoot.querySelector('#again').click()`)
	g.card("code", "Code sent again")
	cached()
	g.card("code", "Code sent again")
	g.enters(pagetest.Code)
	g.card("approved")
	proof := browsertest.Value[string](g.Page, `el.value`)
	cached()
	g.card("approved")
	is(t, browsertest.Value[string](g.Page, `el.value`), proof)
	g.is(`document.querySelector('form').checkValidity() && !heard.some(([name]) => name === 'expired')`)
}

// aWrongConclusionIsCorrected tests a service worker that has cached the service's script. Because
// the script can be read and the API can't, the widget concludes that this page may not use the
// service. Later the widget corrects this conclusion.
func aWrongConclusionIsCorrected(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag(""), `window.other = true; window.tries = 0;
		window.instead = (method, path) => {
			if (!other) return undefined;
			if (path.endsWith('/widget.js')) return new Response('');
			return new TypeError('Failed to fetch');
		};`)
	g.card("misplaced")
	g.is(`heard.filter(([name]) => name === 'failed').length === 1`)
	g.run(returnScript)
	g.rest()
	g.is(`heard.filter(([name]) => name === 'failed').length === 1`) // the page gets one event
	g.run(`other = false`, returnScript)
	g.card("ask", "Get a code")
	g.asks(pagetest.Address)
	g.card("code")
	g.wantNoScriptErrors()
}

// aModuleNeverComes tests a module that neither loads nor fails: after a press, the widget shows an
// error, and the next press works.
func aModuleNeverComes(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	letGo := sync.OnceFunc(w.HoldModules())
	t.Cleanup(letGo) // runs before the world is closed, because Close waits for all answers
	g := visits(t, tab, w, tag(""), soonLate)
	g.asks(pagetest.Address)
	g.Until(`el.shadowRoot.querySelector('.busy')`)
	g.run(`late()`)
	g.Until(`el.shadowRoot.querySelector('#offline').checkVisibility()`)
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	letGo()
	g.Until(`(el.shadowRoot.querySelector('#send:not(.busy)')?.click(), el.shadowRoot.querySelector('#card').dataset.kind === 'code')`)
	is(t, w.Codes.Sends(), 1)
	g.wantNoScriptErrors()
}

// soonLate is a script that defines late(), which at once ends each wait of 15 s, the longest for
// an answer.
const soonLate = `(() => {
	const set = setTimeout.bind(window), clear = clearTimeout.bind(window), lates = new Map();
	window.setTimeout = (run, ms, ...all) => {
		const id = set(ms === 15000 ? () => {} : run, ms === 15000 ? 1e8 : ms, ...all);
		if (ms === 15000) lates.set(id, () => run(...all));
		return id;
	};
	window.clearTimeout = (id) => { lates.delete(id); clear(id); };
	window.late = () => { for (const run of [...lates.values()]) run(); };
})();`

// aWorkerOfAnotherScript tests a worker that never sends a message: the page itself solves the
// human check.
func aWorkerOfAnotherScript(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag(""), soonLate+`
		window.Worker = class { constructor() { window.worked = (window.worked ?? 0) + 1; } postMessage() {} terminate() { window.ended = true; } };
		window.tokens = [];
		window.instead = async (method, path, how, url) => {
			if (method !== 'POST' || !path.endsWith('/verifications')) return undefined;
			const { human_check, ...body } = JSON.parse(how.body);
			if (human_check) { tokens.push(human_check); return real(url, { ...how, body: JSON.stringify(body) }); }
			return new Response(JSON.stringify({ type: '/problems/human-check', status: 428, detail: 'A check.', request_id: 'r', human_check: { by: 'work', work: `+
		challenge(900, workSalt)+` } }), { status: 428 });
		};`)
	g.asks(pagetest.Address)
	g.Until(`window.worked`)
	g.Until(`(late(), tokens.length === 1)`)
	g.card("code", "a•••@example.com")
	g.is(`ended && tokens[0].startsWith('work:') && JSON.parse(atob(tokens[0].slice(5))).number === 900`)
	g.wantNoScriptErrors()
}

// aScriptErrorEndsTheWait tests a mistake in a script: the widget does not stay in its waiting
// state.
func aScriptErrorEndsTheWait(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag(""), "")
	g.asks(pagetest.Address)
	g.card("code")
	g.run(`window.broken = 0`,
		`Object.defineProperty(Element.prototype, 'querySelector', { value(s) { if (s === '#code' && broken-- > 0 && this.matches('form')) throw new Error('a library'); return this.querySelectorAll(s)[0] ?? null; } })`)
	g.run(`broken = 1`)
	g.enters(pagetest.Code)
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	g.run(`el.shadowRoot.querySelector('#check').click()`)
	g.card("approved")
}
