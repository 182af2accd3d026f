package page_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/page/pagetest"
)

// phoning is a world whose clock runs and whose text messages go to some countries.
func phoning(t *testing.T) *pagetest.World {
	t.Helper()
	w := running(t)
	w.Codes.SetCountries("AT", "CN", "DE", "JM", "US")
	return w
}

// numbersWhileTheyAreTyped: digits come out as the country writes them, and the country is the one that a number says.
func numbersWhileTheyAreTyped(t *testing.T, browser context.Context) {
	b := open(t, browser, phoning(t), pagetest.Look{Lang: "de-DE,en"})
	b.visit("?view=instead")
	b.card("ask")
	for _, c := range []struct{ typed, shown, country string }{
		{"03023125000", "030 23125000", "DE"},
		{"0151 234 567 89", "01512 3456789", "DE"},
		{"+12025550143", "+1 202-555-0143", "US"},
		{"+8613800138021", "+86 138 0013 8021", "CN"},
		{"004915123456789", "0049 1512 3456789", "DE"},
		{"٠١٥١٢٣٤٥٦٧٨٩", "01512 3456789", "DE"},
		{"０１５１２３４５６７８９", "01512 3456789", "DE"},
		{"0151 x", "0151 x", "DE"},
		{"+34612345678", "+34 612 34 56 78", "DE"}, // which is not among those that can be chosen
		{"01512345678901234567", "01512345678901234567", "DE"},
	} {
		b.clear("phone")
		b.run(`document.querySelector('#country').value = 'DE'`)
		for _, key := range c.typed {
			b.paste(string(key))
		}
		b.until(fmt.Sprintf(`document.querySelector('#phone').value === %q`, c.shown))
		b.until(fmt.Sprintf(`document.querySelector('#country').value === %q`, c.country))
	}
	b.clear("phone")
	b.keys("015123456789")
	b.until(`document.querySelector('#phone').value === '01512 3456789'`)
	b.run(`document.querySelector('#phone').setSelectionRange(3, 3)`)
	b.keys("9") // mended in the middle: nothing jumps
	b.until(`document.querySelector('#phone').value === '015912 3456789' && document.querySelector('#phone').selectionStart === 4`)
}

// aNumberBeingTypedStays, also when the page asks how things stand meanwhile.
func aNumberBeingTypedStays(t *testing.T, browser context.Context) {
	w := phoning(t)
	b := open(t, browser, w, pagetest.Look{Lang: "en-US"})
	b.visit("")
	b.card("ask")
	look := func(later time.Duration) {
		before := len(w.Log.String())
		b.jump(later, later)
		b.await("a look", func() bool { return len(w.Log.String()) > before })
	}
	b.click("#by-sms")
	look(0)
	b.click("#phone")
	b.keys("0151")
	look(2 * time.Second)
	b.keys("2345")
	b.until(`document.querySelector('#phone').value.replaceAll(' ', '') === '01512345' && document.querySelector('#by-sms').checked`)
}
