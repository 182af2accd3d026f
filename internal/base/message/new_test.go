package message

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
	"sendcode/templates"
)

func files(named map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range named {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

func TestPreviewRuleCountsExactly(t *testing.T) {
	end := map[int]string{textPart: "\n", htmlPart: "<br>"} // in the text and in the HTML, each is one line break
	for _, n := range []int{0, 59, 60, 118, 119, 120, 127, 128, 254, 255, 500} {
		for filler, width := range map[string]int{"x": 1, "é": 1, "宽": 2, "，": 2} {
			for part, length := range map[int]int{textPart: 120, htmlPart: 256} {
				faults := mailFaults(part, strings.Repeat(filler, n)+end[part]+SampleCode, false)
				if (len(faults) == 0) != (n*width+1 >= length) {
					t.Errorf("part %d, %d characters in front: %v", part, n, faults)
				}
			}
		}
	}
}

func TestCollapseBlankLines(t *testing.T) {
	for in, want := range map[string]string{
		"a \n \t\n\n\nb\r\n": "a\n\nb\n", "\n\na\nb": "a\nb\n", "": "\n", "  a": "a\n", "a\n  b  \n": "a\n  b\n",
	} {
		if got := collapseBlankLines(in); got != want {
			t.Errorf("tidy(%q) = %q, want %q", in, got, want)
		}
	}
}

// An override replaces single files, and adds languages and purposes. For each file that a purpose
// lacks, the default's file is used. The layout is the same for all mails.
func TestOverrides(t *testing.T) {
	long := strings.Repeat("Bonjour, voici votre code. ", 10)
	layout, err := fs.ReadFile(builtin(), "mail/layout.html")
	servertest.OK(t, err)
	plain, own := renderer(t), renderer(t, files(map[string]string{
		"mail/default/en/subject.txt":  "\ufeffHello from {{.App}}\r\n",
		"mail/layout.html":             strings.ReplaceAll(string(layout), "\n", "\r\n"),
		"mail/README.md":               "notes",
		"mail/default/.DS_Store":       "\xff",
		"mail/.git/config":             "x",
		"sms/whatever.txt":             "{{",
		"mail/gift/en/subject.txt":     "Your gift from {{.App}}",
		"mail/default/sux/subject.txt": "Votre code pour {{.App}}",
		"mail/default/sux/text.txt":    long + "\n\n{{.Code}}\n",
		"mail/default/sux/html.html":   "<p>" + long + "</p><p>{{.Code}}</p>",
	}))
	if !slices.Contains(own.locales.All(), "sux") {
		t.Errorf("locales %q", own.locales.All())
	}
	for _, c := range []struct{ purpose, locale, subject string }{
		{"", "en", "Hello from Shop & Söhne"},
		{"login", "en", "Hello from Shop & Söhne"},
		{"gift", "en", "Your gift from Shop & Söhne"},
		{"gift", "zh", ""},
		{"", "es", ""},
		{"", "ar", ""},
	} {
		want := render(t, plain, RenderRequest{Locale: c.locale, Data: shop()})
		want.Subject = cmp.Or(c.subject, want.Subject)
		if got := render(t, own, RenderRequest{Purpose: c.purpose, Locale: c.locale, Data: shop()}); got != want {
			t.Errorf("%v: got %+v\nwant %+v", c, got, want)
		}
	}
	if m := render(t, own, RenderRequest{Locale: "sux-CA", Data: shop()}); m.Language != "sux" ||
		m.Subject != "Votre code pour Shop & Söhne" {
		t.Errorf("a language of one's own: %+v", m)
	}
	marked := renderer(t, files(map[string]string{
		"mail/layout.html": `{{define "layout"}}<p>MARK</p><p hidden>{{if not .Glance}}{{template "private-preheader" .}}{{end}}</p>` +
			`{{template "title" .}}{{template "content" .}}{{template "preheader" .}}{{end}}` +
			`{{define "code"}}<p>{{.Code}}</p>{{end}}`,
	}))
	for _, locale := range marked.locales.All() {
		if m := render(t, marked, RenderRequest{Locale: locale, Data: shop()}); !strings.HasPrefix(m.HTML, "<p>MARK</p>") {
			t.Errorf("%s: %s", locale, m.HTML)
		}
	}
}

// TestNewFindsEveryFault compares the errors of NewMailRenderer and NewTextRenderer about the files
// in testdata/faults.txt with the errors there. Each fault is reported once.
func TestNewFindsEveryFault(t *testing.T) {
	expand := strings.NewReplacer("«bad byte»", "\xff", "«200 blanks»", strings.Repeat("\u200b\u00a0", 200),
		"«100 blanks»", strings.Repeat("&#847;&zwnj;&nbsp;", 100),
		"«private»", strings.Repeat("This sentence is here to be long enough that nothing of what follows it can be seen in a "+
			"list of mails or on a locked screen. ", 2))
	list, err := os.ReadFile("testdata/faults.txt")
	servertest.OK(t, err)
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSpace(string(list)), "\n\n") {
		given, file, texts := "", "", map[string]string{}
		for line := range strings.Lines(part + "\n") {
			switch text := line[2:]; line[:2] {
			case "=>":
				continue
			case "# ":
			case "| ":
				texts[file] += expand.Replace(text)
			default:
				file = strings.TrimSpace(line)
			}
			given += line
		}
		if file != "" {
			r, err := NewMailRenderer(builtin(), files(texts))
			if strings.HasPrefix(file, "sms/") {
				text := map[string]string{file: strings.TrimSuffix(texts[file], "\n")}
				r = nil
				_, err = NewTextRenderer(TextLimits{Measure: one, Segments: 1}, templates.FS, files(text))
			}
			if err == nil || r != nil {
				t.Errorf("accepted: %s", given)
				continue
			}
			lines := strings.Split(err.Error(), "\n")
			for _, line := range slices.Compact(slices.Sorted(slices.Values(lines))) {
				if strings.Count(err.Error(), line) > 1 {
					t.Errorf("reported twice: %s", line)
				}
			}
			given += "=> " + strings.Join(lines, "\n=> ") + "\n"
		}
		parts = append(parts, given)
	}
	golden.File(t, "testdata/faults.txt", strings.Join(parts, "\n"))
}

func TestNewWantsEnglish(t *testing.T) {
	for want, tree := range map[string]fstest.MapFS{
		"mail/default/en: is missing": files(map[string]string{"mail/layout.html": ""}), `no directory "mail"`: files(nil),
	} {
		if _, err := NewMailRenderer(tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := NewTextRenderer(TextLimits{}, files(nil)); err == nil || !strings.Contains(err.Error(), "sms/default/en: is missing") {
		t.Error(err)
	}
}

// A template that worked with all samples may still fail with other data. The template's error then
// quotes the code, so Render must not return this error.
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
