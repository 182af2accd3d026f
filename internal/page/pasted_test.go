package page_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/code"
	"sendcode/internal/message"
	"sendcode/internal/page/pagetest"
	"sendcode/templates"
)

// pastedMessage is a message that is pasted whole.
type pastedMessage struct {
	Code, Text string
	Letters    bool
}

// ourMessages returns all mails and text messages of ours, in each language, with codes of digits
// and of letters.
func ourMessages(t *testing.T) (all []pastedMessage) {
	t.Helper()
	mails, err := message.New(templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := message.NewTextRenderer(message.TextLimits{Measure: func(string) int { return 1 }, Segments: 1,
		Site: "codes.shop.example"}, templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	for letters, codes := range map[bool][]string{false: {pagetest.Code, pagetest.LongCode, "4829137650"},
		true: {pagetest.Letters}} {
		for _, one := range codes {
			for _, minutes := range []int{1, 10, 1440} {
				data := message.Data{App: "Shop", Code: one, Minutes: minutes, Purpose: "sign in", Support: "S-Q2HK",
					Home: "https://shop.example/"}
				for _, notify := range []message.NotifyMode{message.NotifyPrivate, message.NotifyGlance} {
					for _, locale := range mails.Locales("") {
						m, err := mails.Render(message.RenderRequest{Locale: locale, Notify: notify, Data: data})
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, pastedMessage{one, m.Text, letters},
							pastedMessage{one, m.Subject + "\n" + m.Text, letters})
					}
				}
				for _, locale := range texts.Locales("") {
					m, err := texts.Render(message.RenderRequest{Locale: locale, Data: data})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, pastedMessage{one, m.Text, letters})
				}
			}
		}
	}
	if len(all) < 4*3*(2*2*4+4) {
		t.Fatalf("there are %d messages", len(all))
	}
	return all
}

// The page's server and the API read the code in each message of ours.
func TestOurMessagesArePasted(t *testing.T) {
	for _, m := range ourMessages(t) {
		if got, err := code.ShapeOf(m.Code).Find(m.Text); err != nil || got != m.Code {
			t.Errorf("%q, %v in\n%s", got, err, m.Text)
		}
	}
}

// ourMessagesArePasted into a page or a widget; one of them with all that follows.
func ourMessagesArePasted(t *testing.T, browser context.Context) {
	b := open(t, browser, world(t), pagetest.Look{})
	b.do(chromedp.Navigate("about:blank"))
	script, err := pagetest.Bundle(withScript{os.DirFS("../../web"),
		"import { codeIn } from './static/code.js'; window.codeIn = codeIn;"}, "all.js", true)
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(ourMessages(t))
	if err != nil {
		t.Fatal(err)
	}
	b.run("(() => { " + string(script) + " })()")
	// A field makes spaces of the ends of lines, and takes 1000 characters.
	const pastes = `.filter((m) => codeIn(m.Text.replaceAll('\n', ' ').slice(0, 1000), m.Code.length, m.Letters) !== m.Code).map((m) => m.Text)`
	for _, text := range eval[[]string](b, string(all)+pastes) {
		t.Errorf("no code is read in\n%s", text)
	}
	onPageAndWidget(t, browser, func(b *tab) {
		b.card("code")
		b.focus("code")
		b.paste(pagetest.Code +
			" is your Shop code. It is valid for 10 min. Do not share it with anyone.\n@codes.shop.example #" +
			pagetest.Code)
		b.card("approved")
	})
}
