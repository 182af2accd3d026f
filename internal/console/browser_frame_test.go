package console

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A page is in the zone of the browser; a switch leads to UTC and back, and another to Chinese, each by keyboard and for good.
func TestBrowserZoneAndLanguage(t *testing.T) {
	r := newRig(t)
	busy(r)
	w := openWindow(r)
	w.logIn()
	shown := func() string {
		return w.text(`document.querySelector("[data-zone]").innerText + " " + document.querySelector("tbody .date").innerText.trim() + " " + document.querySelector("tbody time").innerText.slice(-12, -7) + " " + document.documentElement.lang`)
	}
	button := func(name string) step { return chromedp.Focus(chromedp.CSS(`.prefer button[name=` + name + `]`)) }
	list := "/admin?channel=email"
	w.leads(exactly(list), chromedp.Navigate(w.base+list))
	for _, c := range []struct{ press, want string }{
		{"", "UTC+8 2026-03-04 22:03 en"}, {"zone", "UTC 2026-03-04 14:03 en"}, {"zone", "UTC+8 2026-03-04 22:03 en"}, {"language", "UTC+8 2026-03-04 22:03 zh-Hans"},
	} {
		if c.press != "" {
			w.do(button(c.press))
			w.text(`document.documentElement.dataset.before = "1"; ""`)
			w.do(chromedp.KeyEvent(kb.Enter))
			w.until(`document.readyState === "complete" && !("before" in document.documentElement.dataset)`)
		}
		if got := shown(); got != c.want {
			t.Errorf("after %q: %q, want %q", c.press, got, c.want)
		}
		if at := w.text(`location.pathname + location.search`); at != list {
			t.Errorf("at %s", at)
		}
	}
	w.leads(exactly("/admin/webhooks"), chromedp.Focus(chromedp.CSS(".menu summary")), chromedp.KeyEvent(kb.Enter+kb.Tab+kb.Tab+kb.Tab+kb.Enter))
	w.quietAt()
}

// In the list what is waited for counts down, and says so when it is over.
func TestBrowserListTicks(t *testing.T) {
	r := newRig(t)
	r.sent("ana@example.com")
	w := openWindow(r)
	w.logIn()
	const left = `document.querySelector("td.code .left").innerText`
	first := w.text(left)
	w.until(left + ` !== "` + first + `" && /^9 min \d+ s$/.test(` + left + `)`)
	if got := w.text(`performance.now = () => 601e3; ""`); got != "" {
		t.Fatal(got)
	}
	w.until(left + ` === "expired"`)
	w.quietAt()
}

// So does what a recipient's rules wait for, above their rows and beside a send.
func TestBrowserQuotaTicks(t *testing.T) {
	r := newRig(t)
	row := busy(r)
	w := openWindow(r)
	w.logIn()
	const note = `document.querySelector(".pips-row .pips-note").innerText`
	for _, page := range []string{"/admin?app=shop&channel=email&recipient=" + row.Recipient.String(), "/admin/sends/" + row.ID.String()} {
		w.leads(exactly(page), chromedp.Navigate(w.base+page))
		w.text(`performance.now = () => 30e3; ""`)
		w.until(note + ` === "free in 8 s" && document.querySelector(".pips-row.blocked") !== null`)
		w.text(`performance.now = () => 39e3; ""`)
		w.until(note + ` === "free now" && document.querySelector(".pips-row.blocked") === null`)
	}
	w.quietAt()
}
