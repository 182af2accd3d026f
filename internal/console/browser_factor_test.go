package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/console/consoletest"
)

// Somebody sets up an app, by keyboard, and logs in with it.
func TestBrowserSecondFactor(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth.DemandFactor = true })
	w := openWindow(r)
	w.do(chromedp.Navigate(w.base + "/admin"))
	w.leads(exactly("/admin/factor"), chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	w.shows(".qr", chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	for _, width := range []int64{320, 1280} {
		w.do(emulate(width, "dark"))
		if wide := w.text(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(width) {
			t.Errorf("at %d px it is %s px wide", width, wide)
		}
		w.shot(fmt.Sprintf("factor-begun-%d-dark", width))
	}
	d := r.phone(strings.ReplaceAll(w.text(`document.querySelector(".shown").innerText`), " ", ""))
	const ready = `document.activeElement.id === "code"` // which a browser may see to after the page has been loaded
	w.until(ready)
	w.shows(".codes", chromedp.KeyEvent(d.Code()+kb.Enter))
	if n := w.text(`String(document.querySelectorAll(".codes li").length)`); n != "10" {
		t.Errorf("%s recovery codes", n)
	}
	w.do(emulate(320, "light"))
	w.shot("factor-done-320-light")
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(".top button")))
	w.leads(exactly("/admin/login/code?next=%2Fadmin%2Ftail"), chromedp.Navigate(w.base+"/admin/tail"),
		chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	w.shot("factor-code-320-light")
	w.until(ready)
	w.leads(exactly("/admin/tail"), chromedp.KeyEvent(d.Next()+kb.Enter))
	w.quietAt()
	r.console.Stop() // which the page would complain about in the end
}
