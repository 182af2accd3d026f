package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// aWidgetThatIsRequired tests that the form of a required widget is valid only while there is a
// proof.
func aWidgetThatIsRequired(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.Codes.Proof = "a.b.c"
	b := embedded(t, browser, w, browsertest.Look{},
		`<form method="post" id="f">`+tag(`name="proof" required`)+`</form><button type="reset" form="f"><b>Clear</b></button>`)
	const form, element = `document.querySelector('form')`, `document.querySelector('send-code')`
	valid := func(want bool) {
		t.Helper()
		is(t, eval[bool](b, form+`.checkValidity() && `+element+`.checkValidity() && `+element+`.validity.valid`), want)
	}
	b.run(`window.told = []`, `['input', 'change'].forEach((name) => `+form+
		`.addEventListener(name, ({ target }) => told.push(name + ' ' + target.value)))`)
	b.card("ask")
	valid(false) // before the first request
	b.run(form + `.reportValidity()`)
	b.focused("to")
	is(t, eval[string](b, element+`.validationMessage`), "Confirm your address with a code.")
	b.asked(pagetest.Address)
	b.card("code")
	valid(false) // after a code was sent
	b.getsIn()
	valid(true) // with a proof
	is(t, eval[string](b, element+`.value + ' ' + new FormData(`+form+`).get('proof')`), "a.b.c a.b.c")
	is(t, eval[string](b, `told.join()`), "input a.b.c,change a.b.c") // typed text causes no events
	b.run(form+`.reset()`, form+`.reset()`)                           // as React does after an action
	b.rest(glance)
	b.card("approved")
	valid(true)
	b.run(`document.querySelector('b').click()`)
	b.card("ask")
	valid(false) // after a person has reset the form
	b.nothingKeptBut("")
	w.Advance(time.Minute)
	b.asked("ben@example.com")
	b.card("code")
	b.run(form + `.reset()`)
	b.rest(glance)
	b.card("code")
	b.run(`document.querySelector('b').click()`)
	b.fills("to", "cem@")
	b.run(form + `.reset()`)
	b.until(b.q("#to") + `.value === ''`) // the typed text is gone, too
	b.run(element+`.setAttribute('value', 'e30.eyJqdGkiOiJ2In0.e30')`, element+`.removeAttribute('value')`, `document.querySelector('b').click()`)
	valid(false)
	// as for an input, the value is at once the attribute's again
	is(t, eval[string](b, `(`+element+`.setAttribute('value', 'e30.eyJqdGkiOiJ2In0.e30'), document.querySelector('b').click(), `+
		element+`.value + ' ' + `+form+`.checkValidity())`), "e30.eyJqdGkiOiJ2In0.e30 true")
	b.run(element+`.value = ''`, element+`.removeAttribute('value')`)
	b.run(element + `.removeAttribute('required')`)
	valid(true) // if the element is not required
}

// aWidgetGivesNoProofToAnAddress tests that a form with the method GET gets no proof, and that the
// widget warns the developer of this once. The widget keeps its value, and the form stays valid.
func aWidgetGivesNoProofToAnAddress(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.Codes.Proof = "a.b.c"
	b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(`name="proof" required`)+`<iframe name="out"></iframe>
		<form id="get" target="out"><input name="method" value="post"><button formmethod="post"></button></form>
		<form id="post" target="out" method="POST"><input name="q" value="1"><button></button><button formmethod="GET"></button>
			<button formaction="javascript:0" formmethod="get"></button></form>
		<form id="dialog" method="dialog"></form><form id="unknown" target="out" method="put"></form><form id="react" action="javascript:0"></form>`, "")
	b.do(browsertest.Command(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}), chromedp.Navigate(s.URL))
	b.tolerate = "e" // the site's policy allows no submission of a form
	b.card("ask")
	b.run(`window.el = document.querySelector('send-code')`, `window.by = (id) => document.getElementById(id)`,
		`window.press = (id, n) => by(id).querySelectorAll('button')[n].click()`,
		// Chromium fires some events twice
		`addEventListener('formdata', (e) => { if (window.given === undefined) given = e.formData.get('proof'); })`)
	b.run(`by('get').append(el)`, `el.value = 'e30.eyJqdGkiOiJ2In0.e30'`, `new FormData(by('get'))`, `el.value = ''`)
	is(t, eval[bool](b, `given === null`), true) // before the module with the other cards has loaded
	b.asked(pagetest.Address)
	b.getsIn()
	const warning = `this form gets no proof`
	b.await("a warning", func() bool { return b.consoleHas(warning) })
	for _, c := range []struct {
		act   string
		given bool
	}{
		{`HTMLFormElement.prototype.submit.call(by('get'))`, false},
		{`by('get').requestSubmit()`, false},
		{`new FormData(by('get'))`, false},
		{`press('get', 0)`, true}, // the button's method decides
		{`by('unknown').append(el), by('unknown').requestSubmit()`, false},
		{`by('dialog').append(el), new FormData(by('dialog'))`, true},
		{`by('react').append(el), new FormData(by('react'))`, true}, // this form is submitted only by a script
		{`by('post').append(el), press('post', 0)`, true},
		{`press('post', 1)`, false},
		{`setTimeout(() => by('post').requestSubmit())`, true}, // the earlier button does not decide
		{`press('post', 2)`, true},
		{`by('post').method = 'get', new FormData(by('post'))`, false},
		{`by('post').method = 'post', new FormData(by('post'))`, true},
		{`document.body.prepend(el), el.setAttribute('form', 'get'), new FormData(by('get'))`, false},
		{`el.setAttribute('form', 'post'), new FormData(by('post'))`, true},
		// the proof of another field
		{
			`by('get').append(Object.assign(document.createElement('input'), { name: 'proof', value: 'a.b.c' })), new FormData(by('get'))`,
			true,
		},
	} {
		b.run(`window.given = undefined`, c.act)
		b.until(`given !== undefined`)
		servertest.Same(t, c.act+": a proof is given", eval[bool](b, `given === 'a.b.c'`), c.given)
		is(t, eval[bool](b, `el.value === 'a.b.c' && el.form.checkValidity()`), true)
		if c.act == `press('post', 1)` {
			b.until(`frames.out.location.search === '?q=1'`) // the address has no proof either
		}
	}
	is(t, strings.Count(strings.Join(b.console, "\n"), warning), 1)
}

// contract is a script that tries what a page may expect of a field of a form. Each row is tried
// with an <input> and with a widget, and must have the same result.
const contract = `(async () => {
  const until = (holds) => new Promise((go) => { const t = setInterval(() => { if (holds()) { clearInterval(t); go(); } }, 20); });
  const focused = (el) => [document.activeElement === el, el.matches(':focus'), el.matches(':focus-within')];
  const key = (el, init) => (el.shadowRoot?.activeElement ?? el).dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, composed: true, ...init }));
  const rows = {
    focus: (el) => { el.focus(); return focused(el); },
    label: (el) => { const label = document.querySelector('label'); label.click(); return [el.labels.length, el.labels[0] === label, focused(el)]; },
    required: (el, form) => [el.willValidate, el.validity.valueMissing, form.checkValidity()],
    disabled: (el, form) => { el.disabled = true; el.focus(); return [el.hasAttribute('disabled'), el.matches(':disabled'), el.willValidate, form.checkValidity(), focused(el)]; },
    fieldset: (el, form) => [true, false].map((yes) => { form.firstChild.disabled = yes; el.focus(); return [el.disabled, el.matches(':disabled'), el.willValidate, form.checkValidity(), focused(el)]; }),
    setCustomValidity: (el, form) => ['no', ''].map((text) => { el.setCustomValidity(text); el.required = false; return [el.validity.customError, el.validationMessage, form.checkValidity()]; }),
    form: (el, form) => { document.body.append(el); el.setAttribute('form', 'f'); return [el.form === form, [...form.elements].includes(el), form.checkValidity()]; },
    reset: (el, form) => { form.reset(); return [el.value, el.validity.valid]; },
    restore: (el) => [el.value, el.name, el.matches(':invalid')],
    dialog: (el) => {
      const dialog = document.createElement('dialog');
      dialog.append(el, document.createElement('button'));
      document.body.append(dialog);
      dialog.showModal();
      const got = focused(el);
      dialog.remove();
      return got;
    },
    events: (el) => {
      const names = ['beforeinput', 'compositionstart', 'compositionupdate', 'compositionend', 'copy', 'cut', 'paste', 'dragover', 'drop'], heard = [];
      const listen = ({ type, target }) => { if (target.tagName !== 'INPUT') heard.push(type); };
      for (const name of names) document.addEventListener(name, listen);
      el.focus();
      for (const name of names) (el.shadowRoot?.activeElement ?? el).dispatchEvent(new Event(name, { bubbles: true, composed: true }));
      for (const name of names) document.removeEventListener(name, listen);
      return heard;
    },
    keys: (el) => {
      const eaten = [], hotkey = ({ target, key }) => { if (key === 'Escape' || !/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) eaten.push(key); };
      document.addEventListener('keydown', hotkey);
      el.focus();
      for (const init of [{ key: '4' }, { key: 'x' }, { key: 'Escape' }]) key(el, init);
      document.removeEventListener('keydown', hotkey);
      return eaten;
    },
  };
  const differ = [];
  for (const [name, row] of Object.entries(rows)) {
    const got = [];
    for (const kind of ['input', 'send-code']) {
      const form = Object.assign(document.createElement('form'), { id: 'f' }), label = document.createElement('label'), el = document.createElement(kind);
      form.append(document.createElement('fieldset'));
      Object.assign(label, { htmlFor: 'x', textContent: 'Code' });
      Object.assign(el, { id: 'x', name: 'n', required: true, publicKey: '` + pagetest.PublicKey + `' });
      form.firstChild.append(label, el);
      document.querySelector('main').replaceChildren(form);
      if (el.shadowRoot) await until(() => el.shadowRoot.querySelector('#to'));
      got.push(JSON.stringify(row(el, form)));
      el.remove();
    }
    if (got[0] !== got[1]) differ.push([name, ...got].join(' '));
  }
  return differ;
})()`

// aWidgetForLibrariesOfInputs tests jQuery's serialize(), and libraries that validate with jQuery.
// They use the names of elements, and get the proof once, or nothing if there is no proof.
func aWidgetForLibrariesOfInputs(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.Codes.Proof = "a.b.c"
	b, s := embeddedBeside(t, browser, w, browsertest.Look{}, `<form method="post">`+tag(`name="proof" required`)+
		`<input name="proof" value="own"></form><form id="get"></form>`, "")
	b.first(`window.jQuery = (form) => ({ data: () => ({ validator: {} }), // as jQuery 3 does
		serialize: () => [...form.elements].filter((e) => e.name && !e.matches(':disabled') && /^(?:input|select|textarea|keygen)/i.test(e.nodeName)).map((e) => e.name + '=' + e.value).join('&') });`)
	b.do(chromedp.Navigate(s.URL))
	b.card("ask")
	b.run(`window.form = document.forms[0], window.el = document.querySelector('send-code'), window.submits = 0, form.noValidate = true`,
		`form.addEventListener('submit', (e) => { e.preventDefault(); submits++; })`)
	b.await("the code's module", func() bool { return eval[bool](b, `(form.requestSubmit(), submits) === 0`) })
	is(t, eval[string](b, `jQuery(form).serialize()`), "proof=own")
	b.asked(pagetest.Address)
	b.getsIn()
	const given = `jQuery(form).serialize().split('&').sort().join('&') + ' ' + new FormData(form).getAll('proof').sort().join()`
	for _, act := range []string{`0`, `el.replaceChildren()`, `document.body.append(el), el.setAttribute('form', form.id = 'f')`} {
		b.run(act)
		b.rest(glance)
		is(t, act+": "+eval[string](b, given), act+": proof=a.b.c&proof=own a.b.c,own")
	}
	is(t, eval[int](b, `(form.requestSubmit(), submits)`), 1)
	b.tolerate = "this form gets no proof"
	b.run(`el.setAttribute('form', 'get'), el.required = false, window.form = document.querySelector('#get')`)
	is(t, eval[string](b, given), " ")
	b.run(`el.value = ''`)
	is(t, eval[int](b, `el.childElementCount`), 0)
}

// aWidgetKeepsTheContractOfAField tests that the widget behaves like an input in a form, and that
// autofocus works.
func aWidgetKeepsTheContractOfAField(t *testing.T, browser context.Context) {
	b := embedded(t, browser, accepting(t), browsertest.Look{}, `<main></main>`+tag(`autofocus`))
	b.focused("to")
	b.until(`document.querySelector('send-code').tabIndex === 0 && document.querySelector('send-code').hasAttribute('tabindex')`)
	is(t, eval[string](b, `[undefined, -1].map((given) => {
		const el = document.createElement('send-code');
		if (given) el.tabIndex = given;
		document.body.append(el);
		el.remove();
		return el.getAttribute('tabindex');
	}).join()`), "0,-1") // for dialogs that count the elements that Tab can reach
	for _, differs := range eval[[]string](b, contract) {
		t.Error(differs)
	}
	b.fills("to", "x")
	b.run(`document.querySelector('send-code').disabled = true`)
	b.run(b.q("#send") + `.click()`)
	is(t, eval[string](b, b.q("#to")+`.value + `+b.q("#to")+`.matches(':disabled')`), "xtrue")
	is(t, len(b.world.Codes.SendRequests()), 0)
}

// aPressOnTextSelectsText tests that a press on a text does not affect the fields, and that text
// can be selected. A press on a label moves the focus to its field.
func aPressOnTextSelectsText(t *testing.T, browser context.Context) {
	b := embedded(t, browser, accepting(t), browsertest.Look{}, tag(""))
	b.card("ask")
	for _, text := range []string{"#heading", ".lead", ".aside"} {
		b.click(text)
		b.rest(glance)
		is(t, eval[bool](b, b.root+`.activeElement?.id !== 'to' && `+b.q("#card")+`.getAttribute('tabindex') === null`), true)
	}
	b.click("label")
	b.focused("to")
	b.asked(pagetest.Address)
	b.card("code")
	b.run(b.root + `.activeElement.blur()`)
	at := eval[[]float64](b, `(({ x, y, width, height }) => [x + 1, y + height / 2, x + width - 1])(`+b.q(".lead strong")+`.getBoundingClientRect())`)
	mouse := func(kind input.DispatchMouseEventType, x float64) {
		b.do(browsertest.Command(input.DispatchMouseEvent,
			input.DispatchMouseEventParams{Type: kind, X: x, Y: at[1], Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1}))
	}
	mouse("mousePressed", at[0])
	mouse("mouseMoved", (at[0]+at[2])/2)
	mouse("mouseMoved", at[2])
	mouse("mouseReleased", at[2])
	b.until(`String(getSelection()).includes('example.com')`)
	is(t, eval[bool](b, b.root+`.activeElement?.id !== 'code'`), true)
}

// aWidgetUnderForeignCSS tests that the widget inherits nothing from the styles that its page sets
// for text.
func aWidgetUnderForeignCSS(t *testing.T, browser context.Context) {
	b := embedded(t, browser, accepting(t), browsertest.Look{}, tag(""))
	const styles = `[...document.querySelector('send-code').shadowRoot.querySelectorAll(':not(.visually-hidden)')].flatMap((e, i) => { const s = getComputedStyle(e); return [...s].map((name) => i + e.localName + ' ' + name + ' ' + s.getPropertyValue(name)) })`
	const foreign = `html { font-size: 62.5% } body, body * { color: red; font: italic 700 30px/3 cursive; font-variant: small-caps; letter-spacing: 3px; word-spacing: 9px; white-space: nowrap;
		text-align: right; text-indent: 2em; text-transform: uppercase; text-shadow: 1px 1px red; word-break: break-all; hyphens: auto; cursor: wait; list-style: square; line-break: anywhere;
		-webkit-text-fill-color: red; -webkit-text-stroke: 1px red; quotes: none; tab-size: 1; writing-mode: vertical-rl; text-orientation: upright; accent-color: red; caret-color: red; user-select: none }
		send-code { writing-mode: horizontal-tb; inline-size: 400px }`
	b.card("ask")
	b.run(`document.querySelector('send-code').style.width = '400px'`, `window.plain = `+styles)
	b.run(`(() => { const s = new CSSStyleSheet(); s.replaceSync(` + "`" + foreign + "`" + `); document.adoptedStyleSheets = [s] })()`)
	if got := eval[[]string](b, styles+`.filter((each, i) => each !== plain[i])`); len(got) > 0 {
		t.Errorf("%d styles come from the page around: %q", len(got), got[:min(8, len(got))])
	}
}

// aWidgetInTheReadersSize tests that the widget has the font size that the reader chose in the
// browser, whatever font size the page sets for its root.
func aWidgetInTheReadersSize(t *testing.T, browser context.Context) {
	b, s := embeddedBeside(t, browser, accepting(t), browsertest.Look{}, tag(""), `html { font-size: 10px }`)
	b.do(browsertest.Command(page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: 32}}),
		chromedp.Navigate(s.URL))
	b.card("ask")
	is(t, eval[string](b, `getComputedStyle(`+b.q("#send")+`).fontSize`), "32px")
	b.run(`document.querySelector('send-code').style.setProperty('--rem', '20px')`)
	is(t, eval[string](b, `getComputedStyle(`+b.q("#send")+`).fontSize`), "20px")
	// A long address breaks only at its @ and its dots.
	b.do(browsertest.Look{Width: 375, Height: 700}.Apply())
	b.run(`document.querySelector('send-code').style.setProperty('--rem', '32px')`)
	b.asked("anna.b@mail.shop-example.co.uk")
	b.card("code")
	is(t, eval[string](b, `[...`+b.q(".lead strong")+`.childNodes].filter((n) => n.data).map((n) => {
		const r = document.createRange();
		r.selectNodeContents(n);
		return n.data + r.getClientRects().length;
	}).join(' ')`), "a•••1 @mail.1 shop1 xample.1 co.1 uk1")
	is(t, eval[bool](b, b.q(".lead strong")+`.offsetHeight > 50`), true)
	is(t, eval[bool](b, `document.documentElement.scrollWidth > innerWidth`), false)
}

// propertiesAreSetBeforeTheScript tests a page that sets properties before the widget's script has
// loaded. React then writes publicKey as an attribute, whose name HTML converts to lower case.
func propertiesAreSetBeforeTheScript(t *testing.T, browser context.Context) {
	w := accepting(t)
	b, s := embeddedBeside(t, browser, w, browsertest.Look{},
		`<form><send-code></send-code></form><send-code id="two" publickey="`+pagetest.PublicKey+`"></send-code>`, "")
	b.first(`document.addEventListener('readystatechange', () => {
		if (document.readyState !== 'interactive') return;
		window.early = !customElements.get('send-code');
		Object.assign(document.querySelector('send-code'), { publicKey: '` + pagetest.PublicKey + `', purpose: 'gift', channels: 'email',
			country: 'DE', to: '` + pagetest.Address +
		`', locale: 'es', reference: 'r-1', name: 'proof', required: true, value: '', type: 'x' });
	})`)
	b.do(chromedp.Navigate(s.URL))
	b.card("ask", "Pide un código")
	is(t, eval[bool](b, `early`), true)
	// no instance property hides the element's own accessors
	is(t, eval[string](b, `Object.keys(document.querySelector('send-code')).join()`), "")
	is(t, eval[bool](b, `document.querySelector('form').checkValidity()`), false)
	b.click("#send")
	b.card("code", "a•••@example.com")
	request := w.Codes.SendRequests()[0]
	is(t, [3]string{request.Purpose, request.Reference, request.To}, [3]string{"gift", "r-1", pagetest.Address})
	b.run(`document.querySelector('send-code').purpose = 'default'`) // after loading, the element's own setter is used
	b.card("ask")
	b.root = `document.querySelector('#two').shadowRoot`
	b.asked("ben@example.com")
	b.card("code", "b•••@example.com")
}

// aWidgetTellsItsPage tests the events of a failed mail, another recipient, a wrong code and an
// expired code. The widget forgets a verification that the service no longer has.
func aWidgetTellsItsPage(t *testing.T, browser context.Context) {
	w := running(t)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	b.card("ask")
	b.run(`document.querySelector('send-code').focus()`)
	b.focused("to")
	b.asked(" ")
	b.card("ask", "Enter your email address.")
	b.asked("noone")
	b.card("ask", "Include an @")
	b.until(b.q("#to[aria-invalid=true]") + `.value === 'noone'`)
	b.asked(pagetest.Address)
	b.card("code", "On its way", "Sending a code to a•••@example.com")
	w.Codes.Settle(store.Failed)
	b.card("failed", "Could not be delivered", "did not reach a•••@example.com", "didn't count. You can try again now")
	b.awaitEvent("failed", `"reason":"undelivered"`)
	b.click("[data-act=change]")
	b.card("ask", "Back to the code")
	b.asked("ben@example.com")
	b.card("code", "b•••@example.com")
	b.awaitEvent("changed", `"to":"b•••@example.com"`, `"channel":"email"`)
	b.keys("111111")
	b.awaitEvent("wrong", `"id":`, `"attempts_remaining":4`)
	b.pass(11 * time.Minute)
	b.card("ended", "This code has expired", "You can have a new one sent to b•••@example.com")
	b.awaitEvent("expired", `"status":"expired"`)
	is(t, eval[int](b, `heard.filter(([name]) => name === 'expired').length`), 1) // the page gets one event
	b.ready()
	b.click("#again") // the address is still there
	b.card("code", "On its way", "b•••@example.com")
	w.Codes.Erase()
	b.do(chromedp.Reload())
	b.card("ask")
	b.nothingKeptBut("")
}

// aWidgetIsResetWhileItAsks tests that an answer to a request from before the reset changes
// nothing.
func aWidgetIsResetWhileItAsks(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	const reset = `document.querySelector('send-code').reset()`
	pause := func() { b.rest(600 * time.Millisecond) }
	b.card("ask")
	b.run(b.q("#to")+`.value = 'ana@example.com'`, b.q("#send")+`.click()`, reset) // before the module has loaded
	pause()
	b.card("ask")
	is(b, b.value("#to"), "")
	is(t, len(w.Codes.SendRequests()), 0)
	letGo := w.Codes.BlockSends()
	b.asked(pagetest.Address)
	b.until(b.q(".busy"))
	pause()
	b.run(reset)
	letGo()
	b.await("an answer", func() bool { return w.Codes.Sends() == 1 })
	pause()
	b.card("ask")
	b.nothingKeptBut("")
}

// aWidgetMakesOneRequestAtFirst tests that, until its field gets the focus, a widget makes only one
// request, which asks whether its page may use the key. Nothing around the widget moves if the page
// has the documented line that reserves the widget's height before the script has loaded.
func aWidgetMakesOneRequestAtFirst(t *testing.T, browser context.Context) {
	const tall = 12
	height := strings.TrimSpace(strings.Split(example(t, "css")[0], "\n")[0])
	for _, width := range []int64{320, 1280} {
		w := accepting(t)
		markup := tag("") + `<p id="below">Terms of Shop</p>`
		b, s := embeddedBeside(t, browser, w, browsertest.Look{Width: width, Height: 900, Lang: "en"}, markup, height)
		b.first(shifting(0))
		b.do(slow(400*time.Millisecond, 400_000/8))
		b.do(chromedp.Navigate(s.URL))
		b.card("ask", "Get a code")
		b.until(fmt.Sprintf(`performance.getEntriesByType('resource').some((e) => e.name === %q)`,
			w.URL+"v1/channels?purpose=&locale=en"))
		got := eval[[]string](b, fmt.Sprintf(
			`performance.getEntriesByType('resource').filter((e) => e.name.startsWith(%q)).map((e) => new URL(e.name).pathname)`, w.URL))
		// the answer to the card's request says whether the page may use the key
		if strings.Join(got, " ") != "/widget.js /v1/channels" {
			t.Errorf("at %d px it is %v", width, got)
		}
		if moved := eval[[]string](b, `shifts`); len(moved) > 0 {
			t.Errorf("at %d px the page moves: %v", width, moved)
		}
		const below = `(() => { const e = document.querySelector('send-code'); return e.offsetHeight - e.shadowRoot.querySelector('#card').offsetHeight })()`
		if spare := eval[float64](b, below); spare < 0 || spare > tall {
			t.Errorf("at %d px the kept height is %v px more than the card's", width, spare)
		}
		b.asked(pagetest.Address)
		b.getsIn()
		is(t, eval[float64](b, below), 0) // the reserved height is released
	}
}

// slow gives a tab a connection with this latency and bandwidth, like that of a telephone.
func slow(latency time.Duration, bytesPerSecond float64) chromedp.Action[chromedp.Void] {
	return browsertest.Command(network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{
			Latency: float64(latency.Milliseconds()), DownloadThroughput: bytesPerSecond,
			UploadThroughput: bytesPerSecond,
		}},
	})
}

// shifting returns a script that records in window.shifts each layout shift with a score above
// least. The score grows with the part of the window that moves, and with the distance.
func shifting(least float64) string {
	return fmt.Sprintf(`window.shifts = [];
		const source = (s) => [s.node?.nodeName + '#' + s.node?.id, JSON.stringify(s.previousRect), JSON.stringify(s.currentRect)].join(' ');
		new PerformanceObserver((list) => shifts.push(...list.getEntries().filter((e) => e.value > %v)
			.map((e) => [e.value, ...e.sources.map(source)].join(' ')))).observe({ type: 'layout-shift', buffered: true })`, least)
}

// aWidgetHasTheBrandOfItsApp tests that the first card has the purpose's title and the app's
// accent, as on our page. An accent of the site around it takes precedence.
func aWidgetHasTheBrandOfItsApp(t *testing.T, browser context.Context) {
	for css, want := range map[string][2]string{ // the button's colour in the light and in the dark scheme
		"":                                      {"rgb(11, 122, 92)", "rgb(99, 192, 158)"},
		`send-code { --accent: rebeccapurple }`: {"rgb(102, 51, 153)", "rgb(102, 51, 153)"},
	} {
		w := accepting(t)
		w.Codes.SetAccent("#0b7a5c")
		b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(`purpose="confirm"`), css)
		b.do(chromedp.Navigate(s.URL))
		b.card("ask", "Get a code to confirm your address")
		for i, dark := range []bool{false, true} {
			b.do(browsertest.Look{Dark: dark, Lang: "en", Width: 800, Height: 700}.Apply())
			is(t, eval[string](b, `getComputedStyle(`+b.q("#send")+`).backgroundColor`), want[i])
		}
		b.run(`document.querySelector('send-code').setAttribute('locale', 'es')`)
		b.card("ask", "para confirmar tu dirección")
	}
}

// aWidgetFollowsItsPagesLanguage tests a language that is set on an ancestor after the widget has
// started, even on one outside the component that contains the widget.
func aWidgetFollowsItsPagesLanguage(t *testing.T, browser context.Context) {
	b := embedded(t, browser, world(t), browsertest.Look{}, `<main><p></p>`+tag("")+`</main>`)
	b.card("ask", "Get a code")
	b.types("to", "ana@exa")
	b.run(`document.documentElement.lang = 'es'`)
	b.card("ask", "Pide un código")
	is(t, b.value("#to"), "ana@exa")
	b.run(`document.querySelector('main').lang = 'zh-CN'`)
	b.card("ask", "获取验证码")
	b.run(`document.querySelector('send-code').setAttribute('locale', 'es')`, `document.querySelector('main').lang = 'ar'`)
	b.card("ask", "Pide un código")
	b.run(`document.querySelector('send-code').removeAttribute('locale')`)
	b.card("ask", "احصل على رمز")
	b.run(`window.el = document.querySelector('send-code')`, `document.querySelector('main').removeAttribute('lang')`,
		`document.querySelector('p').attachShadow({ mode: 'open' }).append(el)`)
	b.root = `el.shadowRoot`
	b.card("ask", "Pide un código") // the document's language
	b.run(`document.documentElement.lang = 'en'`)
	b.card("ask", "Get a code")
}

// aWidgetSpeaksALanguage tests that screen readers and programs also get the widget's language,
// whatever the language of the page around it. For a language that the service lacks, the widget
// uses English, and warns the developer.
func aWidgetSpeaksALanguage(t *testing.T, browser context.Context) {
	for locale, spoken := range map[string]string{"ar": "ar rtl", "xx": "en ltr"} {
		b := embedded(t, browser, world(t), browsertest.Look{}, tag(`locale="`+locale+`"`))
		b.tolerate = "no texts in"
		b.card("ask")
		for _, part := range []string{"#card", "#offline", "#say"} {
			is(t, eval[string](b, `(({ lang, dir }) => lang + ' ' + dir)(`+b.q(part)+`.closest('[lang]') ?? {})`), spoken)
		}
		if locale == "xx" {
			b.await("a word to the developer", func() bool { return b.consoleHas("no texts in xx") })
		}
	}
}
