package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

func every(window time.Duration) quota.Rule {
	return quota.Rule{Name: "pause", Scope: quota.Recipient, Limit: 1, Window: window}
}

func theCountdownRunsOut(t *testing.T, browser context.Context) {
	w := standing(t, every(5*time.Second), quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour})
	send(t, w)
	b := open(t, browser, w, pagetest.Look{})
	b.first("freeze()") // a busy machine may skip a second, and so may the page on it
	b.visit("")
	b.card("code", "Send again in 0:05")
	var want []string
	for _, text := range []string{"Send again in 0:04", "Send again in 0:03", "Send again in 0:02", "Send again in 0:01", "Send again"} {
		if longest := eval[float64](b, `Math.max(...naps)`); longest > 1000 {
			t.Errorf("the countdown looks at the clock after %v ms", longest)
		}
		w.Advance(time.Second)
		eval[bool](b, `jump(1_000, 1_000) ?? true`)
		b.until(fmt.Sprintf(`document.querySelector('#again').innerText.replace(/\s+/g, ' ').trim() === %q`, text))
		want = append(want, text)
	}
	if got := eval[[]string](b, "shown.slice(-5)"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the countdown showed %q, want %q", got, want)
	}
	if eval[bool](b, `document.querySelector('#again').hasAttribute('aria-disabled')`) {
		t.Error("the button still waits")
	}
	b.until(`said.at(-1) === 'You can request another code now.'`)
	b.card("code", "1 left") // the marks follow
	b.until(`!document.querySelector('.blocked')`)
	if said := eval[[]string](b, "said"); len(said) > 3 {
		t.Errorf("%d announcements in one countdown: %q", len(said), said)
	}
	b.click("#again")
	b.card("code", "Code sent again to a•••@example.com", "Send again in 0:05")
	b.focused("again")
	if w.Codes.Sends() != 2 {
		t.Errorf("%d sends", w.Codes.Sends())
	}
}

// aReloadMovesNothing when its script comes, later than the page: what only the script can show has its place. It is noon there, for near
// midnight a time has its day, and may need a line more. A digit that is wider than the one before moves what is beside it by less.
func aReloadMovesNothing(t *testing.T, browser context.Context) {
	w := sent(t)
	w.Advance(20 * time.Second)
	for _, lang := range []string{"en", "zh-CN", "es", "ar"} {
		for _, width := range []int64{320, 1280} {
			b := open(t, browser, w, pagetest.Look{Width: width, Height: 900, Lang: lang})
			b.zone(fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12)) // its signs are the other way round
			b.first(`window.shifts = []; new PerformanceObserver((list) => shifts.push(...list.getEntries().filter((e) => e.value > 0.0003).map((e) => [e.value, ...e.sources.map((s) => [s.node?.nodeName + '#' + s.node?.id, JSON.stringify(s.previousRect), JSON.stringify(s.currentRect)].join(' '))].join(' ')))).observe({ type: 'layout-shift', buffered: true })`)
			b.visit("")
			b.until(`!document.querySelector('#code-hint').hidden`)
			b.do(slow(300*time.Millisecond, 400_000/8))
			b.do(chromedp.Reload())
			b.until(`document.querySelector('#code-hint')?.hidden === false`)
			eval[bool](b, `requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true })), true`)
			b.until(`window.drawn`)
			if moved := eval[[]string](b, `shifts`); len(moved) > 0 {
				t.Errorf("%s at %d px: the page moves: %v", lang, width, moved)
			}
		}
	}
}

func backAndForwardShowTheTruth(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code", "Send again in")
	before := b.left()
	b.click(".lead a")
	b.card("ask", "Back to the code")
	w.Advance(25 * time.Second)
	b.history("back")
	b.card("code", "Send again in")
	b.until(fmt.Sprintf(`Number(document.querySelector('#again').innerText.split(':')[1]) <= %d`, before-25))
	w.Codes.Settle(store.Unknown)
	b.history("forward")
	b.card("ask")
	b.history("back")
	b.card("code", "It may still arrive")
	b.until(`document.readyState === 'complete'`) // its scripts have run; the browser need not have kept it
	// A page that the browser kept alive whole asks again when it is shown again.
	w.Codes.Settle(store.Sent)
	eval[bool](b, `dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
	b.card("code", "Check your mail")
}

// anUnansweredQuestionIsAskedAgain though the page is not looked at, and whatever else asks in the meantime: the page that the browser kept
// says in the end what the server says.
func anUnansweredQuestionIsAskedAgain(t *testing.T, browser context.Context) {
	w := sent(t)
	w.Codes.Settle(store.Unknown)
	b := open(t, browser, w, pagetest.Look{})
	b.tolerate = "Failed to load resource"
	b.visit("")
	b.card("code", "It may still arrive")
	w.Codes.SetDown(true)
	b.until(`document.readyState === 'complete'`)
	eval[bool](b, `document.dispatchEvent(new Event('visibilitychange'))`)
	b.await("a look that failed", func() bool { return strings.Contains(w.Log.String(), `"status":503`) })
	w.Codes.Settle(store.Sent)
	w.Codes.SetDown(false)
	b.card("code", "Check your mail")
	w.Codes.SetDown(true)
	eval[bool](b, `['visibilitychange', 'pageshow', 'visibilitychange'].every((name) =>
		(name === 'pageshow' ? window : document).dispatchEvent(new PageTransitionEvent(name, { persisted: true })))`)
	b.card("away")
	w.Codes.SetDown(false)
	b.card("code", "Check your mail")
	b.do(pagetest.Offline(true))
	eval[bool](b, `window.real = fetch, window.fetch = (...all) => real(...all).catch((e) => { window.failed = true; throw e }),
		dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
	b.until(`window.failed`)
	w.Codes.SetDown(true)
	b.do(pagetest.Offline(false))
	b.card("away")
}

// sleepCounts: the steady clock stands still while the machine sleeps, and the server cannot be reached on waking.
func sleepCounts(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.tolerate = "ERR_INTERNET_DISCONNECTED"
	b.visit("")
	b.card("code", "Send again in")
	b.sleeps()
}

// sleeps has half a minute pass that the steady clock knows nothing of, and then a whole one.
func (b *tab) sleeps() {
	b.Helper()
	const woke = `document.dispatchEvent(new Event('visibilitychange'))`
	b.do(pagetest.Offline(true))
	eval[bool](b, `freeze() ?? `+woke)
	before := b.left()
	eval[bool](b, `jump(30_000, 0) ?? `+woke)
	if after := b.left(); after != before-30 && after != before-29 { // the clocks' own milliseconds may begin at another moment
		b.Errorf("%d s before half a minute of sleep, %d after it", before, after)
	}
	eval[bool](b, `jump(60_000, 0) ?? `+woke)
	b.until(b.root + `.querySelector('#again').innerText.trim() === 'Send again'`)
}

func aClockSetBackDoesNot(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code", "Send again in")
	eval[bool](b, `jump(-3_600_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	if left := b.left(); left > 60 {
		t.Errorf("%d s are left", left)
	}
	w.Advance(time.Minute)
	eval[bool](b, `jump(0, 60_000), document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(`document.querySelector('#again').innerText.trim() === 'Send again'`)
}
