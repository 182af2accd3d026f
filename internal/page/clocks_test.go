package page_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// every is a rule of one send in a time.
func every(window time.Duration) quota.Rule {
	return quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: window}
}

// theCountdownRunsOut second by second; a press before its end does nothing, and one after it
// sends.
func theCountdownRunsOut(t *testing.T, browser context.Context) {
	w := mailed(t, every(5*time.Second), quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour})
	b := open(t, browser, w, pagetest.Look{Motion: true})
	b.first("freeze()") // a busy machine may skip a second, and so may the page on it
	b.visit("")
	b.card("code", "Send again in 0:05")
	b.until(b.q(".bar") + ".checkVisibility()")
	b.click("#again")
	b.focused("again") // it waits, and can be reached all the same
	b.keys(kb.Enter)
	is(t, eval[string](b, `document.querySelector('[role=timer]').textContent`), "You can request another code in 5 s.")
	var want []string
	for _, text := range []string{"Send again in 0:04", "Send again in 0:03", "Send again in 0:02",
		"Send again in 0:01", "Send again"} {
		if longest := eval[float64](b, `Math.max(...naps)`); longest > 1000 {
			t.Errorf("the countdown looks at the clock after %v ms", longest)
		}
		w.Advance(time.Second)
		b.run(`jump(1_000, 1_000)`)
		b.until(fmt.Sprintf(`document.querySelector('#again').innerText.replace(/\s+/g, ' ').trim() === %q`, text))
		want = append(want, text)
	}
	if got := eval[[]string](b, "shown.slice(-5)"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the countdown showed %q, want %q", got, want)
	}
	b.ready()
	b.says("You can request another code now.")
	b.card("code", "1 left") // the marks follow
	b.until(`!document.querySelector('.blocked')`)
	if said := eval[[]string](b, "said"); len(said) > 3 {
		t.Errorf("%d announcements in one countdown: %q", len(said), said)
	}
	is(t, len(w.Codes.Asks()), 1)
	b.click("#again")
	b.card("code", "Code sent again to a•••@example.com", "Send again in 0:05")
	b.focused("again")
	is(t, w.Codes.Sends(), 2)
}

// aReloadMovesNothing when its script comes, later than the page: what only the script can show has
// its place. It is noon there, for near midnight a time has its day, and may need a line more. A
// digit that is wider than the one before moves what is beside it by less.
func aReloadMovesNothing(t *testing.T, browser context.Context) {
	w := sent(t)
	w.Advance(20 * time.Second)
	noon := fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) // its signs are the other way round
	for lang, width := range map[string]int64{"es": 320, "ar": 1280} {
		b := open(t, browser, w, pagetest.Look{Width: width, Height: 900, Lang: lang})
		b.do(pagetest.Command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: noon}))
		b.first(shifting(0.0003))
		b.visit("")
		b.until(`!document.querySelector('#code-hint').hidden`)
		b.do(slow(300*time.Millisecond, 400_000/8), chromedp.Reload())
		b.until(`document.querySelector('#code-hint')?.hidden === false`)
		b.run(`requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true }))`)
		b.until(`window.drawn`)
		if moved := eval[[]string](b, `shifts`); len(moved) > 0 {
			t.Errorf("%s at %d px: the page moves: %v", lang, width, moved)
		}
	}
}

// shifting is a script that records in shifts what moves on a page by more than least.
func shifting(least float64) string {
	return fmt.Sprintf(`window.shifts = [];
		const source = (s) => [s.node?.nodeName + '#' + s.node?.id, JSON.stringify(s.previousRect), JSON.stringify(s.currentRect)].join(' ');
		new PerformanceObserver((list) => shifts.push(...list.getEntries().filter((e) => e.value > %v)
			.map((e) => [e.value, ...e.sources.map(source)].join(' ')))).observe({ type: 'layout-shift', buffered: true })`, least)
}

func backAndForwardShowTheTruth(t *testing.T, browser context.Context) {
	w := onItsWay(t)
	b := visiting(t, browser, w)
	// a page that was kept alive whole fires no load event
	history := func(way string) { b.run("setTimeout(() => history." + way + "())") }
	b.card("code", "Send again in")
	before := b.left()
	b.click(".lead a")
	b.card("ask", "Back to the code")
	w.Advance(25 * time.Second)
	history("back")
	b.card("code", "Send again in")
	b.until(fmt.Sprintf(`Number(document.querySelector('#again').innerText.split(':')[1]) <= %d`, before-25))
	w.Codes.Settle(store.Sent)
	history("forward")
	b.card("ask")
	history("back")
	b.card("code", "Check your mail")
	b.until(`document.readyState === 'complete'`) // its scripts have run; the browser need not have kept it
	// A page that the browser kept alive whole asks again when it is shown again.
	w.Advance(11 * time.Minute)
	b.run(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
	b.card("ended")
}
