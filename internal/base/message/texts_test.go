package message

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sendcode/internal/kit/servertest"
	"sendcode/templates"
)

// one counts a text of up to 160 bytes as one segment, which suffices to test the limit.
func one(text string) int { return (len(text) + 159) / 160 }

func textRenderer(t *testing.T, override fstest.MapFS, limits TextLimits) *TextRenderer {
	t.Helper()
	if limits.Measure == nil {
		limits.Measure, limits.Segments = one, 1
	}
	r, err := NewTextRenderer(limits, templates.FS, override)
	servertest.OK(t, err)
	return r
}

func TestTexts(t *testing.T) {
	r := textRenderer(t, nil, TextLimits{})
	for _, c := range []struct{ locale, language, want string }{
		{"en", "en", "739154 is your Shop code. It is valid for 9 min. Do not share it with anyone."},
		{"zh-CN", "zh-Hans", "【The Shop】验证码 739154，9 分钟内有效，请勿告诉任何人。"},
	} {
		got, err := r.Render(RenderRequest{Locale: c.locale, Purpose: "login", Data: Data{App: "The Shop", Code: "739154", Minutes: 9}})
		if err != nil || got.Text != c.want || got.Language != c.language || got.Segments != one(c.want) {
			t.Errorf("%s: %q %s, %v", c.locale, got.Text, got.Language, err)
		}
		if printed := fmt.Sprintf("%v %+v %s %d", got, got, got, got); strings.Contains(printed, "739154") {
			t.Error("a text prints its code")
		}
	}
	if _, err := r.Render(RenderRequest{Data: Data{App: "shop.com", Code: "739154", Minutes: 9}}); err == nil {
		t.Error("a link as the app's name is taken")
	}
	for locale, want := range map[string]string{
		"en":      "739154 is your Shop code. Do not share it with anyone.",
		"zh-Hans": "【Shop】验证码 739154，请勿告诉任何人。", "es": "739154 es tu clave de Shop. No la compartas con nadie.",
	} {
		got, err := r.Render(RenderRequest{Locale: locale, Data: Data{App: "Shop", Code: "739154"}})
		if err != nil || got.Text != want {
			t.Errorf("no time is known: %q, %v", got.Text, err)
		}
	}
}

// Browsers can read the origin line by their steps for a one-time code (WICG sms-one-time-codes,
// "parsing"): the last line begins with "@", has the host up to one space and "#", and then the
// code to the end.
func TestOriginLine(t *testing.T) {
	r := textRenderer(t, nil, TextLimits{Measure: one, Segments: 2, Site: "shop.example"})
	for _, locale := range []string{"en", "zh-Hans"} {
		got, err := r.Render(RenderRequest{Locale: locale, Data: Data{App: "Shop", Code: "BCDFGH", Minutes: 1}})
		servertest.OK(t, err)
		lines := strings.Split(got.Text, "\n")
		host, code, found := strings.Cut(strings.TrimPrefix(lines[len(lines)-1], "@"), " #")
		if len(lines) < 2 || !strings.HasPrefix(lines[len(lines)-1], "@") || !found || host != "shop.example" || code != "BCDFGH" {
			t.Errorf("%q", got.Text)
		}
	}
}

func TestCheckLength(t *testing.T) {
	r := textRenderer(t, nil, TextLimits{})
	if err := r.CheckLength(Data{App: "Shop"}, "", 10); err != nil {
		t.Error(err)
	}
	err := r.CheckLength(Data{App: strings.Repeat("Wide Shop ", 9)}, "", 10)
	if err == nil || strings.Contains(err.Error(), `"Shop"`) || !strings.Contains(err.Error(), "sms/default/en/text.txt takes 2 segments") {
		t.Errorf("%v", err)
	}
	long := fstest.MapFS{"sms/login/en/text.txt": {Data: []byte("{{.Code}}" + strings.Repeat(".", 151))}}
	r = textRenderer(t, long, TextLimits{})
	if r.CheckLength(Data{App: "A"}, "", 9) != nil || r.CheckLength(Data{App: "A"}, "", 10) == nil {
		t.Error("160 do not fit, or 161 do")
	}
	if r.CheckLength(Data{App: "A"}, "a.example", 6) == nil {
		t.Error("the last line is not counted")
	}
	ofPage := textRenderer(t, long, TextLimits{Site: "a.example"})
	if err := ofPage.CheckLength(Data{App: "A"}, "", 6); err != nil {
		t.Errorf("the page's line, which would be left out: %v", err)
	}
	got, err := r.Render(RenderRequest{Purpose: "login", Site: "a.example", Data: Data{App: "A", Code: "739154", Minutes: 1}})
	if err != nil || got.Segments != 1 || strings.Contains(got.Text, "@") {
		t.Errorf("the line of a site that is not in the configuration costs a segment: %q, %v", got.Text, err)
	}
	hashed := fstest.MapFS{"sms/login/en/text.txt": {Data: []byte("{{.Code}} {{.Hash}}")}}
	got, err = textRenderer(t, hashed, TextLimits{}).Render(RenderRequest{
		Purpose: "login", Site: "a.example",
		Data: Data{App: "A", Code: "739154", Minutes: 1, Hash: "FA+9qCX9VSu"},
	})
	if err != nil || got.Text != "739154 FA+9qCX9VSu\n@a.example #739154" {
		t.Errorf("%q, %v", got.Text, err)
	}
	if _, err = r.Render(RenderRequest{Purpose: "login", Data: Data{App: "A", Code: "739154", Details: "Pay 1 EUR"}}); err == nil {
		t.Error("a text does not show what its code confirms")
	}
}

// An app's own templates take precedence over those of all apps. They can add a language, and its
// mails show the app's colours and home page, too. Other apps get neither.
func TestSetAppsWithOwnMessages(t *testing.T) {
	ofAll := files(map[string]string{"mail/default/en/subject.txt": "All of {{.App}}", "mail/gift/en/subject.txt": "A gift"})
	const french = "Une demande a été faite depuis le site. Ignorez ce message si elle ne vient pas de vous, et ne donnez ce code à personne."
	all := renderer(t, ofAll)
	all.SetApps(map[string]*MailRenderer{"shop": renderer(t, ofAll, files(map[string]string{
		"mail/default/en/subject.txt": "From {{.App}}", "mail/default/sux/subject.txt": "De {{.App}}",
		"mail/default/sux/text.txt": french + "\n{{.Code}}",
		"mail/default/sux/html.html": "<p>" + french + french + french +
			`</p><p>{{.Code}}</p><a href="{{.Home}}" style="color:{{.Accent}};">{{.DarkAccent}}</a>`,
	}))})
	if _, err := all.Render(RenderRequest{App: "shop", Locale: "sux", Data: Data{App: "A", Code: "739154", Details: "Pay 1 EUR"}}); err == nil {
		t.Error("a mail does not show what its code confirms")
	}
	branded := shop()
	branded.Home, branded.Accent, branded.DarkAccent = "https://shop.example/?a=1&b=2", "#0b7a5c", "#63c09e"
	for _, c := range []struct {
		app, purpose, locale, subject string
		data                          Data
	}{
		{"shop", "", "en", "From Shop & Söhne", branded},
		{"shop", "", "sux, en;q=0.5", "De Shop & Söhne", branded},
		{"shop", "gift", "en", "A gift", branded},
		{"other", "", "en", "All of Shop & Söhne", shop()},
		{"other", "", "sux, en;q=0.5", "All of Shop & Söhne", shop()},
	} {
		m := render(t, all, RenderRequest{App: c.app, Purpose: c.purpose, Locale: all.PreferredLocale(c.app, c.locale), Data: c.data})
		if m.Subject != c.subject {
			t.Errorf("%s %s: %q, want %q", c.app, c.locale, m.Subject, c.subject)
		}
		for _, brandPart := range []string{"color:#0b7a5c;", "#63c09e", `href="https://shop.example/?a=1&amp;b=2"`} {
			if strings.Contains(m.HTML, brandPart) != (c.app == "shop") {
				t.Errorf("%s %s: %s in %s", c.app, c.locale, brandPart, m.HTML)
			}
		}
		if m.Language == "en" && strings.Contains(m.Text, "\nShop & Söhne: https://shop.example/?a=1&b=2\n") != (c.app == "shop") {
			t.Errorf("%s %s: %s", c.app, c.locale, m.Text)
		}
	}
	for _, app := range []string{"shop", "other"} {
		if got := all.forApp(app, all).locales.All(); slices.Contains(got, "sux") != (app == "shop") {
			t.Errorf("%s: %v", app, got)
		}
	}
	all.SetApps(nil)
	if m := render(t, all, RenderRequest{App: "shop", Data: branded}); m.Subject != "All of Shop & Söhne" {
		t.Errorf("without templates of its own: %q", m.Subject)
	}
	texted := textRenderer(t, nil, TextLimits{})
	ofShop := textRenderer(t, fstest.MapFS{"sms/default/en/text.txt": {Data: []byte("{{.Code}} for {{.App}}")}}, TextLimits{})
	texted.SetApps(map[string]*TextRenderer{"shop": ofShop})
	for app, want := range map[string]string{"shop": "048213 for Shop", "other": "048213 is your Shop code."} {
		m, err := texted.Render(RenderRequest{App: app, Data: Data{App: "Shop", Code: "048213", Minutes: 10}})
		if err != nil || !strings.HasPrefix(m.Text, want) {
			t.Errorf("%s: %q %v", app, m.Text, err)
		}
	}
}
