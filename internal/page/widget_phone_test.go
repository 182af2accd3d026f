package page_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
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

// aRealWidgetByPhone: from a page of another origin, under the documented policy, through a carrier to a proof that says so.
func aRealWidgetByPhone(t *testing.T, browser context.Context) {
	var policy, markup string
	site := pagetest.NewSite(func() (string, string, string) { return policy, "", markup })
	t.Cleanup(site.Close)
	c := newCarrier(t)
	yaml := fmt.Sprintf("apps:\n  - {name: shop, origins: [%q], keys: [{id: web, kind: public, sha256: %x}]}\n", site.Origin(), sha256.Sum256([]byte(pagetest.PublicKey)))
	base, _ := service(t, filepath.Join(t.TempDir(), "data"), configured(t, yaml+carried(c.URL)))
	real := strings.NewReplacer("https://codes.example", base, "pk_your_public_key", pagetest.PublicKey)
	_, policy, _ = strings.Cut(strings.TrimSpace(real.Replace(example(t, "http")[0])), ": ")
	policy += "; require-trusted-types-for 'script'; trusted-types 'none'"
	for _, block := range example(t, "html") {
		if strings.Contains(block, "channels=") {
			markup = real.Replace(`<script type="module" src="https://codes.example/widget.js"></script>` + block)
		}
	}
	b := open(t, browser, running(t), pagetest.Look{Lang: "en-US"})
	b.tolerate = "favicon" // the documented policy allows a site no picture
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(listening + `; addEventListener('approved', (e) => { window.proof = e.detail.proof })`)
	b.do(chromedp.Navigate(site.URL))
	b.card("ask", "Text message")
	b.until(b.root + `.querySelector('#country')?.options.length === 2`) // those that the carrier serves
	b.click("#by-sms")
	b.focus("phone")
	b.keys("+4915123456789")
	b.until(b.root + `.querySelector('#phone').value === '+49 1512 3456789' && ` + b.root + `.querySelector('#country').value === 'DE'`)
	from := time.Now()
	b.doubleClick("#send")
	b.card("code", "Check your phone", "Code sent to +49 151•••789", "Send again in", "4 left")
	b.counts(from)
	b.await("one text message", func() bool { return len(c.texts()) == 1 })
	b.focus("code")
	b.paste(sixDigits.FindString(c.texts()[0].Get("text")))
	b.card("approved", "+49 151•••789 is confirmed")
	claims := eval[string](b, `atob(proof.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))`)
	if !strings.Contains(claims, `"channel":"sms"`) || !strings.Contains(claims, `"shop"`) {
		t.Errorf("the proof says %s", claims)
	}
	if len(c.texts()) != 1 {
		t.Errorf("%d text messages", len(c.texts()))
	}
}
