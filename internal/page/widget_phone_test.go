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
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// tagWith is the widget with more attributes.
func tagWith(attributes string) string {
	return strings.Replace(tag, "<send-code", "<send-code "+attributes, 1)
}

// aWidgetByPhone goes by keyboard alone, on another site's page.
func aWidgetByPhone(t *testing.T, browser context.Context) {
	w := phoning(t)
	b, _ := embedded(t, browser, w, pagetest.Look{Width: 320, Height: 640}, tagWith(`channels="email sms" country="DE" locale="en"`))
	b.card("ask", "Email", "Text message", "Email address", "We'll send you a code.")
	b.until(b.root + `.querySelector('#country')`)
	b.keys(kb.Tab)
	b.focused("by-email")
	b.keys(kb.ArrowRight)
	b.focused("by-sms")
	b.until(b.root + `.querySelector('#phone').checkVisibility() && !` + b.root + `.querySelector('#to').checkVisibility()`)
	b.keys(kb.Tab)
	b.focused("country")
	b.keys("Ger")
	b.until(b.root + `.querySelector('#country').value === 'DE'`)
	b.card("ask", "As in 01512 3456789")
	b.keys(kb.Tab)
	b.focused("phone")
	b.keys("015123456789")
	b.until(b.root + `.querySelector('#phone').value === '01512 3456789'`)
	b.keys(kb.Enter)
	b.card("code", "On its way", "Sending a code to +49 151•••789", "Send again in 0:", "4 left")
	b.focused("code")
	b.hears("sent", `"number":1`, `"to":"+49 151•••789"`, `"channel":"sms"`)
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your phone", "Code sent to +49 151•••789")
	b.do(chromedp.Reload())
	b.card("code", "Check your phone", "Send again in 0:")
	b.focus("code")
	b.keys(pagetest.Code)
	b.card("approved", "+49 151•••789 is confirmed")
	b.nothingKept()
	if asks := w.Codes.Asks(); len(asks) != 1 || asks[0].Channel != "sms" || asks[0].Country != "DE" {
		t.Errorf("%d requests, %+v", len(asks), asks)
	}
}

// aWidgetsNumbers: what is wrong is said at the field, in the words of its channel, and what was typed stays.
func aWidgetsNumbers(t *testing.T, browser context.Context) {
	w := phoning(t)
	b, _ := embedded(t, browser, w, pagetest.Look{}, tagWith(`channels="sms email" locale="en"`))
	b.tolerate = "status of 422"
	b.until(b.root + `.querySelector('#country')`)
	for typed, words := range map[string]string{
		"": "Enter your phone number.", "0151 x": "Enter the number alone", "+1 202": "too few digits",
		"+34 612 34 56 78": "We don't send codes to numbers in this country. You can have the code sent by email.",
	} {
		b.focus("phone")
		eval[bool](b, b.root+`.querySelector('#phone').value = '', true`)
		b.paste(typed)
		b.keys(kb.Enter)
		b.card("ask", words)
		b.focused("phone")
		b.until(fmt.Sprintf(`(() => { const f = %s.querySelector('#phone'); return f.value === %q && f.getAttribute('aria-invalid') === 'true'
			&& f.getAttribute('aria-describedby') === 'phone-error phone-hint' })()`, b.root, typed))
	}
	if w.Codes.Sends() != 0 {
		t.Error("something was sent")
	}
	b.click("#by-email")
	b.focus("to")
	b.keys(pagetest.Address + kb.Enter)
	b.card("code", "a•••@example.com")
}

// aWidgetsOtherChannel has its own wait, and its own code.
func aWidgetsOtherChannel(t *testing.T, browser context.Context) {
	w := phoning(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, pagetest.Look{Width: 600, Height: 1000}, tagWith(`channels="email sms" locale="en"`))
	b.until(b.root + `.querySelector('#country')`)
	b.asked(pagetest.Address)
	b.card("code", "Check your mail")
	if eval[bool](b, `!!`+b.root+`.querySelector('.instead')`) {
		t.Error("the way to the other channel is there while the mail is")
	}
	ahead := func() {
		w.Advance(61 * time.Second)
		eval[bool](b, `jump(61_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	}
	ahead()
	b.card("code", "Send a text message instead")
	b.click("#instead")
	b.focused("phone")
	from := time.Now()
	b.keys("+4915123456789" + kb.Enter)
	b.card("code", "Check your phone", "+49 151•••789", "Send again in", "Enter the code from the email")
	b.counts(from)
	b.click(".instead [data-act=besides]")
	b.card("code", "Check your mail", "Send a text message instead", "+49 151•••789 · next code in 0:")
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	b.click("#other")
	b.card("code", "Check your phone", "Send again in 0:")
	if got := len(w.Codes.Asks()); got != 2 {
		t.Errorf("%d requests: a code was asked for that had to wait", got)
	}
	ahead()
	b.card("code", "Send by email instead", "a•••@example.com")
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	from = time.Now()
	b.click("#other")
	b.card("code", "Check your mail", "Code sent again to a•••@example.com", "Send again in", "3 left")
	b.counts(from)
	b.focus("code")
	b.keys(pagetest.Code)
	b.card("approved", "a•••@example.com is confirmed.")
	b.nothingKeptBut("")
}

// aWidgetWithoutTextMessages offers what the service has, whatever the site wishes for.
func aWidgetWithoutTextMessages(t *testing.T, browser context.Context) {
	w := running(t)
	b, _ := embedded(t, browser, w, pagetest.Look{}, tagWith(`channels="sms email" locale="en"`))
	b.until(b.root + `.querySelector('#to')?.checkVisibility() && !` + b.root + `.querySelector('#phone')`)
	b.asked(pagetest.Address)
	b.card("code", "a•••@example.com")
	paused := phoning(t)
	paused.Codes.Pause(recipient.SMS)
	b, _ = embedded(t, browser, paused, pagetest.Look{}, tagWith(`channels="sms email" locale="en"`))
	b.until(b.root + `.querySelector('#to')?.checkVisibility() && !` + b.root + `.querySelector('#phone')`)
}
