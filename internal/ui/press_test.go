package ui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"sendcode/internal/store"
	"sendcode/internal/ui/uitest"
)

func aPressIsNotLost(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, uitest.Look{})
	b.visit("")
	b.holds()
}

func aWidgetsPressIsNotLost(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, uitest.Look{}, tag)
	b.asked(uitest.Address)
	b.holds()
}

// holds: a card that nobody asked for waits until a press is over, or its button would be gone before that is let go.
func (b *tab) holds() {
	b.Helper()
	w := b.world
	b.card("code", "Check your mail")
	w.Advance(61 * time.Second)
	eval[bool](b, `jump(61_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	mouse := func(at []float64, kind input.DispatchMouseEventType) {
		b.Helper()
		b.do(chromedp.MouseEvent(kind, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	}
	looks := func() int { return strings.Count(w.Log.String(), `"method":"GET"`) }
	during := func(selector string, status store.Status) (letGo func()) {
		b.Helper()
		at := b.middle(selector)
		mouse(at, chromedp.MousePressed)
		w.Codes.Settle(status)
		before := looks()
		b.await("three looks", func() bool { // the second one began after the change, and has been taken in when the third is there
			eval[bool](b, `document.dispatchEvent(new Event('visibilitychange'))`)
			return looks() >= before+3
		})
		return func() { b.Helper(); mouse(at, chromedp.MouseReleased) }
	}
	letGo := during("#heading", store.Sending)
	if got := eval[string](b, fmt.Sprintf("%s.querySelector('#heading').innerText", b.root)); got != "Check your mail" {
		b.Errorf("under a press the card has changed to %q", got)
	}
	letGo()
	b.card("code", "On its way")
	w.Codes.Settle(store.Unknown) // which is asked for as for any mail on its way
	b.card("code", "It may still arrive")
	during("#again", store.Sent)()
	b.await("the send that was pressed for", func() bool { return w.Codes.Sends() == 2 })
	b.card("code", "Send again in 0:")
}
