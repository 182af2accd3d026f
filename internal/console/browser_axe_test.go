package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/layout"
	"sendcode/internal/parts/axe"
	"sendcode/internal/store"
)

// clean: for those whom a mouse, eyes or a steady hand do not serve, axe-core finds nothing wrong with the page that is shown, wide in light
// colours and narrow in dark ones.
func (w *window) clean(engine *axe.Engine, name string) {
	w.Helper()
	w.text(`document.querySelectorAll("main details").forEach(d => d.open = true); ""`)
	for scheme, width := range map[string]int64{"light": 1280, "dark": 320} {
		w.do(emulate(width, scheme))
		if wide := w.text(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(width) {
			w.Errorf("%s at %d px is %s px wide", name, width, wide)
		}
		w.shot(fmt.Sprintf("open-%s-%d-%s", name, width, scheme))
		found, err := engine.Violations(w.ctx, "html")
		w.Must(err)
		for _, v := range found {
			w.Errorf("%s at %d px, %s: %s", name, width, scheme, v)
		}
	}
}

func TestBrowserAxe(t *testing.T) {
	r, _ := besideProvider(t)
	pages := everyPage(r)
	r.as(auth.Operator) // so that there are accounts to look at
	r.Account(store.Account{Name: "mei", Role: "reader", Identity: "mei.with-a-long-name.of-the-support-department@example.org"})
	w := openWindow(r)
	engine, err := axe.Load(w.ctx)
	r.Must(err)
	w.do(chromedp.Navigate(w.base + "/admin/login"))
	w.clean(engine, "login")
	w.logIn()
	for _, s := range layout.Sections { // whatever else is in the menu
		if !slices.ContainsFunc(slices.Collect(maps.Values(pages)), func(path string) bool { return strings.Split(path, "?")[0] == s.Path }) {
			pages[s.Name] = s.Path
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		w.do(chromedp.Navigate(w.base + pages[name]))
		w.clean(engine, name)
	}
}

// The pages of logging in that show only after something was sent.
func TestBrowserAxeOfForms(t *testing.T) {
	r, _ := besideProvider(t)
	w := openWindow(r)
	engine, err := axe.Load(w.ctx)
	r.Must(err)
	enter := func(field, text string) step { return chromedp.SetValue(chromedp.CSS(field), text) }
	w.shows("#problem", chromedp.Navigate(w.base+"/admin/login"), enter("#password", "wrong"), chromedp.Click(chromedp.CSS("main form:not(.provider) button")))
	w.clean(engine, "a wrong password")
	w.logIn()
	w.shows(".qr", chromedp.Navigate(w.base+"/admin/factor"), enter("#password", consoletest.Password), chromedp.Click(chromedp.CSS("main form button")))
	w.clean(engine, "a second factor to be")
	d := r.Phone(w.text(`document.querySelector(".shown").innerText.replaceAll(" ", "")`))
	w.shows(".codes", enter("#code", d.Code()), chromedp.Click(chromedp.CSS("main form button")))
	w.clean(engine, "recovery codes")
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(logout)))
	w.leads(begins("/admin/login/code"), enter("#password", consoletest.Password), chromedp.Click(chromedp.CSS("main form:not(.provider) button")))
	w.clean(engine, "the code page")
	w.shows("#problem", enter("#code", d.Wrong()), chromedp.Click(chromedp.CSS("main form button")))
	w.clean(engine, "a wrong code")
}
