package ui_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/parts/axe"
	"sendcode/internal/ui/uitest"
)

// axe takes the engine out of the browser.
func (b *tab) axe() *axe.Engine {
	b.Helper()
	engine, err := axe.Load(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// accessible: axe-core finds nothing wrong with a part of the page as it is shown now.
func (b *tab) accessible(engine *axe.Engine, name string, look uitest.Look, part string) {
	b.Helper()
	found, err := engine.Violations(b.ctx, part)
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range found {
		b.Errorf("%s at %d px, dark %v: %s", name, look.Width, look.Dark, v)
	}
}

// everyOtherPage is those beside the page that asks for codes: the dev mailbox, and a page that explains a problem.
func everyOtherPage(t *testing.T, browser context.Context) {
	w, mails := running(t), &box{}
	b := open(t, browser, w, uitest.Look{})
	b.tolerate = "e" // the mail's frame may run no scripts, and says so
	engine := b.axe()
	site := httptest.NewServer(mailbox(w, mails))
	defer site.Close()
	look := uitest.Look{Height: 640, Still: true, Lang: "en"}
	for _, step := range []struct{ name, path string }{
		{"no mail", "/mailbox"}, {"a mail", "/mailbox"}, {"a problem", "/problems/quota-exceeded"},
	} {
		if step.name == "a mail" {
			mails.add(first())
		}
		for _, look.Width = range []int64{320, 1280} {
			for _, look.Dark = range []bool{false, true} {
				b.do(look.Apply(), chromedp.Navigate(site.URL+step.path))
				b.accessible(engine, step.name, look, "html")
			}
		}
	}
}
