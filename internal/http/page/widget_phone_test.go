package page_test

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
)

// aWidgetByPhone tests a sign-in by text message, on the page of another site and through a reload.
// Up to the reload it uses only the keyboard. After the reload the widget shows the remaining time,
// and has stored no data about the person. A mistake in a number is shown at the field, and the
// number stays there.
func aWidgetByPhone(t *testing.T, browser context.Context) {
	w := phoning(t)
	b := embedded(t, browser, w, browsertest.Look{Width: 320, Height: 640}, tag(`channels="email sms" country="DE" locale="en"`))
	b.until(b.q("#country"))
	visible := func(field, other string) string {
		return b.q(field) + `.checkVisibility() && !` + b.q(other) + `.checkVisibility()`
	}
	b.until(visible("#to", "#phone"))
	b.keys(kb.Tab)
	b.focused("by-email")
	b.keys(kb.ArrowRight)
	b.focused("by-sms")
	b.until(visible("#phone", "#to"))
	b.keys(kb.Tab)
	b.focused("country")
	b.keys("Ger")
	b.until(b.q("#country") + `.value === 'DE'`)
	b.card("ask", "As in 01512 3456789")
	b.keys(kb.Tab)
	b.focused("phone")
	b.keys("015123456789")
	b.until(b.q("#phone") + `.value === '01512 3456789'`)
	b.keys(kb.Enter)
	b.card("code", "On its way", "Sending a code to +49 151•••789", "Send again in")
	b.focused("code")
	b.keys("48")
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your phone", "Valid until", "Reference for support: S-", "per minute", "4 left", "9 left")
	is(b, b.value("#code"), "48")
	b.awaitEvent("sent", `"number":1`, `"to":"+49 151•••789"`, `"channel":"sms"`)
	b.nothingKeptBut("verification-1")
	w.Advance(20 * time.Second)
	b.do(chromedp.Reload())
	b.card("code", "Check your phone", "Send again in 0:")
	if left := b.left(); left > 40 {
		t.Errorf("%d s are left of 60 after 20", left)
	}
	b.click("[data-act=change]")
	b.focused("phone")
	b.clear("phone")
	b.paste("+34 612 34 56 78")
	b.keys(kb.Enter)
	b.card("ask", "We don't send codes to numbers in this country. You can have the code sent by email.")
	b.focused("phone")
	b.until(b.q("#phone[aria-invalid=true]") + `.getAttribute('aria-describedby') === 'phone-error phone-hint'`)
	is(b, b.value("#phone"), "+34 612 34 56 78")
	b.click("[data-act=back]")
	b.card("code", "+49 151•••789")
	b.getsIn("+49 151•••789", "You can continue")
	b.focused("heading")
	b.awaitEvent("approved", `"id":`, `"test":false`)
	b.nothingKept()
	b.nothingKeptBut("")
	if requests := w.Codes.SendRequests(); requests[0].Channel != "sms" || requests[0].Country != "DE" || w.Codes.Sends() != 1 {
		t.Errorf("%d sends, %+v", w.Codes.Sends(), requests)
	}
}

// aWidgetsOtherChannel tests that each channel has its own wait and its own code. Another channel
// does not count as another tab, not even on our own page, where tabs share a verification.
func aWidgetsOtherChannel(t *testing.T, browser context.Context) {
	w := phoning(t)
	w.Codes.Immediately = store.Sent
	b := embedded(t, browser, w, browsertest.Look{Width: 600, Height: 1000}, tag(`channels="email sms" locale="en" shared`))
	b.until(b.q("#country"))
	b.asked(pagetest.Address)
	b.card("code", "Check your mail")
	is(t, eval[bool](b, `!!`+b.q(".instead")), false) // not offered in the first minute, in which most mails arrive
	b.pass(61 * time.Second)
	b.card("code", "Send a text message instead")
	b.click("#instead")
	b.focused("phone")
	from := time.Now()
	b.keys("+4915123456789" + kb.Enter)
	b.card("code", "Check your phone", "+49 151•••789", "Send again in", "Enter the code from the email")
	b.counts(from)
	b.run(`const real = window.fetch, slowly = async (...all) => {
		window.fetch = real;
		const answer = await real(...all);
		window.asked = true;
		await new Promise((go) => setTimeout(go, 2_000));
		setTimeout(() => { window.answered = true });
		return answer;
	};
	window.fetch = slowly;
	dispatchEvent(new Event('online'))`)
	b.until(`window.asked`)
	b.click(".instead [data-act=besides]") // while a request about the old code is under way
	b.until(`window.answered`)
	b.card("code", "Check your mail", "Send a text message instead", "+49 151•••789 · next code in 0:")
	b.rest(longer) // the next look begins after a second
	containsNone(t, eval[string](b, b.q("#card")+`.innerText`), "another tab")
	b.ready()
	b.click("#other")
	b.card("code", "Check your phone", "Send again in 0:")
	is(t, len(w.Codes.SendRequests()), 2)
	b.pass(61 * time.Second)
	b.card("code", "Send by email instead", "a•••@example.com")
	b.ready()
	b.lose()
	b.click("#other")
	b.until(b.q("#offline") + `.innerText.includes("We'll continue")`)
	b.tolerate = "e" // the browser's own words for a request that fails
	from = time.Now()
	b.do(pagetest.Offline(false))
	b.card("code", "Check your mail", "Code sent again to a•••@example.com", "Send again in", "3 left")
	b.counts(from)
	is(t, len(w.Codes.SendRequests()), 3)
	b.getsIn("a•••@example.com")
	b.nothingKeptBut("")
}

// aWidgetWithoutTextMessages tests that the widget offers only the service's channels, whatever the
// site asks for.
func aWidgetWithoutTextMessages(t *testing.T, browser context.Context) {
	w := phoning(t)
	w.Codes.Pause(recipient.SMS)
	b := embedded(t, browser, w, browsertest.Look{}, tag(`channels="sms email" locale="en"`))
	b.until(b.q("#to") + `?.checkVisibility() && !` + b.q("#phone"))
	b.asked(pagetest.Address)
	b.card("code", "a•••@example.com")
}
