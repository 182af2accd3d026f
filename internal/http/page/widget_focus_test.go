package page_test

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// holdPostsScript is a script that holds back the answers to posts until a test calls the functions
// in the list held.
const holdPostsScript = `window.held = []; window.real = fetch; window.fetch = async (...all) => {
	const answer = await real(...all);
	if (all[1]?.method === 'POST') await new Promise((go) => held.push(go));
	return answer;
}`

// aLateAnswerMovesNoFocus tests answers that arrive while the person types in another field of the
// page, such as a password. The text stays in that field, and the status line has the answer.
func aLateAnswerMovesNoFocus(t *testing.T, browser context.Context) {
	for name, put := range map[string]string{
		"beside the field":     `0`,
		"within a component":   `document.querySelector('p').attachShadow({ mode: 'open' }).append(el)`,
		"both in a component":  `document.querySelector('p').attachShadow({ mode: 'open' }).append(el, pw)`,
		"the field in a frame": `document.querySelector('iframe').contentDocument.body.append(pw)`,
	} {
		t.Log(name)
		w := accepting(t)
		b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag("")+`<input id="pw"><p></p><iframe></iframe>`, "")
		b.do(browsertest.Command(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}), chromedp.Navigate(s.URL))
		b.run(`window.el = document.querySelector('send-code')`, `window.pw = document.querySelector('#pw')`, put)
		b.root = `el.shadowRoot`
		b.card("ask")
		b.run(holdPostsScript)
		text := ""
		later := func(answered func()) { // answered waits for the card of the answer
			b.Helper()
			b.until(`held.length === 1`)
			b.run(`pw.focus()`)
			b.keys("correct")
			b.run(`held.shift()()`)
			answered()
			b.keys("horse")
			text += "correcthorse"
			is(t, eval[string](b, `pw.value`), text)
			is(t, eval[bool](b, `pw.getRootNode().activeElement === pw && !el.shadowRoot.activeElement`), true)
		}
		b.fills("to", pagetest.Address+kb.Enter)
		later(func() { b.card("code"); b.says("Check your mail") })
		is(t, b.value("#code"), "")
		b.types("code", "111111")
		later(func() { b.card("code", "That code is wrong"); b.says("That code is wrong") })
		b.pass(61 * time.Second)
		b.ready()
		b.focus("again")
		b.keys(kb.Enter)
		later(func() { b.card("code", "Code sent again"); b.says("Check your mail") })
		b.focus("code")
		b.paste(pagetest.Code)
		later(func() { b.card("approved"); b.says("Email confirmed") })
	}
}

// aLateAnswerInAFrame tests answers that arrive in a widget in a frame, while the person types in
// the page around the frame. The frame's document can't detect where the focus is then.
func aLateAnswerInAFrame(t *testing.T, browser context.Context) {
	b, s := embeddedBeside(t, browser, accepting(t), browsertest.Look{}, tag("autofocus"), "")
	b.do(browsertest.Command(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}), chromedp.Navigate(s.URL))
	b.run(`document.body.replaceChildren(Object.assign(document.createElement('input'), { id: 'pw' }),
		Object.assign(document.createElement('iframe'), { name: 'inner', src: location.href, height: 500 }))`)
	b.focusOf(`document.querySelector('#pw')`)
	b.root = `frames.inner.document.querySelector('send-code')?.shadowRoot?`
	b.card("ask")
	b.rest(longer)
	b.keys("correct")
	b.run(`frames.inner.eval(` + "`" + holdPostsScript + "`" + `)`)
	b.root = `frames.inner.document.querySelector('send-code').shadowRoot`
	b.fills("to", pagetest.Address+kb.Enter)
	b.until(`frames.inner.held.length === 1`)
	b.run(b.root + `.activeElement.blur()`) // as Safari does when a button is pressed
	b.focusOf(`document.querySelector('#pw')`)
	b.run(`frames.inner.held.shift()()`)
	b.card("code")
	b.keys("horse")
	is(t, eval[string](b, `document.querySelector('#pw').value`), "correcthorse")
}

// aMessagesCodeMovesNoFocus tests a browser that fills in the code of a text message while the
// person types in another field. The focus stays in that field.
func aMessagesCodeMovesNoFocus(t *testing.T, browser context.Context) {
	w := phoning(t)
	b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(`channels="sms" country="DE"`)+`<input id="pw">`, "")
	b.first(messages)
	b.do(chromedp.Navigate(s.URL))
	b.until(b.q("#country"))
	b.run(b.q("#country") + `.value = 'DE'`)
	b.fills("phone", pagetest.Number+kb.Enter)
	b.card("code", "+49")
	b.until(`waits.length === 1`)
	b.focusOf(`document.querySelector('#pw')`)
	b.keys("correct")
	b.run(`waits[0].came('` + pagetest.Code + `')`)
	b.card("approved")
	b.keys("horse")
	is(t, eval[string](b, `document.querySelector('#pw').value`), "correcthorse")
	b.says("Number confirmed")
}

// aLateAnswerBringsTheFocus tests an answer that arrives while no element has the focus, as in
// browsers in which a pressed button does not get the focus. The answer moves the focus to the
// field for the code.
func aLateAnswerBringsTheFocus(t *testing.T, browser context.Context) {
	b := embedded(t, browser, accepting(t), browsertest.Look{}, tag("")+`<input id="pw">`)
	b.card("ask")
	b.run(holdPostsScript)
	b.fills("to", pagetest.Address+kb.Enter)
	b.until(`held.length === 1`)
	b.run(b.root+`.activeElement.blur()`, `held.shift()()`)
	b.card("code")
	b.focused("code")
}

// focusOf moves the focus to the element that an expression returns.
func (t *tab) focusOf(expression string) { t.Helper(); t.run(expression + `.focus()`) }
