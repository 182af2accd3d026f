package page_test

import (
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/code"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	"sendcode/templates"
)

// pastedMessage is a message whose whole text is pasted.
type pastedMessage struct {
	Code, Text string
	Letters    bool
}

// ourMessages returns all our mails and text messages, in each language, with codes of digits and
// of letters.
func ourMessages(t *testing.T) (all []pastedMessage) {
	t.Helper()
	mails, err := message.NewMailRenderer(templates.FS)
	servertest.OK(t, err)
	mails.Site = "codes.shop.example"
	short, err := message.NewTextRenderer(message.TextLimits{
		Measure: func(string) int { return 1 }, Segments: 1,
		Site: "codes.shop.example",
	}, templates.FS)
	servertest.OK(t, err)
	for _, one := range []string{pagetest.Code, pagetest.LongCode, "4829137650", pagetest.Letters} {
		paste := func(text string) { all = append(all, pastedMessage{one, text, one == pagetest.Letters}) }
		for _, minutes := range []int{1, 10, 1440} {
			data := message.Data{
				App: "Shop", Code: one, Minutes: minutes, Purpose: "sign in", Support: "S-Q2HK",
				Home: "https://shop.example/",
			}
			for _, notify := range []message.NotifyMode{message.NotifyPrivate, message.NotifyGlance} {
				for _, language := range texts.PageLanguages() {
					m, err := mails.Render(message.RenderRequest{Locale: language.Lang(), Notify: notify, Data: data})
					servertest.OK(t, err)
					paste(m.Text)
					paste(m.Subject + "\n" + m.Text)
				}
			}
			for _, language := range texts.PageLanguages() {
				m, err := short.Render(message.RenderRequest{Locale: language.Lang(), Data: data})
				servertest.OK(t, err)
				paste(m.Text)
			}
		}
	}
	if len(all) < 4*3*(2*2*4+4) {
		t.Fatalf("there are %d messages", len(all))
	}
	return all
}

// Package code finds the code in each message of ours.
func TestFormatFindReadsOurMessages(t *testing.T) {
	for _, m := range ourMessages(t) {
		if got, err := code.FormatOf(m.Code).Find(m.Text); err != nil || got != m.Code {
			t.Errorf("%q, %v in\n%s", got, err, m.Text)
		}
	}
}
