package page_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// moves has ways in which a host may move an element: between two places, or with its form.
var moves = map[string]string{
	"appended": `other().append(el)`, "moved": `other().moveBefore(el, null)`,
	"replaced": `other().replaceChildren(el)`, "taken out and put back": `el.remove(), await rest(50), other().append(el)`,
	"taken out and put back at once": `el.remove(), other().append(el)`,
	"moved with the form":            `document.body.append(el.form)`,
}

// aWidgetIsMoved moves a widget in each way, in two pages. In `make nightly`, each way is tried at
// each step.
func aWidgetIsMoved(t *testing.T, browser context.Context) {
	ways := slices.Sorted(maps.Keys(moves))
	half := len(ways) / 2
	movedAtEachStep(t, browser, slices.Clone(ways))
	movedAtEachStep(t, browser, slices.Concat(ways[half:], ways[:half]))
}

// movedAtEachStep tests that a widget which its host moves loses nothing: neither the typed text,
// nor a request under way, nor the proof. The five moves are made in these ways, in turn.
func movedAtEachStep(t *testing.T, browser context.Context, ways []string) {
	t.Helper()
	t.Log(ways)
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{},
		`<form method="post"><p id="one">`+tag(`name="proof" required`)+`</p><p id="two"></p></form>`)
	b.run(`window.el = document.querySelector('send-code')`, `window.rest = (ms) => new Promise((go) => setTimeout(go, ms))`,
		`window.other = () => document.querySelector(el.closest('#one') ? '#two' : '#one')`)
	moved := func() {
		b.Helper()
		eval[bool](b, `(async () => { `+moves[ways[0]]+`; await rest(50); return true })()`)
		ways = append(ways[1:], ways[0])
	}
	b.types("to", "ana@exa")
	moved()
	is(t, b.value("#to"), "ana@exa")
	b.run(`el.setAttribute('locale', 'es')`) // a new language redraws the widget
	b.card("ask", "Pide un código")
	is(t, b.value("#to"), "ana@exa")
	b.run(`el.removeAttribute('locale')`)
	b.card("ask", "Get a code")
	b.types("to", "mple.com")
	letGo := w.Codes.BlockSends()
	b.run(b.q("#send") + `.click()`)
	b.await("a request", func() bool { return eval[bool](b, b.q(".busy")+` !== null`) })
	moved()
	letGo()
	b.card("code", "a•••@example.com")
	is(t, w.Codes.Sends(), 1)
	b.types("code", "4829")
	moved()
	is(t, b.value("#code"), "4829")
	b.run(fmt.Sprintf(losing, 1, `throw new TypeError('lost')`))
	b.types("code", "13")
	moved()
	b.card("approved")
	proof := b.proof()
	moved()
	is(t, b.proof(), proof)
	is(t, eval[bool](b, `el.form.checkValidity() && new FormData(el.form).get('proof') === el.value && el.value !== ''`), true)
	b.card("approved", "a•••@example.com")
	is(t, [2]int{w.Codes.Sends(), w.Codes.Checks()}, [2]int{1, 1})
}

// aWidgetIsDrawnAgain tests a host that redraws the widget and restores the proof: as an attribute,
// or as the property, before or after the script has loaded.
func aWidgetIsDrawnAgain(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, `<form method="post">`+tag(`name="proof" required`)+`</form>`)
	b.asked(pagetest.Address)
	b.getsIn()
	b.run(`window.proof = document.querySelector('send-code').value`, `window.form = document.querySelector('form')`)
	const again = `window.el = document.createElement('send-code'), el.publicKey = '` + pagetest.PublicKey +
		`', el.name = 'proof', el.required = true`
	given := func(draw ...string) {
		b.Helper()
		b.run(draw...)
		is(t, eval[bool](b, `form.checkValidity() && new FormData(form).get('proof') === proof`), true) // at once
		b.card("approved", "a•••@example.com")
		is(t, b.proof(), eval[string](b, `proof`))
	}
	given(again, `el.setAttribute('value', proof)`, `form.replaceChildren(el)`)
	given(again, `el.value = proof`, `form.replaceChildren(el)`)
	given(again, `form.replaceChildren(el)`, `el.value = 'x'`, `el.value = proof`)
	b.run(again, `form.replaceChildren(el)`)
	b.types("to", "ana@exa")
	given(`el.value = proof`) // even while the person types
	b.run(`el.value = 'another'`)
	is(t, b.proof(), eval[string](b, `proof`))
	b.run(`el.value = ''`)
	b.card("ask")
	is(t, b.proof(), "")
	w.Codes.Erase()
	b.run(`window.told = []`, `form.addEventListener('change', () => told.push(el.value))`, `el.value = proof`)
	b.card("ask") // the service does not know this verification
	b.until(`told.join() === '' && told.length === 1 && !form.checkValidity()`)
	is(t, eval[int](b, `heard.filter(([name]) => name === 'approved').length`), 1)
}

// aConfirmationEnds tests the end of a proof. The widget shows until when the proof is valid, and
// later that the confirmation has ended. It keeps the address. The same texts appear for a proof
// that ended before the page restored it.
func aConfirmationEnds(t *testing.T, browser context.Context) {
	w := accepting(t)
	b := embedded(t, browser, w, browsertest.Look{}, `<form method="post">`+tag(`name="proof" required`)+`</form>`)
	b.asked(pagetest.Address)
	b.getsIn("Use it by", "After that, you need a new code.")
	b.run(`window.form = document.querySelector('form')`, `window.el = form.firstChild`, `window.proof = el.value`, `window.told = []`,
		`['input', 'change'].forEach((name) => form.addEventListener(name, () => told.push(name + el.value)))`)
	b.pass(29 * time.Minute)
	b.rest(longer)
	b.card("approved")
	is(t, b.proof(), eval[string](b, `proof`))
	b.pass(time.Minute + 2*time.Second)
	b.card("ask", "Your confirmation has ended. Ask for a code once more.")
	b.says("Your confirmation has ended.")
	is(t, b.value("#to"), pagetest.Address)
	is(t, eval[bool](b, `el.value === '' && !form.checkValidity() && told.join() === 'input,change'`), true)
	b.awaitEvent("expired", `"status":"approved"`)
	b.run(`el.value = proof`)
	b.until(`el.value === ''`)
	b.card("ask", "Your confirmation has ended.")
	b.fills("to", pagetest.Address+kb.Enter)
	b.getsIn()
}

// proof returns the element's value.
func (t *tab) proof() string {
	t.Helper()
	return eval[string](t, `document.querySelector('send-code').value`)
}
