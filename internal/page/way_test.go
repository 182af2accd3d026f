package page_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// running is a world whose clock runs.
func running(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := world(t, rules...)
	w.Run()
	return w
}

// accepting is running, and accepts each mail at once.
func accepting(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := running(t, rules...)
	w.Codes.Immediately = store.Sent
	return w
}

// sent is a running world where a code was sent to its visitor a moment ago.
func sent(t *testing.T) *pagetest.World {
	t.Helper()
	w := accepting(t)
	post(t, w, "", "send", "to", pagetest.Address)
	return w
}

// onItsWay is a running world whose visitor's code waits at the mail server.
func onItsWay(t *testing.T) *pagetest.World {
	t.Helper()
	w := running(t)
	post(t, w, "", "send", "to", pagetest.Address)
	return w
}

// theWholeWay goes by keyboard alone.
func theWholeWay(t *testing.T, browser context.Context) {
	w := running(t)
	b := visiting(t, browser, w)
	b.card("ask", "Your code for Shop")
	b.keys(kb.Tab)
	b.focused("to")
	b.keys(pagetest.Address + kb.Enter)
	b.card("code", "On its way", "Sending a code to a•••@example.com", "Send again in")
	b.focused("code")
	b.nothingKept()
	is(t, eval[string](b, "document.title"), "On its way · Shop")
	b.keys("482")
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your mail", "Code sent to a•••@example.com")
	is(b, b.value("#code"), "482")
	b.focused("code")
	b.keys("913") // checked without a further press
	b.card("approved", "a•••@example.com is confirmed.", "You can close this page.")
	b.focused("heading")
	b.says("Email confirmed. You can close this page.")
	b.nothingKept()
	is(t, w.Codes.Sends(), 1)
	is(t, w.Codes.Checks(), 1)
	b.do(chromedp.Reload())
	b.card("approved")
}

// onPageAndWidget runs a test in a tab that shows the page and in another that shows a widget, each
// where a code was sent a moment ago.
func onPageAndWidget(t *testing.T, browser context.Context, test func(b *tab)) {
	t.Run("page", func(t *testing.T) { test(visiting(t, browser, sent(t))) })
	t.Run("widget", func(t *testing.T) {
		b := embedded(t, browser, accepting(t), pagetest.Look{}, tag(""))
		b.asked(pagetest.Address)
		test(b)
	})
}

// wrongCodes are explained at the field. Each whole code that was not sent before is checked by
// itself; slips stay in the field, cost no try, and are mended by the next key.
func wrongCodes(t *testing.T, browser context.Context) { onPageAndWidget(t, browser, typesWrongCodes) }

func typesWrongCodes(b *tab) {
	b.card("code")
	tries := func(n int) {
		b.Helper()
		b.card("code", fmt.Sprintf("That code is wrong. %d tr", n))
		is(b, b.world.Codes.Checks(), 5-n)
	}
	for typed, words := range map[string]string{
		"48291": "The code has 6 digits.", "48291x": "digits only", " ": "Enter the code from the mail.",
	} {
		b.clear("code")
		b.paste(typed)
		b.keys(kb.Enter)
		b.card("code", words)
		b.focused("code")
		is(b, b.value("#code"), typed)
		b.keys("x")
		b.until(b.q("#code:not([aria-invalid])") + ` && !` + b.q("#code-error"))
		b.keys(kb.Backspace)
	}
	is(b, b.world.Codes.Checks(), 0)
	again := func(code string, n int) { // it is said again, and costs nothing
		b.Helper()
		before := eval[int](b, `said.length`)
		b.keys(code)
		tries(n)
		b.until(fmt.Sprintf(`said.length > %d && said.at(-1).startsWith('That code is wrong. %d tr')`, before, n))
		b.until(b.q("#code[aria-invalid=true]") + `.getAttribute('aria-describedby').split(' ').includes('code-error')`)
		is(b, b.value("#code"), "")
		b.focused("code")
	}
	for n := 4; n >= 3; n-- {
		b.clear("code")
		b.keys("11111" + fmt.Sprint(n)) // no further press
		tries(n)
		b.focused("code")
		b.until(b.q("#code[aria-invalid=true]") + `.getAttribute('aria-describedby').split(' ').includes('code-error')`)
		is(b, b.value("#code"), "")
		b.keys(kb.Enter) // out of habit
		tries(n)
		again("11111"+fmt.Sprint(n), n)
	}
	again("111114", 3) // the first one
	rest := func() {   // longer than after a deletion
		b.run(`window.rested = false`, `setTimeout(() => { window.rested = true }, 1200)`)
		b.until(`window.rested`)
	}
	b.paste("1111137") // too long
	b.keys(kb.Enter)
	b.card("code", "The code has 6 digits.")
	b.keys(kb.Backspace) // what is left was sent before
	rest()
	is(b, b.world.Codes.Checks(), 2)
	b.keys(kb.Backspace + "9") // on the way to another code
	tries(2)
	b.keys("2222225" + kb.Enter) // a seventh digit comes while the sixth is answered, or is too short a code
	b.await("the third answer", func() bool { return b.world.Codes.Checks() == 4 })
	b.until(b.q("#code"))
	rest()
	is(b, b.world.Codes.Checks(), 4)
	b.clear("code")
	b.keys("333333")
	b.card("ended", "Too many wrong codes", "You can have a new one sent to a•••@example.com", "Send a new code in 0:")
	b.focused("heading")
}

// anEmptyFieldIsExplained each time that it is submitted: what to enter, at first and once more.
func anEmptyFieldIsExplained(t *testing.T, browser context.Context) {
	onPageAndWidget(t, browser, func(b *tab) {
		b.card("code")
		b.focus("code")
		b.keys(kb.Enter)
		b.card("code", "Enter the code from the mail.")
		b.says("Enter the code from the mail.")
		before := eval[int](b, `said.length`)
		b.click("#check")
		b.until(fmt.Sprintf(`said.length > %d && said.at(-1).startsWith('Enter the code from the mail.')`, before))
		b.focused("code")
		is(b, b.world.Codes.Checks(), 0)
	})
}

// aSlowAnswerIsAwaited aloud: a screen reader is told that a request is under way.
func aSlowAnswerIsAwaited(t *testing.T, browser context.Context) {
	onPageAndWidget(t, browser, func(b *tab) {
		b.card("code")
		b.pass(61 * time.Second)
		b.ready()
		letGo := b.world.Codes.BlockSends()
		b.click("#again")
		b.says("One moment…")
		letGo()
		b.says("Check your mail")
	})
}

// waitsAreTold as they are: the button that waits is described by a text that changes with each
// minute, and not with each second; and what is said of a wait is what is left of it then.
func waitsAreTold(t *testing.T, browser context.Context) {
	test := func(b *tab) {
		told := func(text string) {
			b.Helper()
			b.until(b.q("#"+eval[string](b, b.q("#again")+`.getAttribute('aria-describedby')`)) +
				fmt.Sprintf(`.textContent === %q`, text))
		}
		const timer = `[role=timer]`
		pass := func(d time.Duration) { // nothing is asked meanwhile
			b.Helper()
			b.world.Advance(d)
			b.run(fmt.Sprintf(`jump(%d, %[1]d)`, d.Milliseconds()))
		}
		b.card("code", "Send again in")
		b.run(`freeze()`)
		told("Available within 3 min.")
		pass(130 * time.Second)
		told("Available within 1 min.")
		before := eval[string](b, b.q(timer)+`.textContent`)
		pass(5 * time.Second)
		b.until(b.q(timer) + fmt.Sprintf(`.textContent !== %q`, before))
		told("Available within 1 min.")
		b.focus("code")
		for n := range 5 {
			b.keys(fmt.Sprint("11111", n))
			b.await("an answer", func() bool { return b.world.Codes.Checks() == n+1 })
			b.until(b.q("#code:placeholder-shown") + ` || ` + b.q("[data-kind=ended]"))
		}
		b.card("ended")
		b.says("Too many wrong codes. ")
		is(b, strings.TrimSpace(eval[string](b, `said.at(-1)`)),
			"Too many wrong codes. "+eval[string](b, b.q(timer)+`.textContent`))
		pass(time.Minute)
		told("")
	}
	rule := every(3 * time.Minute)
	t.Run("page", func(t *testing.T) {
		w := accepting(t, rule)
		post(t, w, "", "send", "to", pagetest.Address)
		test(visiting(t, browser, w))
	})
	t.Run("widget", func(t *testing.T) {
		b := embedded(t, browser, accepting(t, rule), pagetest.Look{}, tag(""))
		b.asked(pagetest.Address)
		test(b)
	})
}

// wrongForAnotherCode: what was wrong is asked for anew once another message was sent, which may
// have another code.
func wrongForAnotherCode(t *testing.T, browser context.Context) {
	onPageAndWidget(t, browser, func(b *tab) {
		b.card("code")
		b.focus("code")
		b.keys("111111")
		b.card("code", "That code is wrong. 4 tries left.")
		b.pass(61 * time.Second)
		b.ready()
		b.click("#again")
		b.card("code", "Send again in 0:")
		b.focus("code")
		b.keys("111111")
		b.card("code", "That code is wrong. 3 tries left.")
		is(b, b.world.Codes.Checks(), 2)
	})
}

// aSlipIsMended by a message that is pasted over it, or by what is deleted.
func aSlipIsMended(t *testing.T, browser context.Context) {
	onPageAndWidget(t, browser, func(b *tab) {
		b.card("code")
		b.focus("code")
		b.paste("4829131")
		b.keys(kb.Enter)
		b.card("code", "The code has 6 digits.")
		b.paste("Shop 24: your code is 111111. It works for 10 minutes.")
		b.card("code", "That code is wrong. 4 tries left.")
		b.keys("48291")
		b.paste("31")
		b.keys(kb.Backspace) // nothing more follows
		b.card("approved", "Email confirmed")
		is(b, b.world.Codes.Checks(), 2)
	})
}

// aPressIsNotLost: a new card that the person did not ask for waits until a press is over, or its
// button would be gone before that ends.
func aPressIsNotLost(t *testing.T, browser context.Context) {
	w := onItsWay(t)
	b := visiting(t, browser, w)
	b.card("code", "On its way")
	mouse := func(at []float64, kind input.DispatchMouseEventType) {
		b.do(chromedp.MouseEvent(kind, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	}
	gets := func() int { return strings.Count(w.Log.String(), `"method":"GET"`) }
	during := func(selector string, change func()) (letGo func()) {
		at := b.middle(selector)
		mouse(at, chromedp.MousePressed)
		change()
		before := gets()
		// the second one began after the change, and has been taken in when the third is there
		b.await("three looks", func() bool {
			b.run(looks)
			return gets() >= before+3
		})
		return func() { mouse(at, chromedp.MouseReleased) }
	}
	letGo := during("#heading", func() { w.Codes.Settle(store.Unknown) })
	is(t, eval[string](b, b.q("#heading")+".innerText"), "On its way")
	letGo()
	b.card("code", "It may still arrive") // and another code is asked for as where one arrived
	b.pass(61 * time.Second)
	b.ready()
	during("#again", func() { w.Codes.SetCountries("DE") })() // which adds a link
	b.await("the send that was pressed for", func() bool { return w.Codes.Sends() == 2 })
	b.card("code", "Send again in 0:")
}

// typingDuringASend: what is pasted while the page waits for an answer is not lost. The code in it
// is checked then; which texts have one is in theTableOfCards.
func typingDuringASend(t *testing.T, browser context.Context) {
	w := sent(t)
	w.Advance(61 * time.Second)
	b := visiting(t, browser, w)
	b.card("code")
	letGo := w.Codes.BlockSends()
	b.click("#again")
	b.until(`document.querySelector('#again.busy')`)
	b.click("#code")
	b.paste("Shop 24: your code is 482 913. It works for 10 minutes.")
	letGo()
	b.card("approved")
	is(t, w.Codes.Sends(), 2)
	is(t, w.Codes.Checks(), 1)
}

// offline: the countdown goes on, also while the machine sleeps and its steady clock stands still.
// A code that was typed meanwhile is checked once, when the connection is back, even if the first
// request then fails. What else clocks do
// is in impatientPeople.
func offline(t *testing.T, browser context.Context) { onPageAndWidget(t, browser, losesItsConnection) }

// answersAfterItIsLost has a question be answered that set out before the connection was lost: the
// box stays.
func (b *tab) answersAfterItIsLost() {
	b.Helper()
	b.do(pagetest.Offline(false))
	b.until(b.q("#offline") + `.hidden`)
	b.run(`window.connected = fetch`, `window.held = null`, `window.fetch = (url, options) => {
		window.fetch = connected;
		return connected(url, options).then((answer) => new Promise((go) => { held = () => go(answer); }));
	}`, looks)
	b.until(`held`)
	b.do(pagetest.Offline(true))
	b.until(b.q("#offline") + `.innerText.startsWith("You're offline.")`)
	b.run(`window.rested = false`, `held()`, `setTimeout(() => { window.rested = true }, 500)`)
	b.until(`window.rested`)
	if !eval[bool](b, b.q("#offline")+`.checkVisibility()`) {
		b.Error("an answer from before hides that there is no connection")
	}
}

func losesItsConnection(b *tab) {
	w := b.world
	b.tolerate = "ERR_INTERNET_DISCONNECTED"
	b.card("code", "Send again in 0:")
	before := b.left()
	b.do(pagetest.Offline(true))
	b.until(b.q("#offline") + `.innerText.startsWith("You're offline.")`)
	b.answersAfterItIsLost()
	b.focus("code")
	b.keys("111111")
	b.says("You're offline.")
	b.jump(30*time.Second, 0)
	if after := b.left(); after > before-29 { // the clocks' own milliseconds may begin at another moment
		b.Errorf("%d s before half a minute of sleep, %d after it", before, after)
	}
	b.jump(time.Minute, 0)
	b.until(b.q("#again") + `.innerText.trim() === 'Send again'`)
	if !eval[bool](b, b.q("#card form")+`.nextElementSibling.id === 'offline'`) {
		b.Error("what is wrong does not stand beside the field")
	}
	b.run(`window.connected = fetch`, `window.fetch = (url, options) => {
		if (!options?.body) return connected(url, options);
		window.fetch = connected;
		return Promise.reject(new TypeError('not connected yet'));
	}`)
	b.do(pagetest.Offline(false))
	b.until(b.q("#offline") + `.hidden`)
	b.until(`said.includes("You're back online.")`)
	b.card("code", "That code is wrong. 4 tries left.")
	is(b, w.Codes.Checks(), 1)
	b.do(pagetest.Offline(true))
	b.until(b.q("#offline") + `.innerText.startsWith("You're offline.")`)
	b.keys(pagetest.Code[:5]) // less than a code
	b.do(pagetest.Offline(false))
	b.says("You're back online.")
	b.run(b.q("#card")+`.dataset.rev = 'another'`, looks)
	b.until(b.q("#card") + `.dataset.rev !== 'another'`) // the card that comes submits nothing by itself
	is(b, b.value("#code"), pagetest.Code[:5])
	is(b, w.Codes.Checks(), 1)
	b.focus("code")
	b.keys(pagetest.Code[5:])
	b.card("approved")
	is(b, w.Codes.Checks(), 2)
}

// offlineAtASend: what was pressed without a connection is sent once when there is one, unless
// something else was typed meanwhile.
func offlineAtASend(t *testing.T, browser context.Context) {
	sends := func(b *tab) {
		b.tolerate = "e" // the browser's own words for a request that fails
		b.card("ask")
		lost := func(to string) {
			b.Helper()
			b.do(pagetest.Offline(true))
			b.until(`!navigator.onLine`)
			b.clear("to")
			b.keys(to + kb.Enter)
			b.until(b.q("#send:not([aria-disabled])") + ` && ` + b.q("#offline") +
				`.innerText.startsWith("You're offline. We'll continue")`)
			b.until(`said.at(-1)?.startsWith("You're offline.")`)
		}
		lost("ben@example.com")
		b.keys("x")
		b.do(pagetest.Offline(false))
		b.says("You're back online.")
		b.run(`window.rested = false`, `setTimeout(() => { window.rested = true }, 1200)`)
		b.until(`window.rested`)
		is(b, b.world.Codes.Sends(), 0)
		lost(pagetest.Address)
		b.do(pagetest.Offline(false))
		b.card("code", "a•••@example.com")
		b.do(pagetest.Offline(true))
		b.until(b.q("#offline") + `.innerText.startsWith("You're offline.")`)
		b.do(pagetest.Offline(false))
		b.until(b.q("#offline") + `.hidden`)
		b.run(`window.rested = false`, `setTimeout(() => { window.rested = true }, 1200)`)
		b.until(`window.rested`)
		is(b, b.world.Codes.Sends(), 1)
		is(b, len(b.world.Codes.Asks()), 1)
	}
	t.Run("page", func(t *testing.T) { sends(visiting(t, browser, accepting(t))) })
	t.Run("widget", func(t *testing.T) { sends(embedded(t, browser, accepting(t), pagetest.Look{}, tag(""))) })
}

// anOutage: the state cannot be read, the page says so in its own words, and comes back by itself.
// A question without an answer is asked again though the page is not looked at, and whatever else
// asks in the meantime: in the end a page from the browser's cache says what the server says.
func anOutage(t *testing.T, browser context.Context) {
	const shown = `dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`
	w := onItsWay(t)
	w.Codes.SetDown(true)
	b := open(t, browser, w, pagetest.Look{})
	b.tolerate = "Failed to load resource"
	b.visit("")
	b.card("away", "We can't do this right now", "Try again in 0:0")
	w.Codes.SetDown(false)
	b.card("code", "On its way") // without a press
	w.Codes.SetDown(true)
	b.focus("code")
	b.keys("48")
	failures := func() int { return strings.Count(w.Log.String(), `"status":503`) }
	before := failures()
	b.await("two looks that failed", func() bool { // the first one has then been taken in
		b.run(looks)
		return failures() >= before+2
	})
	w.Codes.SetDown(false)
	w.Codes.Settle(store.Unknown)
	b.card("code", "It may still arrive")
	is(b, b.value("#code"), "48")
	w.Codes.SetDown(true)
	b.run(looks, shown, looks)
	b.card("away")
	w.Codes.SetDown(false)
	b.run(looks)
	b.card("code", "It may still arrive")
	w.Codes.SetDown(true)
	b.clear("code")
	b.keys(pagetest.Code)
	b.card("away")
	w.Codes.SetDown(false)
	b.run(looks)
	b.card("code", "this didn't work")
	b.do(pagetest.Offline(true))
	b.run(`window.real = fetch`,
		`window.fetch = (...all) => real(...all).catch((e) => { window.failed = true; throw e })`, shown)
	b.until(`window.failed`)
	w.Codes.SetDown(true)
	b.do(pagetest.Offline(false))
	b.card("away")
	w.Codes.SetDown(false)
	b.run(looks)
	b.card("code")
	b.focus("code")
	b.keys(pagetest.Code + kb.Enter)
	b.card("approved")
}

// withoutScripts a person waits, errs, enters the code and gets back to the app.
func withoutScripts(t *testing.T, browser context.Context) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI())
	}))
	t.Cleanup(app.Close)
	w := accepting(t)
	w.Also(page.AppPage{App: "news", Title: "The News", ReturnURLs: []string{app.URL + "/in"}})
	b := open(t, browser, w, pagetest.Look{NoScript: true})
	b.visit("?app=news&return_url=" + app.URL + "/in")
	leave := func(act func()) { // and wait for the page that follows
		b.run(`window.left = true`)
		act()
		b.until(`window.left === undefined && document.readyState === 'complete'`)
	}
	enter := func(field, value string) { leave(func() { b.focus(field); b.keys(value + kb.Enter) }) }
	enter("to", pagetest.Address)
	b.card("code", "Check your mail", "Send again in", "See what's new")
	leave(func() { b.click("#again") }) // it looks like waiting, and the server says the same
	b.card("code", "Send again in")
	enter("code", "111111")
	b.card("code", "That code is wrong. 4 tries left.")
	enter("code", "482 913")
	b.card("approved")
	b.nothingKept()
	is(t, w.Codes.Sends(), 1)
	leave(func() { b.click("#card .button") })
	is(t, eval[string](b, `location.origin + document.body.innerText`), app.URL+"/in?reference=news%26verification-1")
}

// lettersThroughAnInputMethod are checked once the input method, with which Chinese is written, has
// ended; they look like capitals.
func lettersThroughAnInputMethod(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.SendLetters()
	post(t, w, "", "send", "to", pagetest.Address)
	b := visiting(t, browser, w)
	b.focus("code")
	is(t, eval[string](b, "getComputedStyle(document.querySelector('#code')).textTransform"), "uppercase")
	b.run(fmt.Sprintf(`(() => { const f = document.querySelector('#code');
		f.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
		f.value = %q;
		f.dispatchEvent(new InputEvent('input', { bubbles: true, isComposing: true })) })()`, strings.ToLower(pagetest.Letters)))
	if b.card("code"); w.Codes.Checks() != 0 {
		t.Error("checked before the input method was done")
	}
	b.run(`document.querySelector('#code').dispatchEvent(new CompositionEvent('compositionend', { bubbles: true }))`)
	b.card("approved")
}
