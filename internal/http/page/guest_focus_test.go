package page_test

import (
	"cmp"
	"html"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// elsewhere has places for pw, a field of the page in which a person types while answers arrive.
// body is part of the page, and put moves pw to its place. open runs before each answer. read is an
// expression for pw's text.
var elsewhere = map[string]struct{ body, put, open, read string }{
	"in a modal dialog": {body: `<dialog></dialog>`, put: `document.querySelector('dialog').append(pw)`, open: `document.querySelector('dialog').showModal()`},
	"in a popover": {
		body: `<div popover="manual"></div>`, put: `document.querySelector('[popover]').append(pw)`,
		open: `document.querySelector('[popover]').showPopover()`,
	},
	"in an editor":      {body: `<p contenteditable tabindex="0" id="edited"></p>`, put: `window.pw = document.querySelector('#edited')`, read: `pw.textContent`},
	"in another widget": {body: tag(`id="two"`), put: `window.pw = document.querySelector('#two')`, read: `pw.shadowRoot.querySelector('#to').value`},
	"in a component within a component": {
		put: `(() => { const outer = document.createElement('p'), inner = document.createElement('p');
			document.body.append(outer); outer.attachShadow({ mode: 'closed' }).append(inner); inner.attachShadow({ mode: 'closed' }).append(pw); })()`,
	},
	"beside a widget in two components": {
		put: `(() => { const outer = document.createElement('p'), inner = document.createElement('p');
			document.body.append(outer); outer.attachShadow({ mode: 'closed' }).append(pw, inner); inner.attachShadow({ mode: 'closed' }).append(el); })()`,
	},
	"while the widget is taken out and put back": {
		body: `<p></p>`, open: `setTimeout(() => { el.remove(); setTimeout(() => document.querySelector('p').append(el), 30); }, 30)`,
	},
	"while the page resets another widget": {body: tag(`id="two"`), open: `setTimeout(() => { document.querySelector('#two').reset(); document.querySelector('#two').setAttribute('locale', 'es'); }, 30)`},
}

// answersMoveNoFocus tests answers that arrive while the person types in another field of the page.
// Every key reaches that field, and the status line has the answer.
func answersMoveNoFocus(t *testing.T, tab *browsertest.Tab) {
	for name, c := range elsewhere {
		t.Run(name, func(t *testing.T) {
			g := visits(t, tab, accepting(t), tag("")+c.body+`<input id="pw">`, "")
			g.card("ask")
			g.run(`window.pw = document.querySelector('#pw')`, cmp.Or(c.put, "0"), `window.holding = (method) => method === 'POST'`)
			g.card("ask")
			text := ""
			later := func(kind, said string) {
				g.Helper()
				g.Until(`held.length === 1`)
				g.run(cmp.Or(c.open, "0"), `pw.focus()`)
				g.keys("correct")
				g.run(`held.shift()()`)
				g.card(kind)
				g.says(said)
				g.keys("horse")
				text += "correcthorse"
				is(t, browsertest.Value[string](g.Page, cmp.Or(c.read, `pw.value`)), text)
				g.is(`!el.shadowRoot.activeElement`)
				g.run(`document.querySelector('dialog')?.close()`, `document.querySelector('[popover]')?.hidePopover()`)
			}
			g.asks(pagetest.Address)
			later("code", "Check your mail")
			g.is(`el.shadowRoot.querySelector('#code').value === ''`)
			g.enters("111111")
			later("code", "That code is wrong")
			g.enters(pagetest.Code)
			later("approved", "Email confirmed")
			g.wantNoScriptErrors()
		})
	}
}

// aLateAutofocusFollowsTheBrowser tests a script that adds a widget with autofocus while a person
// types. The focus moves only in a browser that would also move it to an input with autofocus, as
// WebKit does.
func aLateAutofocusFollowsTheBrowser(t *testing.T, tab *browsertest.Tab) {
	moves := func(late string) bool {
		t.Helper()
		g := visits(t, tab, accepting(t), tag("")+`<p></p><input id="pw">`, "") // a browser may follow autofocus only once in each document
		g.card("ask")
		g.run(`document.querySelector('#pw').focus()`)
		g.keys("correct")
		g.run(`window.late = `+late, `late.autofocus = true`, `document.querySelector('p').append(late)`)
		g.Until(`late.localName === 'input' || late.shadowRoot.querySelector('#to')`)
		g.rest()
		g.keys("horse")
		moved := browsertest.Value[bool](g.Page, `document.activeElement !== document.querySelector('#pw')`)
		g.is(`document.activeElement === late || document.querySelector('#pw').value === 'correcthorse'`)
		g.wantNoScriptErrors()
		return moved
	}
	moved := moves(`document.createElement('input')`)
	is(t, moves(`Object.assign(document.createElement('send-code'), { publicKey: el.publicKey })`), moved)
}

// answersMoveNoFocusOutOfASlot tests a field that the page has put into a slot of the widget: it
// keeps the focus when an answer arrives.
func answersMoveNoFocusOutOfASlot(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), `<send-code public-key="`+pagetest.PublicKey+`"><span slot="lead"><input id="pw"></span></send-code>`, "")
	g.asks("ana@")
	g.card("ask", "after the @")
	g.run(`window.holding = (method) => method === 'POST'`)
	g.Fill("#to", "ben@\r")
	g.Until(`held.length === 1`)
	g.run(`document.querySelector('#pw').focus()`)
	g.keys("correct")
	g.run(`said.length = 0`, `held.shift()()`)
	g.says("Something is missing after the @")
	g.run(`await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))`) // meanwhile the slot is rendered again
	g.keys("horse")
	is(t, browsertest.Value[string](g.Page, `document.querySelector('#pw').value`), "correcthorse")
}

// framed returns a page with a frame, in which el is the widget.
func framed(attributes string) string {
	return `<input id="pw"><iframe width="600" height="600" srcdoc="` + html.EscapeString(
		`<!doctype html><html lang="en"><script src="/own.js"></script><script type="module" src="SERVICE/widget.js"></script>`+tag(attributes)) +
		`"></iframe>`
}

// answersMoveNoFocusOutOfAFrame tests answers after the person has moved the focus to the page
// around a frame. The frame's own document still reports that the focus is in the widget.
func answersMoveNoFocusOutOfAFrame(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), framed(""), "")
	g.Root = "frames[0]?.el?.shadowRoot"
	g.card("ask")
	g.run(`frames[0].holding = (method) => method === 'POST'`)
	text := ""
	later := func(kind string) {
		g.Helper()
		g.Until(`frames[0].held.length === 1`)
		g.is(g.Root + `.activeElement`)
		g.run(`document.querySelector('#pw').focus()`)
		g.keys("correct")
		g.run(`frames[0].held.shift()()`)
		g.card(kind)
		g.keys("horse")
		text += "correcthorse"
		is(t, browsertest.Value[string](g.Page, `document.querySelector('#pw').value`), text)
	}
	g.asks(pagetest.Address)
	later("code")
	g.enters("111111")
	later("code")
	g.run(`document.querySelector('iframe').focus()`) // the person returns to the frame
	g.Until(g.Root + `.activeElement?.id === 'code'`)
	g.keys("12")
	g.Until(g.Root + `.querySelector('#code').value === '12'`)
}

// aRedrawnWidgetKeepsTheFocus tests pages that redraw the widget while the person types in it.
// Every key still reaches the field.
func aRedrawnWidgetKeepsTheFocus(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag("")+`<p></p>`, "")
	g.card("ask")
	g.Fill("#to", "ana@")
	for _, change := range []struct{ act, heading string }{
		{`document.documentElement.lang = 'es'`, "Pide un código"},
		{`el.setAttribute('locale', 'zh-CN')`, "获取验证码"},
		{`el.removeAttribute('locale')`, "Pide un código"},
		{`document.documentElement.lang = 'en'`, "Get a code"},
	} {
		g.run(change.act)
		g.card("ask", change.heading)
		g.keys("x")
	}
	g.Until(`el.shadowRoot.querySelector('#to').value === 'ana@xxxx'`)
	g.run(`el.reset()`)
	g.Until(`el.shadowRoot.querySelector('#to').value === ''`)
	g.keys(pagetest.Address + "\r")
	g.card("code")
	g.keys("48")
	g.run(`document.documentElement.lang = 'es'`)
	g.Until(g.Element("#frame") + `.lang === 'es'`)
	g.keys("29")
	g.Until(`el.shadowRoot.querySelector('#code').value === '4829'`)
	g.run(`el.shadowRoot.querySelector('#code').setSelectionRange(0, 1)`, `document.documentElement.lang = 'en'`)
	g.Until(g.Element("#frame") + `.lang === 'en'`)
	g.keys("7")
	g.Until(`el.shadowRoot.querySelector('#code').value === '7829'`)
	g.run(`el.reset()`)
	g.Until(`el.shadowRoot.activeElement?.id === 'to'`)
	g.wantNoScriptErrors()
}

// aNewCardWaitsForAnInputMethod tests a card that the widget would show by itself while an input
// method composes letters. It shows the card when the composition has ended, and the letters stay
// in the field.
func aNewCardWaitsForAnInputMethod(t *testing.T, tab *browsertest.Tab) {
	w := running(t)
	w.SendLetters()
	g := visits(t, tab, w, tag(""), "")
	g.asks(pagetest.Address)
	g.card("code", "On its way")
	g.run(`window.field = el.shadowRoot.querySelector('#code')`, `field.focus()`,
		`window.compose = (name, init) => field.dispatchEvent(name === 'input' ? new InputEvent(name, { bubbles: true, composed: true, ...init })
			: new CompositionEvent(name, { bubbles: true, composed: true, ...init }))`,
		`compose('compositionstart')`, `field.value = 'bk'`, `compose('input', { isComposing: true })`)
	w.Codes.Settle("sent")
	g.rest()
	g.rest()
	g.is(`field.isConnected`)
	g.run(`compose('compositionend')`)
	g.card("code", "Check your mail")
	g.Until(`el.shadowRoot.querySelector('#code').value === 'bk' && el.shadowRoot.activeElement.id === 'code'`)
}
