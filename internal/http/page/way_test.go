package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// running returns a world whose clock runs.
func running(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := world(t, rules...)
	w.Run()
	return w
}

// accepting returns a running world that accepts each mail at once.
func accepting(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := running(t, rules...)
	w.Codes.Immediately = store.Sent
	return w
}

// onItsWay returns a running world whose person has requested a code that is still in flight.
func onItsWay(t *testing.T) *pagetest.World {
	t.Helper()
	w := running(t)
	sends(t, w, pagetest.Address)
	return w
}

// every returns a rule that admits one send to a recipient in each window.
func every(window time.Duration) quota.Rule {
	return quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: window}
}

// onAWidget opens a tab that shows a widget at its first card.
func onAWidget(t *testing.T, browser context.Context, w *pagetest.World) *tab {
	t.Helper()
	return embedded(t, browser, w, browsertest.Look{}, tag(""))
}

// theWholeWay tests a sign-in with only the keyboard. A person who pastes too much text can delete
// the rest.
func theWholeWay(t *testing.T, browser context.Context) {
	w := running(t)
	b := visiting(t, browser, w)
	b.card("ask", "Get a code")
	b.keys(kb.Tab)
	b.focused("to")
	b.keys(pagetest.Address + kb.Enter)
	b.card("code", "On its way", "Sending a code to a•••@example.com", "Send again in")
	b.focused("code")
	b.nothingKept()
	is(t, eval[string](b, "document.title"), "On its way · Shop")
	b.keys("48291")
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your mail", "Code sent to a•••@example.com")
	is(b, b.value("#code"), "48291")
	b.focused("code")
	b.paste("31")
	b.keys(kb.Backspace) // the remaining text is checked without a press
	b.card("approved", "a•••@example.com")
	b.until(`document.querySelector('[slot=approved]').innerText.includes('You can close this page.')`)
	b.focused("heading")
	b.says("Email confirmed. You can continue.")
	b.nothingKept()
	is(t, w.Codes.Sends(), 1)
	is(t, w.Codes.Checks(), 1)
}

// wrongCodes tests that the field explains each wrong code that is submitted. Each complete code
// that was not yet submitted is checked automatically. A typing mistake stays in the field, costs
// no attempt, and is corrected by the next key or by pasting a message over it. After another
// message was sent, a code that was wrong before is checked again, since the message may have
// another code.
func wrongCodes(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.run(`Date.prototype.toDateString = function () { return String(+this) }`) // makes each time belong to another day
	b.asked(pagetest.Address)
	b.until(b.q("#code-expiry") + `?.textContent.includes('\u00a0on\u00a0')`)
	tries := func(n int) {
		b.Helper()
		b.card("code", fmt.Sprintf("That code is wrong. %d tr", n))
		is(b, b.world.Codes.Checks(), 5-n)
	}
	again := func(said string, act func()) { // the status line repeats a sentence
		b.Helper()
		before := eval[int](b, `said.length`)
		act()
		b.until(fmt.Sprintf(`said.length > %d && said.at(-1).startsWith(%q)`, before, said))
		b.until(b.q("#code[aria-invalid=true]") + `.getAttribute('aria-describedby').split(' ').includes('code-error')`)
		b.focused("code")
	}
	const nothing = "Enter the code from the mail."
	b.focus("code")
	again(nothing, func() { b.keys(kb.Enter) })
	again(nothing, func() { b.click("#check") })
	for typed, words := range map[string]string{"48291": "The code has 6 digits.", "48291x": "digits only", " ": nothing} {
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
	b.clear("code")
	b.paste("1111145")
	b.keys(kb.Enter)
	b.card("code", "The code has 6 digits.")
	b.paste("Shop 24: your code is 111114. It works for 10 minutes.")
	tries(4)
	is(b, b.value("#code"), "")
	again("That code is wrong. 4 tr", func() { b.keys("111114") }) // the attempt is not counted
	b.keys(kb.Enter)                                               // a person may press Enter out of habit
	tries(4)
	b.fills("code", "111113") // checked without a press
	tries(3)
	b.paste("1111137") // the text is too long for a code
	b.keys(kb.Enter)
	b.card("code", "The code has 6 digits.")
	b.keys(kb.Backspace) // what is left, 111113, has been checked already
	b.rest(longer)
	is(b, b.world.Codes.Checks(), 2)
	b.clear("code")
	b.pass(61 * time.Second)
	b.ready()
	b.click("#again")
	b.card("code", "Send again in 0:")
	b.fills("code", "111114") // the first wrong code again
	tries(2)
	b.keys("2222225" + kb.Enter) // the seventh digit arrives during the check of the first six, or alone is too short for a code
	b.await("the fourth answer", func() bool { return b.world.Codes.Checks() == 4 })
	b.until(b.q("#code"))
	b.rest(longer)
	is(b, b.world.Codes.Checks(), 4)
	b.run(`freeze()`)
	b.fills("code", "333333")
	b.card("ended", "Too many wrong codes", "You can have a new one sent to a•••@example.com", "Send a new code in 0:")
	b.focused("heading")
	b.says("Too many wrong codes. ")
	is(b, strings.TrimSpace(eval[string](b, `said.at(-1)`)), // the text about the wait contains the remaining time
		"Too many wrong codes. "+eval[string](b, b.q("[role=timer]")+`.textContent`))
}

// aCorrectionIsNotLost tests text that a person types while an answer is awaited. The submitted
// text stays in its fields, and the corrected code is checked next.
func aCorrectionIsNotLost(t *testing.T, browser context.Context) {
	b := visiting(t, browser, phoning(t))
	b.click("#by-sms")
	b.until(b.q("#country"))
	b.run(b.q("#country") + `.value = 'DE'`)
	b.click("#by-email")
	letGo := b.world.Codes.BlockSends()
	b.types("to", "aan@example.org"+kb.Enter)
	b.until(b.q("#send.busy") + ` && ` + b.q("#to") + `.readOnly`)
	b.click("#by-sms")
	b.types("to", kb.Backspace+"x")
	is(t, eval[string](b, `[`+b.q("#by-email")+`.checked, `+b.q("#to")+`.value, `+b.q("#country")+`.disabled].join()`),
		"true,aan@example.org,true")
	letGo()
	b.card("code", "a•••@example.org")

	b.run(`window.real = fetch; window.held = []; window.fetch = async (...all) => {
		const answer = await real(...all);
		if (String(all[0]).endsWith('/check')) await new Promise((go) => held.push(go));
		return answer;
	}`)
	b.types("code", "111111")
	b.until(`held.length === 1`)
	b.clear("code")
	b.keys("4829") // the person corrects the mistake
	b.run(`held.shift()()`)
	b.card("code", "That code is wrong")
	is(t, b.value("#code"), "4829")
	b.clear("code")
	b.keys("222222")
	b.until(`held.length === 1`)
	b.fills("code", pagetest.Code)
	b.run(`held.shift()()`)
	b.until(`held.length === 1`)
	b.run(`held.shift()()`)
	b.card("approved")
	is(t, b.world.Codes.Checks(), 3)
}

// aFillersText tests a text that a program fills in. It is checked automatically if it is exactly a
// code of this form, and no code was wrong yet. Otherwise it is only shown, and a press checks it.
func aFillersText(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.asked(pagetest.Address)
	b.card("code")
	fill := func(text string) {
		b.Helper()
		b.focus("code")
		b.run(fmt.Sprintf(`((field) => { field.value = %q; field.dispatchEvent(new Event('input', { bubbles: true, composed: true })) })(%s)`,
			text, b.q("#code")))
	}
	shown := func(text string, checks int) {
		b.Helper()
		fill(text)
		b.run(`dispatchEvent(new Event('online'))`) // now a complete code is submitted, unless it was before
		b.rest(longer)
		is(b, b.value("#code"), text)
		is(b, b.world.Codes.Checks(), checks)
	}
	for _, text := range []string{"hunter-482913", "1234567", "48291", "482913 482913", "BCDFGHJK"} {
		shown(text, 0)
	}
	fill("111 111")
	b.card("code", "4 tries left")
	shown("222222", 1) // the next code of an authenticator app
	b.keys(kb.Enter)
	b.card("code", "3 tries left")
	fill(pagetest.Code)
	b.click("#check")
	b.card("approved")
}

// theCountdownRunsOut tests the countdown by seconds; screen readers get its text every minute. A
// press before the end does nothing, and a press after the end sends. The card says that the
// request is under way. A text that is pasted in the meantime is checked after the request. The
// test theTableOfCards shows which texts contain a code.
func theCountdownRunsOut(t *testing.T, browser context.Context) {
	// this world's clock moves only by hand
	w := world(t, every(3*time.Minute), quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour})
	w.Codes.Immediately = store.Sent
	b := onAWidget(t, browser, w)
	b.do(browsertest.Look{Width: 800, Height: 700, Lang: "en", Motion: true}.Apply())
	b.card("ask")
	b.run(`freeze()`) // with running clocks, the test or the page may skip a second on a busy machine
	b.asked(pagetest.Address)
	b.card("code", "Send again in 3:00")
	b.until(b.q(".bar") + ".checkVisibility()")
	const timer = `[role=timer]`
	shows := func(told, button string) {
		b.Helper()
		b.until(b.q("#"+eval[string](b, b.q("#again")+`.getAttribute('aria-describedby')`)) + fmt.Sprintf(`.textContent === %q`, told))
		b.until(b.q("#again") + fmt.Sprintf(`.innerText.replace(/\s+/g, ' ').trim() === %q`, button))
	}
	pass := func(d time.Duration) { // the page makes no request in this time
		b.Helper()
		b.world.Advance(d)
		b.run(fmt.Sprintf(`jump(%d, %[1]d)`, d.Milliseconds()))
	}
	shows("Available within 3 min.", "Send again in 3:00")
	pass(130 * time.Second)
	before := eval[[]string](b, "said")
	shows("Available within 1 min.", "Send again in 0:50")
	pass(45 * time.Second)
	shows("Available within 1 min.", "Send again in 0:05")
	b.click("#again")
	b.focused("again") // the button is inactive, but can have the focus
	b.keys(kb.Enter)
	is(b, eval[string](b, b.q(timer)+`.textContent`), "You can request another code in 5 s.")
	for n := range 4 {
		// timers of 15 s are the timeout of a request and the delay of the help
		if longest := eval[float64](b, `Math.max(...naps.filter((ms) => ms < 15_000).slice(-5))`); longest > 1000 {
			b.Errorf("the countdown looks at the clock after %v ms", longest)
		}
		pass(time.Second)
		shows("Available within 1 min.", fmt.Sprintf("Send again in 0:0%d", 4-n))
	}
	pass(time.Second)
	shows("", "Send again")
	b.ready()
	b.says("You can request another code now.")
	b.card("code", "4 left") // the marks of the rule change, too
	b.until(`!` + b.q(".blocked"))
	if said := eval[[]string](b, "said"); len(said) > 4 || len(said)-len(before) > 3 {
		b.Errorf("%d announcements in one countdown, %d of them in its last minute: %q", len(said), len(said)-len(before), said)
	}
	is(b, len(b.world.Codes.SendRequests()), 1)
	letGo := b.world.Codes.BlockSends()
	b.click("#again")
	b.says("One moment…")
	b.click("#code")
	b.keys("27")
	b.paste(pagetest.Code) // replaces the text of the field
	letGo()
	b.card("approved")
	is(b, b.world.Codes.Sends(), 2)
	is(b, b.world.Codes.Checks(), 1)
}

// aPressIsNotLost tests that a new card which the person did not ask for waits until a press has
// ended, since its button would otherwise disappear during the press.
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
		// the second look began after the change, and its answer has arrived before the third
		// begins
		b.await("three looks", func() bool {
			b.run(returnScript)
			return gets() >= before+3
		})
		return func() { mouse(at, chromedp.MouseReleased) }
	}
	letGo := during("#heading", func() { w.Codes.Settle(store.Unknown) })
	is(t, eval[string](b, b.q("#heading")+".innerText"), "On its way")
	letGo()
	b.card("code", "It may still arrive") // another code can be requested, as if one had arrived
	b.pass(61 * time.Second)
	b.ready()
	during("#again", func() { w.Codes.SetCountries("DE") })() // the new channel adds a link
	b.await("the send that was pressed for", func() bool { return w.Codes.Sends() == 2 })
	b.card("code", "Send again in 0:")
}

// aBrowserThatIsWrongAboutItsConnection tests a browser that, because of a VPN for example, reports
// being offline although each request is answered. No request is delayed, and an answer removes the
// notice.
func aBrowserThatIsWrongAboutItsConnection(t *testing.T, browser context.Context) {
	w := accepting(t)
	for _, embed := range []bool{true, false} {
		b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(""), "")
		b.first(`Object.defineProperty(Navigator.prototype, 'onLine', { get: () => false })`)
		if embed {
			b.do(chromedp.Navigate(s.URL))
			b.until(b.q("#offline") + `.hidden && ` + b.q("#to"))
			b.asked(pagetest.Address)
		} else {
			b.visit("")
			b.asked("ben@example.com")
		}
		b.card("code")
		b.until(b.q("#offline") + `.hidden`)
		b.types("code", pagetest.Code)
		b.card("approved")
		b.until(b.q("#offline") + `.hidden`)
	}
}

// offline tests presses without a connection. The request is sent once when the connection is back,
// unless the person typed something else in the meantime. The countdown goes on, also while the
// machine sleeps and its steady clock stands still. A code typed in the meantime is checked once
// when the connection is back, even if the first request then fails.
func offline(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.tolerate = "e" // any message: each browser words a failed request in its own way
	codes := b.world.Codes
	b.card("ask")
	lost := func(to string) {
		b.Helper()
		b.lose()
		b.fills("to", to+kb.Enter)
		b.until(b.q("#send:not([aria-disabled])") + ` && ` + b.q("#offline") + `.innerText.includes("We'll continue")`)
		b.until(`said.at(-1)?.startsWith("You're offline.")`)
	}
	lost("ben@example.com")
	b.keys("x")
	b.do(pagetest.Offline(false))
	b.says("You're back online.")
	b.rest(longer)
	is(b, codes.Sends(), 0)
	lost(pagetest.Address)
	b.do(pagetest.Offline(false))
	b.card("code", "a•••@example.com", "Send again in 0:")
	before := b.left()
	b.answersAfterItIsLost()
	b.types("code", "111111")
	b.says("You're offline.")
	b.jump(30*time.Second, 0)
	if after := b.left(); after > before-29 { // the two clocks may differ by some milliseconds
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
	is(b, codes.Checks(), 1)
	b.lose()
	b.keys(pagetest.Code[:5]) // one digit is missing
	b.do(pagetest.Offline(false))
	b.says("You're back online.")
	b.run(b.q("#card")+`.dataset.rev = 'another'`, returnScript)
	b.until(b.q("#card") + `.dataset.rev !== 'another'`) // the new card submits nothing by itself
	is(b, b.value("#code"), pagetest.Code[:5])
	is(b, codes.Checks(), 1)
	b.focus("nothing")
	b.run(b.q("#card")+`.dataset.rev = 'another'`, returnScript)
	b.until(b.q("#card") + `.dataset.rev !== 'another'`)
	b.focused("nothing")
	b.types("code", pagetest.Code[5:])
	b.card("approved")
	is(b, codes.Checks(), 2)
	is(b, len(codes.SendRequests()), 1)
}

// aChangeOfClocks tests a code that expires after a change of daylight saving time. A time of the
// day could be misunderstood then, so the page shows for how long the code is valid.
func aChangeOfClocks(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.card("ask")
	b.run(`Date.prototype.getTimezoneOffset = function () { return this - Date.now() > 60_000 ? 300 : 240 }`)
	b.asked(pagetest.Address)
	b.card("code", "Valid for 10 min.")
	b.world.Advance(time.Minute) // otherwise the service would again answer that ten minutes are left
	b.jump(time.Minute, time.Minute)
	b.card("code", "Valid for 9 min.")
}

// aReaderWithoutATimeZone tests browsers that resist fingerprinting. They report UTC or the zone of
// Iceland, so the page shows durations instead of times.
func aReaderWithoutATimeZone(t *testing.T, browser context.Context) {
	w := world(t, every(50*time.Minute))
	w.Codes.Immediately = store.Sent
	b := onAWidget(t, browser, w)
	for _, zone := range []string{"UTC", "Atlantic/Reykjavik"} {
		b.do(browsertest.Look{Width: 800, Height: 700, Lang: "en", Zone: zone}.Apply(), chromedp.Reload())
		b.asked(zone[:3] + "@example.com")
		b.card("code", "Valid for 10 min.", "in 50 min")
		b.click("#card .help .change")
		b.asked(zone[:3] + "@example.com")
		b.card("enough", "was sent to", "just now", "in 50 min")
		clocks := eval[[]string](b, b.q("#card")+`.innerText.match(/\d+:\d\d/g) ?? []`)
		is(b, len(clocks), 0)
		b.run(`sessionStorage.clear()`)
		b.do(chromedp.Navigate(strings.Split(eval[string](b, `location.href`), "?")[0] + "?view=new"))
	}
}

// beside opens another tab that shares the cookies and the localStorage of this tab.
func (t *tab) beside() *tab {
	ctx, end := chromedp.NewContext(t.ctx)
	t.Cleanup(end)
	other := &tab{T: t.T, ctx: ctx, world: t.world, root: t.root}
	other.listen()
	other.do(browsertest.Look{Width: 800, Height: 700, Lang: "en"}.Apply())
	return other
}

// otherTabsHearOfTheApproval tests that other tabs show the approval at once, without a reload.
func otherTabsHearOfTheApproval(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.asked(pagetest.Address)
	b.card("code")
	other := b.beside()
	other.do(chromedp.Navigate(eval[string](b, `location.href`)))
	// a duplicated tab starts with this storage
	other.run("Object.assign(sessionStorage, " + eval[string](b, `JSON.stringify({ ...sessionStorage })`) + ")")
	other.do(chromedp.Reload())
	other.card("code")
	b.getsIn()
	other.card("approved", "Email confirmed", "If you used it in another tab, continue there.", "Send a new code")
	is(t, other.proof(), "")
}

// anotherTabChangesTheAddress tests several tabs of one person. If another tab requests a code for
// another address, this tab says so and keeps its own code, and a tab that is opened later shows
// the newer code. A tab also says so if another tab sends a code of the verification that this tab
// has left. If the other tab's request for a third recipient is refused, that tab does not go back
// to the verification that it has left. After a resend, the earlier code is still right.
func anotherTabChangesTheAddress(t *testing.T, browser context.Context) {
	b := visiting(t, browser, accepting(t))
	b.asked(pagetest.Address)
	b.card("code")
	other := b.beside()
	other.visit("")
	other.click("[data-act=change]")
	other.asked("ben@example.com")
	other.card("code", "b•••@example.com")
	b.card("code", "a•••@example.com", "Another code was asked for in another tab.")
	third := b.beside()
	third.visit("")
	third.card("code", "b•••@example.com")
	containsNone(t, eval[string](third, third.q("#card")+`.innerText`), "another tab")
	b.pass(time.Minute)
	third.click("[data-act=change]")
	third.asked("cleo@example.com")
	third.card("code", "c•••@example.com") // else the other tab's resend may be the older one
	other.ready()
	other.click("#again")
	third.card("code", "c•••@example.com", "Another code was asked for in another tab.")
	other.tolerate = "Failed to load resource" // the browser's message for the refusal
	other.click("[data-act=change]")
	other.asked("cleo@example.com")
	other.card("enough")
	b.types("code", "111111")
	b.card("code", "That code is wrong.", "Another code was asked for in another tab.")
	b.pass(8 * time.Minute)
	b.ready()
	is(t, eval[string](other, other.q("#card")+`.dataset.kind`), "enough")
	b.click("#again")
	b.card("code", "Send again in")
	b.run(`window.real = fetch`, `window.fetch = (url, how) => real(url, /n-[2-9].check/.test(url) ? { ...how, body: '{"code":"111111"}' } : how)`)
	b.types("code", pagetest.Code)
	b.card("approved", "a•••@example.com")
	b.run(returnScript)
	b.rest(longer)
	is(t, eval[string](b, b.q("#card")+`.dataset.kind`), "approved")
}

// lose disconnects a tab, and waits until the tab shows this.
func (t *tab) lose() {
	t.Helper()
	t.do(pagetest.Offline(true))
	t.until(t.q("#offline") + `.innerText.startsWith("You're offline.")`)
}

// longer exceeds the time for which the widget waits for more digits of a code, and the time
// between two looks.
const longer = 1200 * time.Millisecond

// rest lets time pass during which nothing may happen.
func (t *tab) rest(d time.Duration) {
	t.Helper()
	t.run(`window.rested = false`, fmt.Sprintf(`setTimeout(() => { window.rested = true }, %d)`, d.Milliseconds()))
	t.until(`window.rested`)
}

// answersAfterItIsLost answers a request that began before the connection was lost. The notice
// stays.
func (t *tab) answersAfterItIsLost() {
	t.Helper()
	t.run(`window.connected = fetch`, `window.held = null`, `window.fetch = (url, options) => {
		window.fetch = connected;
		return connected(url, options).then((answer) => new Promise((go) => { held = () => go(answer); }));
	}`, returnScript)
	t.until(`held`)
	t.lose()
	t.run(`held()`)
	t.rest(500 * time.Millisecond)
	if !eval[bool](t, t.q("#offline")+`.checkVisibility()`) {
		t.Error("an answer from before hides that there is no connection")
	}
}

// aFailureIsSaidUntilTheNextAct tests that a failure stays on the card until the person types or
// submits something, even if later reads succeed, whatever they return. A lost connection in
// between has its own text.
func aFailureIsSaidUntilTheNextAct(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, running(t))
	b.tolerate = "e" // any message: each browser words a failed request in its own way
	b.asked(pagetest.Address)
	b.card("code", "On its way")
	b.run(`window.real = fetch`, `window.looked = 0`, `window.lost = true`, `window.fetch = async (...all) => {
		if (all[1]?.body && lost) throw new TypeError('lost');
		const answer = await real(...all);
		looked++;
		return answer;
	}`)
	said := func() { b.Helper(); b.until(b.q("#offline") + `.innerText.startsWith("That didn't work.")`) }
	fails := func(act func()) {
		b.Helper()
		act()
		said()
		b.run(`looked = 0`)
		b.until(`looked >= 3`)
		is(b, eval[bool](b, b.q("#offline")+`.checkVisibility()`), true)
	}
	fails(func() { b.types("code", "111111") })
	b.lose()
	b.do(pagetest.Offline(false))
	b.says("You're back online.")
	said()
	b.world.Codes.Settle(store.Unknown)
	b.card("code", "It may still arrive") // shows the newer state
	said()
	b.keys(kb.Backspace)
	b.until(b.q("#offline") + `.hidden`)
	b.run(`lost = false`)
	b.keys("1" + kb.Enter)
	b.card("code", "That code is wrong. 4 tries left.")
	is(b, b.world.Codes.Checks(), 1)
}

// losesAll is a script that loses the answers to a send and to its repetitions.
const losesAll = `window.real = fetch; window.left = 3; window.fetch = async (...all) => {
	const answer = await real(...all);
	if (!all[1]?.body) return answer;
	if (--left === 0) window.fetch = real;
	throw new TypeError('lost');
}`

// aBounceChangesTheCard tests that the card of a send shows by itself what the provider reports on
// that send later.
func aBounceChangesTheCard(t *testing.T, browser context.Context) {
	b := onAWidget(t, browser, accepting(t))
	b.world.Codes.ExpectReports()
	b.asked(pagetest.Address)
	b.card("code", "Check your mail")
	b.world.Codes.Bounce()
	b.card("failed", "It did not arrive", "This address does not take our mail.", "Change the address",
		"The last code still works until")
	b.click(".aside [data-act=code]")
	b.fills("code", "111114")
	b.card("code", "That code is wrong. 4 tries left.")
}

// aPageFromTheCacheShowsTheTruth tests that a page from the browser's back-forward cache reads the
// state again when it is shown again.
func aPageFromTheCacheShowsTheTruth(t *testing.T, browser context.Context) {
	b := visiting(t, browser, onItsWay(t))
	b.card("code", "On its way")
	b.world.Advance(11 * time.Minute)
	b.run(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
	b.card("ended")
}

// lettersThroughAnInputMethod tests letters typed with an input method, as for Chinese. They are
// checked when the composition has ended. The field shows them as capitals.
func lettersThroughAnInputMethod(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.SendLetters()
	sends(t, w, pagetest.Address)
	b := visiting(t, browser, w)
	b.focus("code")
	is(t, eval[string](b, "getComputedStyle(document.querySelector('send-code').shadowRoot.querySelector('#code')).textTransform"),
		"uppercase")
	b.run(fmt.Sprintf(`(() => { const f = document.querySelector('send-code').shadowRoot.querySelector('#code');
		f.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
		f.value = %q;
		f.dispatchEvent(new InputEvent('input', { bubbles: true, isComposing: true })) })()`, strings.ToLower(pagetest.Letters)))
	if b.card("code"); w.Codes.Checks() != 0 {
		t.Error("checked before the input method was done")
	}
	b.run(`document.querySelector('send-code').shadowRoot.querySelector('#code').dispatchEvent(new CompositionEvent('compositionend', { bubbles: true }))`)
	b.card("approved")
}
