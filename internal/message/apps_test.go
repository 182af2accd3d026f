package message

import (
	"strings"
	"testing"
	"testing/fstest"
)

// An app has its own templates over those of all, its own languages, and its colours and home in them; other apps have none of it.
func TestAnAppsOwnMessages(t *testing.T) {
	all := renderer(t, files(map[string]string{"mail/default/en/subject.txt": "All of {{.App}}", "mail/gift/en/subject.txt": "A gift"}))
	all.SetApps(map[string]*Renderer{"shop": renderer(t, files(map[string]string{"mail/default/en/subject.txt": "All of {{.App}}", "mail/gift/en/subject.txt": "A gift"}),
		files(map[string]string{"mail/default/en/subject.txt": "From {{.App}}", "mail/default/fr/subject.txt": "De {{.App}}",
			"mail/default/fr/text.txt":  "Une demande a été faite depuis le site. Ignorez ce message si elle ne vient pas de vous, et ne donnez ce code à personne.\n{{.Code}}",
			"mail/default/fr/html.html": `{{template "layout" .}}{{define "title"}}t{{end}}{{define "preheader"}}p{{end}}{{define "content"}}{{if not .Glance}}` + strings.Repeat("x ", 80) + `{{end}}{{template "code" .}}{{end}}`}))})
	branded := shop()
	branded.Home, branded.Accent, branded.DarkAccent = "https://shop.example/?a=1&b=2", "#0b7a5c", "#38a385"
	for _, c := range []struct {
		app, purpose, locale, subject string
		data                          Data
	}{
		{"shop", "", "en", "From Shop & Söhne", branded},
		{"shop", "", "fr, en;q=0.5", "De Shop & Söhne", branded},
		{"shop", "gift", "en", "A gift", branded},
		{"other", "", "en", "All of Shop & Söhne", shop()},
		{"other", "", "fr, en;q=0.5", "All of Shop & Söhne", shop()},
	} {
		m := render(t, all, Request{App: c.app, Purpose: c.purpose, Locale: all.Prefer(c.app, c.locale), Data: c.data})
		if m.Subject != c.subject {
			t.Errorf("%s %s: %q, want %q", c.app, c.locale, m.Subject, c.subject)
		}
		for _, of := range []string{"color:#0b7a5c;", "color: #38a385 !important", `href="https://shop.example/?a=1&amp;b=2"`} {
			if strings.Contains(m.HTML, of) != (c.app == "shop") {
				t.Errorf("%s %s: %s in %s", c.app, c.locale, of, m.HTML)
			}
		}
		if strings.Contains(m.Text, "\nShop & Söhne: https://shop.example/?a=1&b=2\n") != (c.app == "shop" && m.Language == "en") {
			t.Errorf("%s %s: %s", c.app, c.locale, m.Text)
		}
	}
	if got := strings.Join(all.Locales("shop"), " ") + "; " + strings.Join(all.Locales("other"), " "); got != "en ar es fr zh-Hans; en ar es zh-Hans" {
		t.Error(got)
	}
	all.SetApps(nil)
	if m := render(t, all, Request{App: "shop", Data: branded}); m.Subject != "All of Shop & Söhne" {
		t.Errorf("without templates of its own: %q", m.Subject)
	}
	texted := texts(t, nil, TextLimits{})
	texted.SetApps(map[string]*Texts{"shop": texts(t, fstest.MapFS{"sms/default/en/text.txt": {Data: []byte("{{.Code}} for {{.App}}")}}, TextLimits{})})
	for app, want := range map[string]string{"shop": "048213 for Shop", "other": "048213 is your Shop code."} {
		if m, err := texted.Render(Request{App: app, Data: Data{App: "Shop", Code: "048213", Minutes: 10}}); err != nil || !strings.HasPrefix(m.Text, want) {
			t.Errorf("%s: %q %v", app, m.Text, err)
		}
	}
}
