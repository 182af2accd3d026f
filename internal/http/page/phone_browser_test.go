package page_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// phoning returns a world whose clock runs, and that sends text messages to some countries.
func phoning(t *testing.T) *pagetest.World {
	t.Helper()
	w := running(t)
	w.Codes.SetCountries("AT", "CN", "DE", "JM", "US")
	return w
}

// numbersWhileTheyAreTyped tests that digits appear in the format of their country, and that the
// country follows the number. The typed text stays when the page requests the state in the
// meantime.
func numbersWhileTheyAreTyped(t *testing.T, browser context.Context) {
	b := open(t, browser, phoning(t), browsertest.Look{Lang: "de-DE,en"})
	b.visit("")
	b.click("#by-sms")
	b.click("#phone")
	b.keys("0151")
	b.jump(2*time.Second, 2*time.Second)
	b.keys("2345")
	b.until(`document.querySelector('send-code').shadowRoot.querySelector('#phone').value.replaceAll(' ', '') === '01512345' && document.querySelector('send-code').shadowRoot.querySelector('#by-sms').checked`)
	for _, c := range []struct{ typed, shown, country string }{
		{"03023125000", "030 23125000", "DE"},
		{"0151 234 567 89", "01512 3456789", "DE"},
		{"+12025550143", "+1 202-555-0143", "US"},
		{"+8613800138021", "+86 138 0013 8021", "CN"},
		{"004915123456789", "0049 1512 3456789", "DE"},
		{"٠١٥١٢٣٤٥٦٧٨٩", "01512 3456789", "DE"},
		{"０１５１２３４５６７８９", "01512 3456789", "DE"},
		{"0151 x", "0151 x", "DE"},
		{"+34612345678", "+34 612 34 56 78", "DE"}, // Spain is not in the list, so the choice stays
		{"01512345678901234567", "01512345678901234567", "DE"},
	} {
		b.clear("phone")
		b.run(`document.querySelector('send-code').shadowRoot.querySelector('#country').value = 'DE'`)
		for _, key := range c.typed {
			b.paste(string(key))
		}
		b.until(fmt.Sprintf(`document.querySelector('send-code').shadowRoot.querySelector('#phone').value === %q`, c.shown))
		b.until(fmt.Sprintf(`document.querySelector('send-code').shadowRoot.querySelector('#country').value === %q`, c.country))
	}
	b.fills("phone", "015123456789")
	b.until(`document.querySelector('send-code').shadowRoot.querySelector('#phone').value === '01512 3456789'`)
	b.run(`document.querySelector('send-code').shadowRoot.querySelector('#phone').setSelectionRange(3, 3)`)
	b.keys("9") // a digit in the middle does not move the cursor to the end
	b.until(`document.querySelector('send-code').shadowRoot.querySelector('#phone').value === '015912 3456789' && document.querySelector('send-code').shadowRoot.querySelector('#phone').selectionStart === 4`)
}

// messages simulates a browser that reads text messages (WebOTP).
const messages = `(() => {
  window.OTPCredential = class {};
  window.waits = [];
  navigator.credentials ?? Object.defineProperty(navigator, 'credentials', { value: {} }); // WebKitGTK has none
  navigator.credentials.get = ({ otp, signal }) => new Promise((resolve, reject) => {
    waits.push({ transport: otp.transport.join(), came: (code) => resolve({ code }), fails: reject, signal });
    signal.addEventListener('abort', () => reject(signal.reason));
  });
})()`

// aCodeFromATextMessage tests a browser that can read text messages: the code in a message is
// filled in and checked automatically. The browser reads only while a field for the code is shown,
// and not for a code sent by mail.
func aCodeFromATextMessage(t *testing.T, browser context.Context) {
	w := accepting(t)
	w.Codes.SetCountries("DE")
	b := open(t, browser, w, browsertest.Look{})
	b.first(messages)
	b.visit("")
	b.click("#by-email")
	b.asked(pagetest.Address)
	b.card("code")
	is(t, eval[int](b, `waits.length`), 0)
	b.click(".change")
	b.click("#by-sms")
	b.fills("phone", pagetest.Number)
	b.click("#send")
	b.card("code", "+49")
	b.until(`waits.length === 1 && waits[0].transport === 'sms'`)
	b.run(b.q("#card")+`.dataset.rev = 'another'`, returnScript)
	b.until(b.q("#card") + `.dataset.rev !== 'another'`)
	is(t, eval[int](b, `waits.length`), 1) // still the first wait
	b.run(`waits[0].came('111111')`)
	b.card("code", "That code is wrong. 4 tries left.")
	b.until(`waits.length === 2`)
	b.getsIn("Number confirmed")
	b.until(`waits[1].signal.aborted`)
}
