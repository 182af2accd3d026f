package message

import (
	"cmp"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func files(named map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range named {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

func readBuiltin(t *testing.T, name, old, replacement string) string {
	t.Helper()
	data, err := fs.ReadFile(builtin(), name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), old, replacement)
}

func TestPreviewRuleCountsExactly(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 60: false, 119: false, 120: true, 121: true, 500: true} {
		for _, filler := range []string{"x", "宽"} {
			if err := checkPreviewHidesCode(strings.Repeat(filler, n) + sampleCode); (err == nil) != ok {
				t.Errorf("%d characters in front: %v", n, err)
			}
		}
	}
}

func TestTidy(t *testing.T) {
	for in, want := range map[string]string{
		"a \n \t\n\n\nb\r\n": "a\n\nb\n", "\n\na\nb": "a\nb\n", "": "\n", "  a": "a\n", "a\n  b  \n": "a\n  b\n",
	} {
		if got := collapseBlankLines(in); got != want {
			t.Errorf("tidy(%q) = %q, want %q", in, got, want)
		}
	}
}

// An override replaces single files, adds purposes, of which each file may be that of the default,
// and languages. The layout is of all mails.
func TestOverrides(t *testing.T) {
	long := strings.Repeat("Bonjour, voici votre code. ", 6)
	plain, own := renderer(t), renderer(t, files(map[string]string{
		"mail/default/en/subject.txt": "\ufeffHello from {{.App}}\r\n",
		"mail/layout.html":            readBuiltin(t, "mail/layout.html", "\n", "\r\n"),
		"mail/README.md":              "notes",
		"mail/default/.DS_Store":      "\xff",
		"mail/.git/config":            "x",
		"sms/whatever.txt":            "{{",
		"mail/gift/en/subject.txt":    "Your gift from {{.App}}",
		"mail/default/fr/subject.txt": "Votre code pour {{.App}}",
		"mail/default/fr/text.txt":    long + "\n\n{{.Code}}\n",
		"mail/default/fr/html.html":   "<p>" + long + "</p><p>{{.Code}}</p>",
	}))
	if got := strings.Join(own.Locales(""), " "); got != "en ar es fr zh-Hans" {
		t.Errorf("locales %q", got)
	}
	for _, c := range []struct{ purpose, locale, subject string }{
		{"", "en", "Hello from Shop & Söhne"}, {"login", "en", "Hello from Shop & Söhne"},
		{"gift", "en", "Your gift from Shop & Söhne"},
		{"gift", "zh", ""}, {"", "es", ""}, {"", "ar", ""},
	} {
		want := render(t, plain, RenderRequest{Locale: c.locale, Data: shop()})
		want.Subject = cmp.Or(c.subject, want.Subject)
		if got := render(t, own, RenderRequest{Purpose: c.purpose, Locale: c.locale, Data: shop()}); got != want {
			t.Errorf("%v: got %+v\nwant %+v", c, got, want)
		}
	}
	if m := render(t, own, RenderRequest{Locale: "fr-CA", Data: shop()}); m.Language != "fr" ||
		m.Subject != "Votre code pour Shop & Söhne" {
		t.Errorf("french mail: %+v", m)
	}
	marked := renderer(t, files(map[string]string{
		"mail/layout.html": `{{define "layout"}}<p>MARK</p>{{template "title" .}}{{template "content" .}}{{template "preheader" .}}{{end}}` +
			`{{define "code"}}<p>{{.Code}}</p>{{end}}`,
	}))
	for _, locale := range marked.Locales("") {
		if m := render(t, marked, RenderRequest{Locale: locale, Data: shop()}); !strings.HasPrefix(m.HTML, "<p>MARK</p>") {
			t.Errorf("%s: %s", locale, m.HTML)
		}
	}
}

// privateText keeps the code back far enough, so that a case below has one fault only.
const privateText = "This sentence is here to be long enough that nothing of what follows it can be seen in a list of mails or on a " +
	"locked screen.\n"

func TestNewFindsEveryFault(t *testing.T) {
	const subject, text, page, layout = "mail/default/en/subject.txt", "mail/default/en/text.txt",
		"mail/default/en/html.html",
		"mail/layout.html"
	body := "<p>" + privateText + "</p>"
	for name, c := range map[string]struct{ file, text, want string }{
		"syntax":               {text, "one\ntwo\n{{if}}\n{{.Code}}", text + ":3: missing value for if"},
		"syntax in HTML":       {page, "\n{{end}}", page + ":2: unexpected {{end}}"},
		"syntax in the layout": {layout, "\n{{define}}", layout + ":2:"},
		"unknown field":        {subject, "{{.Name}}", subject + ":1:2: unknown field .Name"},
		"unknown field, rare branch": {subject, "Hello\n{{if false}}{{if .Glance}}{{.Name}}{{end}}{{end}}",
			subject + ":2:28: unknown field .Name"},
		"unknown field of root": {subject, "Hello{{with .Purpose}}{{$.Name}}{{end}}", "unknown field .Name"},
		"unknown field in a template": {subject, `Hello{{template "x" .Name}}{{define "x"}}{{end}}`,
			"unknown field .Name"},
		"field of a field": {subject, "Hello{{if false}}{{.App.Name}}{{end}}", "unknown field .App.Name"},
		"field of a value": {subject, "Hello{{if false}}{{(print .App).Name}}{{end}}",
			"unknown field .Name"},
		"field where dot is text": {subject, "Hello{{with .Support}}{{.App}}{{end}}", subject + ":1:"},
		"missing template":        {page, body + `<p>{{.Code}}</p>{{template "nowhere" .}}`, "nowhere"},
		"HTML context":            {page, body + `<p>{{.Code}}</p>{{if .Glance}}<a href="{{end}}x`, page},
		"empty subject":           {subject, "\n", subject + ": the subject is empty"},
		"always a time": {text, privateText + "Good for {{.Minutes}} min.\n{{.Code}}",
			text + ": it tells 0 minutes"},
		"code inside a line": {text, privateText + "Code: {{.Code}}",
			text + ": the code is not alone on a line"},
		"html without code":   {page, body, page + ": the code is not alone on a line"},
		"private: first half": {subject, "Code {{slice .Code 0 3}}", subject + ": notify private"},
		"private: digit by digit": {text,
			"{{slice .Code 0 1}} {{slice .Code 1 2}} - {{slice .Code 2 3}}\n" + privateText + "{{.Code}}",
			text + ": notify private"},
		"fault under glance only": {subject, "{{if .Glance}}{{else}}Hello{{end}}",
			subject + ": the subject is empty"},
		"html, hidden attribute": {page, body + `<p hidden>{{.Code}}</p>`,
			page + ": the code is not alone on a line"},
		"html without a body": {page, `{{define "x"}}{{end}}`, page},
		"private: text, by padding": {text, "Hello" + strings.Repeat("\u200b\u00a0", 200) + "\n{{.Code}}\n",
			text + ": notify private"},
		"private: html, preheader": {page, `<div style="display:none">{{.Code}}</div>` + body + "<p>{{.Code}}</p>",
			page + ": notify private"},
		"private: html, hidden words": {page, `<div style="display:none">` + privateText + "</div><p>{{.Code}}</p>",
			page + ": notify private"},
		"private: html, by padding": {page,
			"<p>Hello" + strings.Repeat("&#847;&zwnj;&nbsp;", 100) + "</p><p>{{.Code}}</p>",
			page + ": notify private"},
		"private: html, by a comment": {page, "<p>Hello</p><style>" + privateText + "</style><p>{{.Code}}</p>",
			page + ": notify private"},
		"private: long names only": {text, "{{.App}}{{.App}}{{.Purpose}}\n{{.Code}}\n", text + ": notify private"},
		"misspelt file": {"mail/default/en/subject.text", "Hello",
			"mail/default/en/subject.text: no such template"},
		"bad purpose": {"mail/Gift Card/en/subject.txt", "Hello",
			"mail/Gift Card/en/subject.txt: the purpose"},
		"locale not canonical":     {"mail/default/zh-hans/subject.txt", "Hello", "zh-hans/subject.txt: the locale"},
		"half a language":          {"mail/default/fr/subject.txt", "Bonjour", "mail/default/fr/text.txt: missing"},
		"not utf-8":                {subject, "Hello \xff", subject + ": not valid UTF-8"},
		"text without code":        {"sms/default/en/text.txt", "Hello", "code must stand in it once"},
		"text with the code twice": {"sms/default/en/text.txt", "{{.Code}} {{.Code}}", "code must stand in it once"},
		"text with a code in parts": {"sms/default/en/text.txt", "{{range .Groups}}{{.}} {{end}}",
			"code must stand in it once"},
		"text with an address behind": {"sms/default/en/text.txt", "{{.Code}}\n@evil.example #1", "begins with @"},
		"misspelt file of texts":      {"sms/default/en/html.html", "x", "no such template"},
		"empty directory":             {"default/en/subject.txt", "Hello", `no directory "mail"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(builtin(), files(map[string]string{c.file: c.text}))
			if strings.HasPrefix(c.file, "sms/") {
				r, err = nil, textsError(c.file, c.text)
			}
			if err == nil || r != nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error:\n%v\nwant %q", err, c.want)
			}
			lines := strings.Split(err.Error(), "\n")
			for i, line := range lines[1:] {
				if strings.Contains(strings.Join(lines[:i+1], "\n"), line) {
					t.Errorf("reported twice: %s", line)
				}
			}
		})
	}
}

func TestNewReportsAllFaultsTogether(t *testing.T) {
	_, err := New(builtin(), files(map[string]string{
		"mail/default/en/subject.txt":    "{{.Name}}",
		"mail/default/zh-Hans/html.html": "{{if}}",
		"mail/gift/en/text.txt":          "no code",
		"mail/x.txt":                     "x",
	}))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"en/subject.txt:1:2: unknown field .Name", "zh-Hans/html.html:1:",
		"gift/en/text.txt: the code",
		"mail/x.txt: no such"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestNewWantsEnglish(t *testing.T) {
	for want, tree := range map[string]fstest.MapFS{
		"mail/default/en: missing": files(map[string]string{"mail/layout.html": ""}), `no directory "mail"`: files(nil),
	} {
		if _, err := New(tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
}

// A template may still fail on data that no sample had. The reason then quotes the code, so it must
// not come out.
func TestErrorOfRenderHasNoCode(t *testing.T) {
	r := renderer(t, files(map[string]string{
		"mail/default/en/subject.txt": `{{.App}}{{if eq .App "Boom"}}{{template "x" .}}{{end}}{{define "x"}}{{index .Code .Code}}{{end}}`,
	}))
	data := shop()
	render(t, r, RenderRequest{Data: data})
	data.App = "Boom"
	m, err := r.Render(RenderRequest{Data: data})
	if err == nil || m != (MailTexts{}) {
		t.Fatalf("rendered %+v", m)
	}
	if got := err.Error(); got != "message: template mail/default/en/subject.txt failed" {
		t.Errorf("error %q", got)
	}
}
