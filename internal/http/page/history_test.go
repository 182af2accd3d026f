package page_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// backLeadsToTheCode tests the history: Back leads from the field for another address to the code,
// and from the code out of the page. Forward leads to that field again. The card's own links add no
// other entries to the history.
func backLeadsToTheCode(t *testing.T, browser context.Context) {
	b := open(t, browser, accepting(t), browsertest.Look{})
	b.visit("static/icon.svg")
	b.visit("")
	b.asked(pagetest.Address)
	b.card("code")
	entries := eval[int](b, `history.length`)
	b.click("#go-change")
	b.card("ask")
	b.until(`history.state?.aside`)
	b.run("setTimeout(() => history.back())")
	b.card("code")
	b.run(`history.forward()`)
	b.click("#go-back") // the button of the card
	b.card("code")
	b.until(`!history.state`)
	b.click("#go-change")
	b.asked("ben@example.com")
	b.card("code", "b•••@example.com")
	b.until(`!history.state`)
	is(t, eval[int](b, `history.length`), entries+1) // with the entry to which Forward leads
	b.click("#go-change")
	b.card("ask")
	b.do(chromedp.Reload())
	b.card("code", "b•••@example.com")
	b.until(`!history.state`)
	b.run(`setTimeout(() => history.back())`)
	b.until(`location.pathname === '/static/icon.svg'`)
}

// aReloadKeepsTheConfirmedCard tests that the card and its button stay for as long as the proof is
// valid. The text is different in another tab.
func aReloadKeepsTheConfirmedCard(t *testing.T, browser context.Context) {
	b := open(t, browser, accepting(t), browsertest.Look{})
	b.first(`addEventListener('submit', (e) => e.preventDefault(), true)`) // so that the browser stays on the page
	b.visit("?return_url=https://app.example/")
	b.asked(pagetest.Address)
	b.card("code")
	other := b.beside()
	other.first(watchScript)
	other.visit("")
	other.card("code")
	b.getsIn()
	other.card("approved", "a•••@example.com", "continue there")
	other.says("Email confirmed. If you used it in another tab, continue there.")
	for range 2 {
		b.do(chromedp.Reload())
		b.card("approved", "a•••@example.com")
		b.until(`document.querySelector('form').elements.proof.value.split('.').length === 3`)
		b.until(`document.querySelector('[slot=approved] button').checkVisibility()`)
		b.until(b.q("h1") + `.textContent === 'Email confirmed'`)
		is(t, eval[string](b, "document.title"), "Email confirmed · Shop")
	}
	b.run(`history.replaceState({ proof: history.state.proof.replace(/\.(.*?)\./, (_, body) => '.' + btoa(JSON.stringify({ ...JSON.parse(atob(body.replaceAll('-', '+').replaceAll('_', '/'))), exp: 1 })) + '.') }, '')`)
	b.do(chromedp.Reload())
	b.asked("ben@example.com")
	b.getsIn()
	b.run(`document.querySelector('[slot=approved] .link').click()`) // starts again, for another address
	b.card("ask")
	b.do(chromedp.Reload())
	b.card("ask")
}

// aTabIsOpenDuringAnUpdate tests that a tab opened before an update says that it must be reloaded,
// and sends nothing. A tab that has loaded its modules still works.
func aTabIsOpenDuringAnUpdate(t *testing.T, browser context.Context) {
	w := accepting(t)
	early, late := open(t, browser, w, browsertest.Look{}), open(t, browser, w, browsertest.Look{})
	early.tolerate = "Failed to load resource"
	early.visit("")
	early.card("ask")
	late.visit("")
	late.asked(pagetest.Address)
	late.card("code")
	w.Update()
	early.fills("to", "ben@example.com"+kb.Enter)
	early.until(early.q("#offline") + `.innerText !== ''`) // immediately, if the module was missing even before the press
	early.keys(kb.Enter)
	early.until(early.q("#offline") + `.innerText.includes('Reload it')`)
	is(t, eval[string](early, `getComputedStyle(`+early.q("#offline")+`).borderInlineStart.slice(0, 9)`), "3px solid")
	is(t, early.value("#to"), "ben@example.com")
	is(t, w.Codes.Sends(), 1)
	late.getsIn()
}

// theFirstCardWaitsForNoNumbers tests a first card that begins with mail: it does not wait for the
// parts for text messages. These appear later, and a text that a person is typing stays.
func theFirstCardWaitsForNoNumbers(t *testing.T, browser context.Context) {
	w := phoning(t)
	b := open(t, browser, w, browsertest.Look{})
	letGo := w.HoldModules()
	b.visit("")
	b.card("ask", "Get a code")
	b.until(b.q("#by-email") + `.checked && ` + b.q("#to") + `.checkVisibility()`)
	b.types("to", "ana@ex")
	b.click("#by-sms")
	b.until(b.q(".by-sms .dots") + `.checkVisibility()`)
	letGo()
	b.until(b.q("#phone") + `?.checkVisibility()`)
	is(t, strings.Join(eval[[]string](b, `[...`+b.root+`.querySelectorAll('#country option')].map((o) => o.value)`), " "), "AT CN DE JM US")
	b.run(b.q("#country") + `.value = 'DE'`)
	b.fills("phone", pagetest.Number)
	b.click("#by-email")
	is(t, b.value("#to"), "ana@ex")
	b.click("#by-sms")
	b.click("#send")
	b.card("code", "+49")
}
