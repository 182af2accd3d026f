package page_test

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// offlineScript is a script that makes the browser report that it is always offline, as some VPNs
// do.
const offlineScript = `Object.defineProperty(Navigator.prototype, 'onLine', { get: () => false });`

// aBrowserAlwaysReportsOffline tests a browser with the script offlineScript, after lost answers.
// The widget continues as soon as the service answers, because the browser will never report that
// it is online.
func aBrowserAlwaysReportsOffline(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), offlineScript+`window.left = 0; window.instead = (method) => method === 'POST' && left-- > 0 ? new TypeError('Failed to fetch') : undefined;`)
	g.asks(pagetest.Address)
	g.card("code")
	g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	for _, lost := range []int{1, 3} { // after one lost answer the widget repeats the request at once; after three it gives up
		g.run(fmt.Sprintf(`left = %d`, lost))
		g.enters(fmt.Sprint(111110 + lost))
		g.card("code", "That code is wrong")
		g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	}
	g.enters(pagetest.Code)
	g.card("approved")
	is(t, w.Codes.Checks(), 3)
	g.wantNoScriptErrors()
}

// aBrowserReportsOfflineAtTheFirstCard tests a browser with the script offlineScript before there
// is a verification. The widget sends the request as soon as the service answers.
func aBrowserReportsOfflineAtTheFirstCard(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), offlineScript+`window.away = true; window.instead = () => away ? new TypeError('Failed to fetch') : undefined;`)
	g.asks(pagetest.Address)
	g.Shows("#offline", "You're offline.")
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	g.run(`away = false`)
	g.card("code", "a•••@example.com")
	is(t, w.Codes.Sends(), 1)
	g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	g.wantNoScriptErrors()
}

// backAfterTheConfirmation tests that Back leads to the confirmed card, with its proof, even on a
// page that no cache keeps. So does a reload. A new visit starts the widget again, and so does an
// element that the page's script adds later.
func backAfterTheConfirmation(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	s := siteOf(t, w, `<form method="post">`+tag(`name="proof" required`)+`</form>`, "")
	s.Header = http.Header{"Cache-Control": {"no-store"}}
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "window.el?.shadowRoot"}, w}
	g.Go(s.URL)
	g.asks(pagetest.Address)
	g.enters(pagetest.Code)
	g.card("approved")
	proof := browsertest.Value[string](g.Page, `el.value`)
	valid := func() {
		g.Helper()
		g.card("approved", "a•••@example.com")
		is(t, browsertest.Value[string](g.Page, `el.value`), proof)
		g.is(`document.querySelector('form').checkValidity()`)
	}
	g.Go(s.URL + "own.css")
	g.run(`setTimeout(() => history.back())`)
	valid()
	g.run(`window.left = true`, `setTimeout(() => location.reload())`)
	g.Until(`window.left === undefined`)
	valid()
	g.run(`document.querySelector('form').innerHTML = '`+tag(`name="proof" required`)+`'`, `window.el = document.querySelector('send-code')`)
	g.card("ask") // as if a router rendered the view again
	g.Go(s.URL + "?")
	g.card("ask") // a new visit
	g.is(`!Object.entries(sessionStorage).some(([name]) => name.endsWith('proof'))`)
}

// aDuplicatedTab tests that a tab shows the approval of its verification in another tab, and can
// send a new code.
func aDuplicatedTab(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), "")
	g.asks(pagetest.Address)
	g.card("code")
	entersElsewhere(t, w)
	g.run(returnScript)
	g.card("approved", "Email confirmed", "If you used it in another tab, continue there.", "Send a new code")
	g.says("Email confirmed. If you used it in another tab, continue there.")
	g.is(`el.value === '' && !el.shadowRoot.querySelector('#card').innerText.includes('already used')`)
	g.wantNoScriptErrors()
}

// entersElsewhere enters the right code of the newest verification in another browser.
func entersElsewhere(t *testing.T, w *pagetest.World) {
	t.Helper()
	w.ID = fmt.Sprintf("verification-%d", w.Codes.Verifications())
	if err := w.Check(pagetest.Code); err != nil {
		t.Fatal(err)
	}
}

// theFieldHasRoomForAFillersMark tests that the field has 36 px behind the last digit, for the mark
// that a password manager draws. It tests several widths, and codes of 6 to 8 digits.
func theFieldHasRoomForAFillersMark(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag(""), "")
	g.asks(pagetest.Address)
	g.card("code")
	const behind = `(() => {
		const field = el.shadowRoot.querySelector('#code'), s = getComputedStyle(field), probe = document.createElement('span');
		probe.style.cssText = 'position:absolute;white-space:pre;font:' + s.font;
		probe.textContent = '0'.repeat(20);
		field.after(probe);
		const n = Number(field.dataset.length), digit = probe.getBoundingClientRect().width / 20, gap = parseFloat(s.letterSpacing);
		probe.remove();
		return field.getBoundingClientRect().width - parseFloat(s.borderLeftWidth) - parseFloat(s.paddingLeft) - n * digit - (n - 1) * gap;
	})()`
	for _, width := range []int{230, 239, 260, 288, 300, 322, 323, 340, 400} {
		g.run(fmt.Sprintf(`el.style.inlineSize = '%dpx'`, width))
		for _, n := range []int{6, 7, 8} {
			g.run(fmt.Sprintf(`el.shadowRoot.querySelector('#code').dataset.length = %d`, n))
			if got := browsertest.Value[float64](g.Page, behind); got < 36 {
				t.Errorf("at %d px, %.1f px are left behind %d digits", width, got, n)
			}
		}
	}
}

// hints are facts that a browser, a page's tools or other programs report, perhaps wrongly. script
// runs before the page. asked runs when the first card is shown, and sent runs when the card for
// the code is shown. pressed is true if asked has filled the field and the person presses the
// button.
var hints = map[string]struct {
	script, asked, sent string
	pressed             bool
}{
	"the page is never visible": {script: `Object.defineProperty(Document.prototype, 'visibilityState', { get: () => 'hidden' });
		Object.defineProperty(Document.prototype, 'hidden', { get: () => true }); Document.prototype.hasFocus = () => false;`},
	"the connection comes and goes": {asked: flaps, sent: flaps},
	"the connection is back, and is not": {
		asked: `window.instead = (method) => method === 'POST' && gone-- > 0 ? new TypeError('Failed to fetch') : undefined,
			window.gone = 2, setTimeout(() => dispatchEvent(new Event('online')), 30)`,
	},
	"another program's message to all tabs": {sent: `(() => { const c = new BroadcastChannel('sendcode');
		for (const data of ['', null, { status: 'approved' }, 'x'.repeat(1e5)]) c.postMessage(data); })()`},
	"storage of another program": {script: `for (const name of ['default ', ' ', '  proof', '  intent']) {
		sessionStorage['sendcode ` + pagetest.PublicKey + ` ' + name] ??= 'a.' + btoa('{"jti":"verification-77","exp":1}') + '.c';
		} localStorage['sendcode x'] = '{}';`},
	"a key of a send that is none": {script: intent + ` ??= 'x';`},
	"a key that no header takes":   {script: intent + ` ??= '\u20ac'.repeat(32);`},
	"more known tokens than any":   {script: tokens + ` = 'abc.'.repeat(99);`},
	"tokens that are none":         {script: tokens + ` = '<b>\u20ac.{}.' + 'x'.repeat(1e5);`},
	"an offer of another version":  {asked: `copies('{}')`},
	"an offer of nothing":          {asked: `copies('{"channels":[null]}')`},
	"a return that is none": {script: `sessionStorage['sendcode ` + pagetest.PublicKey + `   proof'] ??=
		'a.' + btoa('{"jti":"verification-77"}') + '.c'; {
		const real = performance.getEntriesByType.bind(performance);
		performance.getEntriesByType = (kind) => kind === 'navigation' ? [{ type: 'back_forward', responseStart: 1 }] : real(kind); }`},
	"a browser without a language": {script: `Object.defineProperty(Navigator.prototype, 'language', { get: () => undefined });
		Object.defineProperty(Navigator.prototype, 'languages', { get: () => ['', 'x-klingon', 'zz_ZZ'] });
		addEventListener('DOMContentLoaded', () => document.documentElement.removeAttribute('lang'));`},
	"a zone that is none":    {script: `Intl.DateTimeFormat.prototype.resolvedOptions = () => ({ timeZone: 'Mars/Phobos', hourCycle: 'h99' });`},
	"answers without a date": {script: changeHeader + `/date/i.test(name) ? null : real.call(this, name); }; }`},
	"dates of another clock": {script: changeHeader + `/date/i.test(name) ? 'Thu, 01 Jan 2099 00:00:00 GMT' : real.call(this, name); }; }`},
	"a wait of a proxy":      {script: changeHeader + `/retry-after/i.test(name) ? '86400' : real.call(this, name); }; }`},
	"a filler without events": {
		asked: `el.shadowRoot.querySelector('#to').value = '` + pagetest.Address + `'`, pressed: true,
	},
	"a filler's event without its kind": {
		asked: `(e => { e.value = '` + pagetest.Address + `'; e.dispatchEvent(new Event('input', { bubbles: true })); })(el.shadowRoot.querySelector('#to'))`,
		sent:  `el.shadowRoot.querySelector('#code').dispatchEvent(new Event('input', { bubbles: true }))`, pressed: true,
	},
	"a paste without its text": {sent: `el.shadowRoot.querySelector('#code').dispatchEvent(new InputEvent('input',
		{ bubbles: true, inputType: 'insertFromPaste', data: null }))`},
	"a keyboard for another kind": {
		asked: `Object.assign(el.shadowRoot.querySelector('#to'), { type: 'text', inputMode: 'numeric', autocomplete: 'off' })`,
		sent:  `Object.assign(el.shadowRoot.querySelector('#code'), { type: 'tel', inputMode: 'text', autocomplete: 'off' })`,
	},
	"an input method that never ends": {sent: `el.shadowRoot.querySelector('#code').dispatchEvent(new InputEvent('input',
		{ bubbles: true, isComposing: true, inputType: 'insertCompositionText', data: '1' }))`},
	"a method that is a field": {script: `addEventListener('DOMContentLoaded', () => {
		const form = document.createElement('form'); form.setAttribute('method', 'post');
		form.innerHTML = '<input name="method"><input name="id"><input name="noValidate"><input name="elements">'; form.name = 'f';
		document.body.append(form); form.append(document.querySelector('send-code')); });`},
	"a key that is held":        {asked: `document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', repeat: true }))`},
	"a script that reads waits": {sent: `el.shadowRoot.querySelector('#again').removeAttribute('aria-disabled')`},
}

const (
	flaps = `(() => { for (let n = 0; n < 20; n++) setTimeout(() => dispatchEvent(new Event(n % 2 ? 'online' : 'offline')), 3 * n); })()`
	// intent is where the widget keeps the Idempotency-Key of a send, and tokens is where it keeps
	// the tokens of a known browser.
	intent = `sessionStorage['sendcode ` + pagetest.PublicKey + `   intent']`
	tokens = `localStorage['sendcode SERVICE/ ` + pagetest.PublicKey + `']`
	// changeHeader begins a script that changes the values of an answer's headers.
	changeHeader = `{ const real = Headers.prototype.get; Headers.prototype.get = function (name) { return `
	// copies is a script whose function replaces the element by a copy with an offer. The element
	// of our own page has an offer.
	copies = `;window.copies = (offer) => {
		const copy = el.cloneNode();
		copy.setAttribute('offer', offer);
		el.replaceWith(copy);
		window.el = copy;
		told(el);
	};`
)

// hintGroups has groups of hints that one browser gets hintGroups. No hint hides another one of its
// group. In `make nightly`, each hint is also tested alone.
var hintGroups = [][]string{
	{
		"the page is never visible", "storage of another program", "more known tokens than any", "answers without a date",
		"a filler's event without its kind", "a key that is held",
	},
	{
		"the connection comes and goes", "a key of a send that is none", "tokens that are none", "dates of another clock",
		"a browser without a language", "an offer of another version", "a paste without its text", "a script that reads waits",
	},
	{
		"the connection is back, and is not", "a key that no header takes", "a keyboard for another kind",
		"an input method that never ends",
	},
	{"a return that is none", "a method that is a field", "a filler without events", "another program's message to all tabs"},
	{"an offer of nothing", "a zone that is none", "a wait of a proxy"},
}

// wrongHintsChangeNothing tests the groups of hintGroups. No hint may be missing in them.
func wrongHintsChangeNothing(t *testing.T, tab *browsertest.Tab) {
	all := 0
	for _, names := range hintGroups {
		all += len(names)
		t.Run(strings.Join(names, ", "), func(t *testing.T) { besideHints(t, tab, names...) })
	}
	is(t, all, len(hints))
}

// besideHints tests that a person gets a proof in spite of hints, with one send and two checks, and
// that no notice stays.
func besideHints(t *testing.T, tab *browsertest.Tab, names ...string) {
	var script, asked, sent strings.Builder
	pressed := false
	for _, name := range names {
		c, known := hints[name]
		is(t, known, true)
		script.WriteString(c.script + ";")
		asked.WriteString(cmp.Or(c.asked, "0") + ",")
		sent.WriteString(cmp.Or(c.sent, "0") + ",")
		pressed = pressed || c.pressed
	}
	w := accepting(t)
	g := visits(t, tab, w, tag(`name="proof"`), script.String()+copies)
	g.card("ask")
	g.Shows("#to")
	g.run(asked.String() + "0")
	if pressed {
		g.run(`el.shadowRoot.querySelector('#send').click()`)
	} else {
		g.Fill("#to", pagetest.Address+"\r")
	}
	g.card("code", "a•••@example.com")
	g.run(sent.String() + "0")
	g.enters("111111")
	g.card("code", "That code is wrong. 4 tries left")
	g.enters(pagetest.Code)
	g.card("approved")
	g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	g.is(`el.value.split('.').length === 3 && heard.filter(([name]) => name === 'approved').length === 1`)
	g.is(`!heard.some(([name]) => name === 'failed')`)
	g.is(`(new FormData(el.form ?? document.createElement('form')).get('proof') ?? el.value) === el.value`)
	is(t, [2]int{w.Codes.Sends(), w.Codes.Checks()}, [2]int{1, 2})
	g.rest()
	g.card("approved")
	g.run(`sessionStorage.clear()`, `localStorage.clear()`)
	g.wantNoScriptErrors()
}

// noCodes are answers to the request for the code of a text message that contain no code of this
// form. They come from the browser, or from a tool of the page in the browser's place.
var noCodes = map[string]string{
	"nothing": `waits.at(-1).came(undefined)`, "no text": `waits.at(-1).came(null)`, "an empty text": `waits.at(-1).came('')`,
	"words": `waits.at(-1).came('--')`, "another code": `waits.at(-1).came('4821')`, "an error": `waits.at(-1).fails(new Error('no'))`,
	"no promise": ``,
}

// aMessageWithoutACode tests noCodes one after the other in one page. In `make nightly`, each
// answer has its own page.
func aMessageWithoutACode(t *testing.T, tab *browsertest.Tab) {
	messagesWithoutCodes(t, tab, slices.Sorted(maps.Keys(noCodes))...)
}

// messagesWithoutCodes tests that the field for the code stays as it is after each of these
// answers.
func messagesWithoutCodes(t *testing.T, tab *browsertest.Tab, names ...string) {
	w := accepting(t, oftenAllowed)
	w.Codes.SetCountries("DE")
	g := visits(t, tab, w, tag(`channels="sms" country="DE"`), messages+"; window.asks = navigator.credentials.get;")
	for n, name := range names {
		t.Log(name)
		g.run(`waits.length = 0`, `navigator.credentials.get = asks`)
		if noCodes[name] == "" {
			g.run(`navigator.credentials.get = () => { waits.push({}); return {}; }`)
		}
		g.Until(`el.shadowRoot.querySelector('#country')`) // the offer came; with one country, #country is a hidden input
		g.Fill("#phone", pagetest.Number+"\r")
		g.card("code")
		g.Until(`waits.length === 1`)
		g.keys("48")
		g.run(cmp.Or(noCodes[name], "0"))
		g.rest()
		g.is(`el.shadowRoot.querySelector('#code').value === '48'`)
		g.enters(pagetest.Code)
		g.card("approved")
		is(t, w.Codes.Checks(), n+1)
		w.Advance(61 * time.Second)
		g.run(`el.reset()`)
	}
	g.wantNoScriptErrors()
}

// aPageOfXHTML tests a page that is parsed as XML: names of elements and attributes keep their
// case. A script imports the widget, since Chromium runs no module script that its XML parser has
// read.
func aPageOfXHTML(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	w.Codes.SetCountries("DE", "FR")
	s, service := siteOf(t, w, "", ""), w.URL
	s.Document = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/xhtml+xml; charset=utf-8")
		_, _ = io.WriteString(w, strings.ReplaceAll(`<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="es" lang="es"><head><title>Shop</title><script src="/own.js"/>`+
			`<script>import("SERVICE/widget.js")</script></head><body><form method="post">`+tag(`name="proof" required="" channels="email sms" country="DE"`)+
			`<button>Go</button></form></body></html>`, "SERVICE/", service))
	}
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "window.el?.shadowRoot"}, w}
	g.Go(s.URL)
	g.asks("ana@")
	g.card("ask", "@")
	g.asks(pagetest.Address)
	g.enters("111111")
	g.card("code", "El código no es correcto")
	g.enters(pagetest.Code)
	g.card("approved")
	g.is(`new FormData(document.forms[0]).get('proof') === el.value && document.forms[0].checkValidity()`)
	g.wantNoScriptErrors()
}
