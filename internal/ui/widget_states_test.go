package ui_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/ui/uitest"
)

// everyStateOfAWidget at 320 CSS pixels, light and dark as the site is, in English and in Chinese.
func everyStateOfAWidget(t *testing.T, browser context.Context) {
	b := open(t, browser, running(t), uitest.Look{})
	b.tolerate = "e" // refusals and outages are in the console too; what is wrong is searched for below
	b.root = `document.querySelector('send-code').shadowRoot`
	look := uitest.Look{Width: 320, Height: 640, Still: true, Lang: "en"}
	engine := b.axe()
	for _, s := range uitest.WidgetStates() {
		for _, lang := range []string{"en", "zh"} {
			w, site, err := s.World(lang)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Close)
			t.Cleanup(site.Close)
			b.do(look.Apply(), chromedp.Navigate(site.URL))
			if err := s.Reach(b.ctx, w); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if eval[bool](b, sideways) {
				t.Errorf("%s, %s: scrolls sideways", s.Name, lang)
			}
			for _, look.Dark = range []bool{false, true} {
				b.do(look.Apply())
				for _, fault := range eval[[]string](b, faults+"("+b.root+")") {
					t.Errorf("%s, %s, dark %v: %s", s.Name, lang, look.Dark, fault)
				}
				for _, look.Width = range []int64{1280, 320} {
					b.do(look.Apply())
					b.accessible(engine, s.Name, look, "send-code")
				}
			}
			if lang == "zh" && eval[bool](b, `/[A-Za-z]{3,}/.test(`+b.root+`.querySelector('#card').innerText.replaceAll(/\S+@?example\.com|S-\w{4}-\w{4}/g, ''))`) {
				t.Errorf("%s says in Chinese: %s", s.Name, eval[string](b, b.root+`.querySelector('#card').innerText`))
			}
		}
	}
}
