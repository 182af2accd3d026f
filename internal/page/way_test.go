package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// running is a world whose clock runs.
func running(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := standing(t, rules...)
	w.Run()
	return w
}

// standing is a world whose clock moves only by hand.
func standing(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	if rules == nil {
		rules = pagetest.DefaultRules()
	}
	w, err := pagetest.NewWorld(rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// sent is a world where a code was sent to its visitor a moment ago.
func sent(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := running(t, rules...)
	send(t, w)
	return w
}

func send(t *testing.T, w *pagetest.World) {
	t.Helper()
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", pagetest.Address)
}

// theWholeWay goes by keyboard alone.
func theWholeWay(t *testing.T, browser context.Context) {
	w := running(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("ask", "Your code for Shop")
	b.keys(kb.Tab)
	b.focused("to")
	b.keys(pagetest.Address + kb.Enter)
	b.card("code", "On its way", "Sending a code to a•••@example.com", "Send again in")
	b.focused("code")
	b.nothingKept()
	if got := eval[string](b, "document.title"); got != "On its way · Shop" {
		t.Errorf("the title is %q", got)
	}
	b.keys("482")
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your mail", "Code sent to a•••@example.com")
	if got := eval[string](b, "document.querySelector('#code').value"); got != "482" {
		t.Errorf("of what was typed is left %q", got)
	}
	b.focused("code")
	b.keys("913") // checked without a further press
	b.card("approved", "a•••@example.com is confirmed.", "Continue to Shop")
	b.focused("heading")
	b.until(`said.at(-1) === 'Approved. Continue to Shop.'`)
	b.nothingKept()
	if w.Codes.Sends() != 1 || w.Codes.Checks() != 1 {
		t.Errorf("%d sends, %d checks", w.Codes.Sends(), w.Codes.Checks())
	}
	b.do(chromedp.Reload())
	b.card("approved")
}

func anEarlyPressDoesNothing(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code", "Send again in 0:")
	b.click("#again")
	b.focused("again") // it waits, and can be reached all the same
	b.keys(kb.Enter)
	b.keys(" ")
	describes := eval[string](b, `document.getElementById(document.querySelector('#again').getAttribute('aria-describedby')).textContent`)
	var seconds int
	if n, _ := fmt.Sscanf(describes, "You can request another code in %d s.", &seconds); n != 1 || seconds > 60 {
		t.Errorf("the reason is %q", describes)
	}
	b.keys(kb.Tab) // after the press, so that it has been handled
	b.card("code", "Send again in 0:")
	if got := len(w.Codes.Asks()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

func codesInManyForms(t *testing.T, browser context.Context) {
	b := open(t, browser, sent(t), pagetest.Look{})
	for _, form := range []string{"482913", "482 913", "482-913", "４８２９１３", "٤٨٢٩١٣", "  482913\n",
		"482913 is your code for Shop", "48\u200b2913\ufeff", "Shop 24: your code is 482 913. It works for 10 minutes."} {
		b.world = sent(t)
		b.do(b.world.Adopt())
		b.visit("")
		b.card("code")
		b.focus("code")
		b.paste(form)
		b.card("approved")
		if b.world.Codes.Checks() != 1 {
			t.Errorf("%q: %d checks", form, b.world.Codes.Checks())
		}
	}
}

func aWrongCode(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code")
	b.focus("code")
	b.keys("48291" + kb.Enter)
	b.card("code", "The code has 6 digits.")
	b.focused("code")
	if got := eval[string](b, "document.querySelector('#code').value"); got != "48291" {
		t.Errorf("of a slip is left %q", got)
	}
	b.emptied()
	b.keys("111111")
	b.keys(kb.Enter) // it was wrong before, so it is not checked until that is asked for
	b.card("code", "That code is wrong. 4 tries left.")
	b.focused("code")
	if !eval[bool](b, `(() => { const f = document.querySelector('#code');
		return f.getAttribute('aria-invalid') === 'true' && f.value === ''
			&& f.getAttribute('aria-describedby').split(' ').includes('code-error')
			&& document.querySelector('#code-error').textContent.includes('4 tries') })()`) {
		t.Error("the field is not linked with its error")
	}
	b.until(`said.at(-1) === 'That code is wrong. 4 tries left.'`)
	b.keys("222222")
	b.keys("3") // a seventh digit: had the sixth been enough, a try would be gone
	b.keys(kb.Enter)
	b.card("code", "The code has 6 digits.")
	if w.Codes.Checks() != 1 {
		t.Errorf("%d tries", w.Codes.Checks())
	}
	b.emptied()
	for n := 3; n >= 1; n-- {
		b.keys("33333" + fmt.Sprint(n) + kb.Enter)
		b.card("code", fmt.Sprintf("That code is wrong. %d tr", n))
	}
	b.keys("444444" + kb.Enter)
	b.card("ended", "Too many wrong codes", "Send a new code in 0:")
	b.focused("heading")
}

// aRefusal: the page believes that it may, and the server knows better. A short wait is shown as ever, without alarm; a
// longer one is explained.
func aRefusal(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code", "Send again in 0:")
	eval[bool](b, `document.querySelector('#again').removeAttribute('aria-disabled') ?? true`)
	b.click("#again")
	b.until(`document.querySelector('#again:not(.busy)[aria-disabled=true]')`)
	b.card("code", "Check your mail", "Send again in 0:")
	for range 4 {
		w.Advance(61 * time.Second)
		post(t, w, "", "again")
	}
	w.Advance(61 * time.Second)
	b.do(w.Adopt(), chromedp.Reload())
	b.card("code", "Next code at", "55 min")
	eval[bool](b, `document.querySelector('#again').removeAttribute('aria-disabled') ?? true`)
	b.click("#again")
	b.card("enough", "Hourly limit reached", "5 codes were sent to a•••@example.com since", "The last code still works until")
	b.focused("heading")
	b.click(".aside a")
	b.card("code", "Next code at")
	if w.Codes.Sends() != 5 {
		t.Errorf("%d sends", w.Codes.Sends())
	}
}

// aDoubleClick posts once: what the server would make of the second post is another test's.
func aDoubleClick(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.focus("to")
	b.keys(pagetest.Address)
	letGo := w.Codes.BlockSends()
	b.doubleClick("#send")
	b.keys(kb.Enter)
	letGo()
	b.card("code", "Check your mail")
	if posts := strings.Count(w.Log.String(), `"method":"POST"`); posts > 1 {
		t.Errorf("%d posts", posts)
	}
}

// typingDuringASend: what is typed while the page waits for an answer is not lost, and checked when it is complete.
func typingDuringASend(t *testing.T, browser context.Context) {
	w := sent(t)
	w.Advance(61 * time.Second)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code")
	letGo := w.Codes.BlockSends()
	b.click("#again")
	b.until(`document.querySelector('#again.busy')`)
	b.click("#code")
	b.keys("482")
	b.keys("913")
	letGo()
	b.card("approved")
	if w.Codes.Sends() != 2 || w.Codes.Checks() != 1 {
		t.Errorf("%d sends, %d checks", w.Codes.Sends(), w.Codes.Checks())
	}
}

// offline: the countdown goes on, what was typed stays, and the page recovers by itself.
func offline(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.tolerate = "ERR_INTERNET_DISCONNECTED"
	b.visit("")
	b.card("code", "Send again in 0:")
	before := b.left()
	b.do(pagetest.Offline(true))
	b.until(`document.querySelector('#offline').innerText.startsWith("You're offline.")`)
	b.focus("code")
	b.keys(pagetest.Code)
	b.until(`said.at(-1).startsWith("You're offline.")`)
	if got := eval[string](b, "document.querySelector('#code').value"); got != pagetest.Code {
		t.Errorf("of what was typed is left %q", got)
	}
	b.until(fmt.Sprintf(`Number(document.querySelector('#again').innerText.split(':')[1]) < %d`, before-1))
	if !eval[bool](b, `document.querySelector('#card form').nextElementSibling.id === 'offline'`) {
		t.Error("what is wrong does not stand beside the field")
	}
	b.do(pagetest.Offline(false))
	b.until(`document.querySelector('#offline').hidden`)
	eval[bool](b, `document.querySelector('#card').dataset.rev = 'another', document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(`document.querySelector('#card').dataset.rev !== 'another'`) // the card that comes submits nothing by itself
	if got := eval[string](b, "document.querySelector('#code').value"); got != pagetest.Code || w.Codes.Checks() != 0 {
		t.Errorf("after the connection came back %q is left, %d checks", got, w.Codes.Checks())
	}
	b.focus("code")
	b.keys(kb.Enter)
	b.card("approved")
	if w.Codes.Checks() != 1 {
		t.Errorf("%d checks", w.Codes.Checks())
	}
}

// anOutage: the state cannot be read, the page says so in its own words, and comes back by itself.
func anOutage(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.tolerate = "status of 503"
	w.Codes.SetDown(true)
	b.visit("")
	b.card("away", "We can't do this right now", "Try again in 0:0")
	w.Codes.SetDown(false)
	b.card("code", "Check your mail") // without a press
	w.Codes.SetDown(true)
	b.focus("code")
	b.keys("48")
	failures := func() int { return strings.Count(w.Log.String(), `"status":503`) }
	before := failures()
	b.await("two looks that failed", func() bool { // the first one has then been taken in
		eval[bool](b, `document.dispatchEvent(new Event('visibilitychange'))`)
		return failures() >= before+2
	})
	if got := eval[string](b, "document.querySelector('#code')?.value"); got != "48" {
		t.Errorf("a look that failed took what was typed: %q is left", got)
	}
	eval[bool](b, "document.querySelector('#code').value = '', true")
	b.keys(pagetest.Code)
	b.card("away")
	w.Codes.SetDown(false)
	b.card("code", "this didn't work")
	b.focus("code")
	b.keys(pagetest.Code + kb.Enter)
	b.card("approved")
}

func withoutScripts(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b := open(t, browser, w, pagetest.Look{NoScript: true})
	b.visit("")
	enter := func(field, value string) {
		b.leave(func() { b.focus(field); b.keys(value + kb.Enter) })
	}
	enter("to", pagetest.Address)
	b.card("code", "Check your mail", "Send again in", "See what's new")
	b.leave(func() { b.click("#again") }) // it looks like waiting, and the server says the same
	b.card("code", "Send again in")
	enter("code", "111111")
	b.card("code", "That code is wrong. 4 tries left.")
	enter("code", "482 913")
	b.card("approved")
	b.nothingKept()
	if w.Codes.Sends() != 1 {
		t.Errorf("%d sends", w.Codes.Sends())
	}
}
