package ui_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/store"
	"sendcode/internal/ui/uitest"
)

// aWidgetOnAPageThatMayNot says so in plain words, to the person and to whoever made the page, and asks for nothing.
func aWidgetOnAPageThatMayNot(t *testing.T, browser context.Context) {
	for name, c := range map[string]struct {
		markup string
		allow  []string
	}{
		"its origin is in no list":        {tag, nil},
		"its origin is another app's":     {tag, []string{"https://shop.example"}},
		"the key is not known":            {`<send-code key="pk_nobodys"></send-code>`, []string{""}},
		"there is no key":                 {`<send-code></send-code>`, []string{""}},
		"the channel is not set up there": {`<send-code key="` + uitest.PublicKey + `" channel="fax"></send-code>`, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t)
			b, _ := embedded(t, browser, w, uitest.Look{}, c.markup)
			b.tolerate = "e" // the browser has its own words for each of these
			if c.allow == nil || c.allow[0] != "" {
				w.Allow(c.allow...)
			}
			if name != "there is no key" {
				b.asked(uitest.Address)
			}
			b.card("misplaced", "Codes can't be sent from here", "This page is not set up to use this service", "nothing was sent")
			b.hears("failed", `"reason":"misplaced"`)
			if w.Codes.Sends() != 0 {
				t.Error("something was sent")
			}
			b.await("a word to the developer", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return strings.Contains(strings.Join(b.console, "\n"), "<send-code>:")
			})
		})
	}
}

func aWidgetOffline(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, uitest.Look{}, tag)
	b.tolerate = "ERR_INTERNET_DISCONNECTED"
	b.asked(uitest.Address)
	b.card("code", "Send again in 0:")
	before := b.left()
	b.do(uitest.Offline(true))
	b.until(b.root + `.querySelector('#offline').innerText.startsWith('You are offline.')`)
	b.focus("code")
	b.keys(uitest.Code)
	b.until(`told.at(-1).startsWith('You are offline.')`)
	if got := eval[string](b, b.root+".querySelector('#code').value"); got != uitest.Code {
		t.Errorf("of what was typed is left %q", got)
	}
	b.await("a countdown that goes on", func() bool { return b.left() < before-1 })
	b.do(uitest.Offline(false))
	b.until(b.root + `.querySelector('#offline').hidden`)
	b.focus("code")
	b.keys(kb.Enter)
	b.card("approved")
	if w.Codes.Checks() != 1 {
		t.Errorf("%d checks", w.Codes.Checks())
	}
}

func aWidgetAndAnOutage(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	w.Codes.Down(true)
	b, _ := embedded(t, browser, w, uitest.Look{}, tag)
	b.tolerate = "status of 503"
	eval[bool](b, `freeze() ?? true`) // the wait is a short one
	b.asked(uitest.Address)
	b.card("away", "We can't do this right now", "not about you or how often you asked", "Your address is kept: ana@example.com", "Try again in 0:02")
	b.hears("failed", `"reason":"unavailable"`)
	w.Codes.Down(false)
	eval[bool](b, `jump(2_000, 2_000), document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	b.click("#again")
	b.card("code", "Check your mail")
	asks := w.Codes.Asks()
	if len(asks) != 2 || asks[0].Key == "" || asks[0].Key != asks[1].Key {
		t.Errorf("%d requests, keys %q and %q", len(asks), asks[0].Key, asks[len(asks)-1].Key)
	}
	w.Codes.Down(true)
	b.focus("code")
	b.keys(uitest.Code)
	b.card("code", "this did not work")
	b.do(chromedp.Reload())
	b.card("away", "We can't do this right now")
	w.Codes.Down(false)
	b.card("code", "Check your mail") // without a press
	b.click("[data-act=change]")      // of what was tried last, not of what was there before, is the next try
	b.asked("ben@example.com")
	b.card("code", "b•••@example.com")
	w.Codes.Down(true)
	b.click("[data-act=change]")
	eval[bool](b, b.root+`.querySelector('#to').value = '', true`)
	b.asked("cem@example.com")
	b.card("away", "Your address is kept: cem@example.com")
	w.Codes.Down(false)
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	b.click("#again")
	b.card("code", "c•••@example.com")
}

// aWidgetThatSleeps wakes with the time that has passed, also when the steady clock stood still.
func aWidgetThatSleeps(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, uitest.Look{}, tag)
	b.tolerate = "ERR_INTERNET_DISCONNECTED"
	b.asked(uitest.Address)
	b.card("code", "Send again in")
	b.sleeps()
	if n := eval[int](b, `told.length`); n > 3 {
		t.Errorf("a screen reader was told %d things", n)
	}
}
