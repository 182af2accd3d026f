package message

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"sendcode/internal/base/texts"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
)

// builtin returns the templates that the binary contains.
func builtin() fs.FS { return os.DirFS("../../../templates") }

func renderer(t *testing.T, overrides ...fs.FS) *MailRenderer {
	t.Helper()
	r, err := NewMailRenderer(builtin(), overrides...)
	servertest.OK(t, err)
	return r
}

func shop() Data {
	return Data{
		App: "Shop & Söhne", Code: "048213", Minutes: 10, Purpose: "to sign in", Requested: "14:05 UTC", Support: "S-Q2HK",
		NotMe: "https://codes.example/not-me/a1_-Z",
	}
}

// untitled returns the data of shop without the words of a purpose.
func untitled() Data {
	d := shop()
	d.Purpose = ""
	return d
}

// titles has the titles of two purposes. The key is the English title.
var titles = map[string]PurposeTitles{
	"to sign in": NewPurposeTitles(map[string]string{"en": "to sign in", "es": "para entrar", "zh": "用于登录", "ar": "لتسجيل الدخول"}),
	"to confirm your address": NewPurposeTitles(map[string]string{
		"en": "to confirm your address", "es": "para confirmar tu dirección", "zh-Hans": "用于确认您的地址",
		"ar": "لتأكيد عنوانك",
	}),
}

// The first line of a message says what its code is for, in the message's language. If there is no
// title in that language, it doesn't say that.
func TestTitles(t *testing.T) {
	r := renderer(t)
	for locale, want := range map[string]string{
		"en-GB": "to sign in", "sux": "to sign in", "es-MX": "para entrar", "zh-TW": "用于登录", "zh-Hans": "用于登录",
		"ar": "لتسجيل الدخول",
	} {
		req := RenderRequest{Locale: locale, Titles: titles["to sign in"], Data: untitled()}
		m := render(t, r, req)
		first, _, _ := strings.Cut(m.Text, "\n")
		top, _, _ := strings.Cut(htmlText(m.HTML, false), "\n")
		if !strings.Contains(first, want) || !strings.Contains(top, want) {
			t.Errorf("%s: not %q but %q and %q", locale, want, first, top)
		}
		p, err := r.Prepare(req)
		if _, text, html, err2 := p.Form.Texts(p.Fill, p.Token); err != nil || err2 != nil || text != m.Text || html != m.HTML {
			t.Errorf("%s: the form has other words: %v, %v", locale, err, err2)
		}
	}
	for _, none := range []PurposeTitles{{}, NewPurposeTitles(nil), NewPurposeTitles(map[string]string{"es": "para entrar"})} {
		req := RenderRequest{Locale: "en", Titles: none, Data: untitled()}
		if m := render(t, r, req); !strings.HasPrefix(m.Text, "Your code for Shop & Söhne is below,") {
			t.Errorf("without a title: %q", m.Text)
		}
	}
}

func render(t *testing.T, r *MailRenderer, req RenderRequest) MailTexts {
	t.Helper()
	m, err := r.Render(req)
	servertest.OK(t, err)
	return m
}

func TestGolden(t *testing.T) {
	r := renderer(t)
	var ours []string
	for _, w := range texts.PageLanguages() {
		ours = append(ours, w.Lang())
	}
	for what, got := range map[string][]string{"mail": r.locales.All(), "sms": textRenderer(t, nil, TextLimits{}).locales.All()} {
		if !slices.Equal(got, ours) {
			t.Errorf("templates/%s/default has the languages %v, and internal/base/texts %v", what, got, ours)
		}
	}
	const dir = "testdata/golden"
	made := map[string]bool{}
	compare := func(name, got string) { t.Helper(); made[name] = true; golden.File(t, filepath.Join(dir, name), got) }
	for _, locale := range r.locales.All() {
		for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
			m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Titles: titles["to sign in"], Data: untitled()})
			for part, got := range map[string]string{"subject.txt": m.Subject + "\n", "text.txt": m.Text, "html.html": m.HTML} {
				compare(locale+"."+string(notify)+"."+part, got)
			}
		}
		letters := untitled()
		letters.Code, letters.Minutes = "BKVXRTNZ", 24*60
		m := render(t, r, RenderRequest{Locale: locale, Titles: titles["to confirm your address"], Data: letters})
		compare(locale+".letters.text.txt", m.Text)
		compare(locale+".letters.html.html", m.HTML)
		for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} { // tries a caller's code without a ttl
			untimed := shop()
			untimed.Minutes = 0
			m = render(t, r, RenderRequest{Locale: locale, Notify: notify, Data: untimed})
			compare(locale+".untimed."+string(notify)+".txt", m.Text+"\n"+htmlText(m.HTML, false))
		}
	}
	files, err := os.ReadDir(dir)
	servertest.OK(t, err)
	for _, f := range files {
		if !made[f.Name()] {
			t.Errorf("%s is in %s, and no mail is compared with it", f.Name(), dir)
		}
	}
}

// In every language, a mail shows the app, the purpose, the reference and the details, has the
// direction of its language, and contains no remote content and no link but the one to report it.
// NewMailRenderer does not check this.
func TestEveryMail(t *testing.T) {
	remote := regexp.MustCompile(`(?i)https?:|//[a-z]|src\s*=|url\(|@import|<(img|link|script|iframe|form|object|embed|video|a)\b`)
	title := regexp.MustCompile(`(?s)<title>.*?</title>`)
	bare := Data{App: "A", Code: "048213", Minutes: 1}
	wide := Data{Details: strings.Repeat("给", 100), App: strings.Repeat("宽", 64), Code: "A1B2C3D4E5F6", Minutes: 1440, Purpose: strings.Repeat("w", 64), Support: "S-Q2HK"}
	r := renderer(t)
	align := map[string]string{"ltr": "left", "rtl": "right"}
	check := func(req RenderRequest) {
		m, d := render(t, r, req), req.Data
		dir := map[bool]string{false: "ltr", true: "rtl"}[req.Locale == "ar"]
		shown, private := htmlText(m.HTML, false), req.Notify == NotifyPrivate
		for _, want := range []string{d.App, d.Purpose, d.Support, d.Details} {
			if !strings.Contains(m.Text, want) || !strings.Contains(shown, want) {
				t.Errorf("%s: text or HTML does not say %q", req.Locale, want)
			}
		}
		if !strings.Contains(m.Subject, d.App) || strings.HasPrefix(m.Subject, d.Code) == private {
			t.Errorf("%s: subject %q", req.Locale, m.Subject)
		}
		if found := title.FindString(m.HTML); private && (found == "" || strings.Contains(found, d.Code)) {
			t.Errorf("%s: title %q", req.Locale, found)
		}
		if words := wordsBefore(shown, d.Code); !private && d == shop() && (words > 16 || words < 3 || wordsBefore(m.Text, d.Code) > 16) {
			t.Errorf("%s: %d words before the code: %s", req.Locale, words, shown)
		}
		link := `<a class="soft" href="` + d.NotMe + `"`
		if strings.Count(m.HTML, link) != min(len(d.NotMe), 1) || !strings.Contains(m.Text, d.NotMe) {
			t.Errorf("%s: not one link to report it: %s", req.Locale, m.HTML)
		}
		if found := remote.FindString(strings.Replace(m.HTML, link, "", 1)); found != "" || strings.Contains(m.HTML, "ZgotmplZ") {
			t.Errorf("%s: remote or active content %q, or a value was filtered out", req.Locale, found)
		}
		if strings.Contains(m.Text+shown, "- -") || strings.Contains(m.Text+shown, ". .") {
			t.Errorf("%s: filled up with marks: %s", req.Locale, m.Text)
		}
		for _, want := range []string{
			`<!--[if mso]><table role="presentation" width="480"`, `<!--[if mso]></td></tr></table><![endif]-->`,
			`<html lang="` + req.Locale + `" dir="` + dir + `">`,
			`<td class="ink" dir="` + dir + `" align="` + align[dir],
			"prefers-color-scheme: dark", `role="presentation"`, `content="telephone=no,`,
		} {
			if !strings.Contains(m.HTML, want) {
				t.Errorf("%s: no %s", req.Locale, want)
			}
		}
	}
	for _, locale := range r.locales.All() {
		for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
			for _, data := range []Data{shop(), bare, wide} {
				check(RenderRequest{Locale: locale, Notify: notify, Data: data})
			}
			home := shop()
			home.Home = "https://shop.example/"
			m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Data: home})
			if !strings.Contains(m.Text, "\nShop & Söhne: https://shop.example/\n") || !strings.Contains(m.HTML, home.Home) {
				t.Errorf("%s: the home page is not told: %s", locale, m.Text)
			}
		}
	}
}

// In a private mail, just enough words come before the code to keep it out of a preview. The HTML
// part begins with hidden words, which do not contain the code.
func TestPrivateMailsHideTheCodeFromPreviews(t *testing.T) {
	r := renderer(t)
	for _, locale := range r.locales.All() {
		for _, data := range sampleData[:4] {
			m := render(t, r, RenderRequest{Locale: locale, Data: data})
			all, shown := htmlText(m.HTML, true), htmlText(m.HTML, false)
			for limit, text := range map[int]string{previewLength + 40: m.Text, htmlPreviewLength + 90: all} {
				if err := checkPreviewHidesCode(text, limit); err == nil {
					t.Errorf("%s: the code is not within %d characters: %s", locale, limit, text)
				}
			}
			if hidden, found := strings.CutSuffix(all, shown); !found || hidden == "" || strings.Contains(hidden, data.Code) {
				t.Errorf("%s: the hidden words are %q", locale, hidden)
			}
		}
	}
}

// Mails with NotifyGlance end with the line from which mail programs fill in the code. The line has
// the site of the request or, without one, the page's site.
func TestMailsEndWithTheOriginLine(t *testing.T) {
	r := renderer(t)
	r.Site = "codes.example"
	for _, locale := range r.locales.All() {
		for site, want := range map[string]string{"": "@codes.example #048213", "shop.example": "@shop.example #048213"} {
			for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
				m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Site: site, Data: shop()})
				text, shown := strings.TrimSpace(m.Text), htmlText(m.HTML, false)
				for _, part := range []string{text, shown} {
					last := part[strings.LastIndexByte(part, '\n')+1:]
					if (last == want) != (notify == NotifyGlance) || strings.Contains(part, "@") != (notify == NotifyGlance) {
						t.Errorf("%s, %s: the last line is %q", locale, notify, last)
					}
				}
			}
		}
	}
}

// The life of a code has the right plural form in each language (CLDR), from a minute to a day, in
// the text and the HTML.
func TestLifeInWords(t *testing.T) {
	type forms map[plural.Form]string // plural.Other stands for the forms that are missing
	units := map[string][2]forms{
		"en":      {{plural.One: "1 minute", plural.Other: "# minutes"}, {plural.Other: "# hours"}},
		"es":      {{plural.One: "1 minuto", plural.Other: "# minutos"}, {plural.Other: "# horas"}},
		"zh-Hans": {{plural.Other: "# 分钟"}, {plural.Other: "# 小时"}},
		"ar": {
			{plural.One: "دقيقة واحدة", plural.Two: "دقيقتين", plural.Few: "# دقائق", plural.Other: "# دقيقة"},
			{plural.Two: "ساعتين", plural.Few: "# ساعات", plural.Other: "# ساعة"},
		},
	}
	r := renderer(t)
	for _, locale := range r.locales.All() {
		if units[locale][0] == nil {
			t.Fatalf("%s: its plural forms of minutes and hours are missing in this test", locale)
		}
		for minutes := 1; minutes <= 24*60; minutes++ {
			if minutes > 130 && minutes%60 > 1 { // from two hours on, the mail shows whole hours
				continue
			}
			n, unit := minutes, units[locale][0]
			if minutes >= 120 {
				n, unit = minutes/60, units[locale][1]
			}
			form := plural.Cardinal.MatchPlural(language.Make(locale), n, 0, 0, 0, 0)
			want := strings.Replace(cmp.Or(unit[form], unit[plural.Other]), "#", strconv.Itoa(n), 1)
			m := render(t, r, RenderRequest{Locale: locale, Data: Data{App: "A", Code: "04821379", Minutes: minutes}})
			whole := regexp.MustCompile(`[^\p{N}]` + want + `([^\p{L}]|内)`)
			if !whole.MatchString(m.Text) || !whole.MatchString(htmlText(m.HTML, false)) {
				t.Fatalf("%s, %d minutes: no %q in %s", locale, minutes, want, m.Text)
			}
		}
	}
}

var (
	han  = regexp.MustCompile(`\p{Han}`)
	word = regexp.MustCompile(`[\p{L}\p{N}]+`)
)

// wordsBefore counts the words before the code, with two Chinese characters as one word.
// TestEveryMail allows 16 of them. A private mail may have more, because they keep the code out of
// previews.
func wordsBefore(text, code string) int {
	before, _, _ := strings.Cut(text, code)
	return len(word.FindAllString(han.ReplaceAllString(before, " "), -1)) + (len(han.FindAllString(before, -1))+1)/2
}

func TestEscaping(t *testing.T) {
	r := renderer(t)
	data := Data{App: `<b>"A"&'B'</b>`, Code: "048213", Minutes: 5, Purpose: "{{.Code}}<script>"}
	m := render(t, r, RenderRequest{Notify: NotifyPrivate, Data: data})
	if strings.Contains(m.HTML, "<b>") || strings.Contains(m.HTML, "<script>") {
		t.Error("text of the request became markup")
	}
	if !strings.Contains(htmlText(m.HTML, false), data.App+": your code ") {
		t.Errorf("the app name is garbled in HTML: %s", htmlText(m.HTML, false))
	}
	if m.Subject != "Your code for "+data.App || !strings.Contains(m.Text, "{{.Code}}<script>") {
		t.Errorf("plain parts are escaped: %q\n%s", m.Subject, m.Text)
	}
}

func TestTemplateDataGroups(t *testing.T) {
	for code, want := range map[string][]string{
		"1234": {"1234"}, "12345": {"12345"}, "123456": {"123", "456"}, "1234567": {"1234567"},
		"12345678": {"1234", "5678"},
	} {
		if got := newTemplateData(Data{Code: code}, false, "en").Groups; !slices.Equal(got, want) {
			t.Errorf("%s in groups: %v, want %v", code, got, want)
		}
	}
}

func TestLocaleMatching(t *testing.T) {
	r := renderer(t)
	for locale, want := range map[string]string{
		"": "en", "en": "en", "en-GB": "en", "EN-us": "en", "sux": "en", "*": "en", "not a locale!": "en",
		"zh": "zh-Hans", "zh-CN": "zh-Hans", "zh-SG": "zh-Hans", "zh-Hans": "zh-Hans", "zh_CN": "zh-Hans",
		"ZH-hans-cn": "zh-Hans",
		"zh-TW":      "zh-Hans", "zh-HK": "zh-Hans", "zh-Hant": "zh-Hans",
		"zh-CN,zh;q=0.9,en;q=0.8": "zh-Hans", "en;q=0.1, zh;q=0.9": "zh-Hans", "sux, zh-CN;q=0.5": "zh-Hans",
		"en-US,en;q=0.9,zh;q=0.8": "en",
		"zh\r\nX: y":              "en", strings.Repeat("zh,", 1000): "zh-Hans",
		"zh_CN_#Hans": "zh-Hans", "zh-CN,en_US.UTF-8;q=0.5": "zh-Hans", "sux;q=x, zh_CN.GB18030": "zh-Hans",
	} {
		if got := render(t, r, RenderRequest{Locale: locale, Data: shop()}).Language; got != want {
			t.Errorf("locale %q gives %s, want %s", locale[:min(len(locale), 30)], got, want)
		}
	}
}

func TestCanonicalTags(t *testing.T) {
	for text, want := range map[string]string{
		"en": "en", "zh-CN": "zh-CN", "ZH-cn": "zh-CN", "zh-hans-cn": "zh-Hans-CN", "en_US": "en-US",
		"de-1996":       "de-1996",
		"en-x-internal": "en-x-internal", "en-garbage": "en", "sr-Latn": "sr-Latn",
		"": "", "zh-CN,en;q=0.8": "", "en-": "", "x": "", "not a tag": "", "a\x00b": "", "…": "", "*": "",
		"toolongasatag": "",
		"en-x-" + strings.Repeat("a", 8) + "-" + strings.Repeat("b", 8) + "-" + strings.Repeat("c", 8): "en-x-aaaaaaaa-bbbbbbbb-cccccccc",
		"en-x-aaaaaaaa-bbbbbbbb-cccccccc-ddd":  "en-x-aaaaaaaa-bbbbbbbb-cccccccc-ddd",
		"en-x-aaaaaaaa-bbbbbbbb-cccccccc-dddd": "",
	} {
		if got, ok := CanonicalTag(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, ok, want)
		}
	}
}

// A request for a language is never refused, because tags that cannot be read are ignored.
func TestWantedTags(t *testing.T) {
	for text, want := range map[string]string{
		"en": "en", "ZH-cn": "zh-CN", "en-garbage": "en",
		"zh_CN_#Hans": "zh-Hans-CN", "zh__#Hant": "zh-Hant", "zh_TW_#Hant": "zh-Hant-TW", "sr_RS_#Latn": "sr-Latn-RS", // Java and Android write tags like these
		"en_US.UTF-8": "en-US", "de_DE@euro": "de-DE", "sr_RS@latin": "sr-Latn-RS", "pt_BR.ISO8859-1@x": "pt-BR", "C": "", "POSIX": "", "C.UTF-8": "",
		"zh-Hans_CN": "zh-Hans-CN", "en-": "en", "en_": "en", " de ": "de", "de-DE-": "de-DE", "nb_NO_NY": "nb-NO", "en US": "en-US",
		"zh-CN,en;q=0.8": "zh-CN", "xx-yy; q=1, fr": "fr", "en;q=0.1,es": "es",
		"": "", "*": "", "x": "", "1": "", "…": "", "a\x00b": "", "toolongasatag": "", "undefined": "", "null": "", "und": "",
		"en-x-aaaaaaaa-bbbbbbbb-cccccccc-dddd": "en", strings.Repeat("x", 5000): "",
	} {
		if got := WantedTag(text); got != want {
			t.Errorf("%q: %q, want %q", text[:min(len(text), 40)], got, want)
		}
	}
}

func TestPreferredTagChoosesAsTheListDoes(t *testing.T) {
	r := renderer(t)
	for list, want := range map[string]string{
		"sux-CA, zh-CN;q=0.8, en;q=0.5": "zh-CN", "zh-TW": "zh-TW", "en-GB,zh;q=0.9": "en-GB", "sux, akk": "sux", "*": "",
		"": "", "zh": "zh",
		"xx-yy; nonsense, zh": "zh", "en_US.UTF-8;q=0.5,zh-CN": "zh-CN", "zh_CN_#Hans": "zh-Hans-CN", "de_DE@euro": "de-DE", "de-CH-1996-x-aaaaaaaa-bbbbbbbb-cccccccc": "de-CH",
		"zh" + strings.Repeat(",en", 1000): "zh", strings.Repeat("x", 600): "", "zh-TW, en;q=0.5": "zh-TW",
	} {
		got := r.PreferredLocale("", list)
		if list != "*" && got != want {
			t.Errorf("of %q %q is preferred; want %q", list, got, want)
		}
		if r.matchLocale(got) != r.matchLocale(list) || len(got) > maxTagBytes {
			t.Errorf("%q is written in %s and %q in %s", list, r.matchLocale(list), got, r.matchLocale(got))
		}
	}
}

func TestDisplayedMinutes(t *testing.T) {
	for left, want := range map[time.Duration]int{
		10 * time.Minute: 10, 10*time.Minute - 300*time.Millisecond: 10, 10*time.Minute - 3*time.Second: 9,
		time.Minute: 1, 10 * time.Second: 1,
		-time.Second: 1,
	} {
		if got := DisplayedMinutes(left); got != want {
			t.Errorf("minutes(%v) = %d, want %d", left, got, want)
		}
	}
}

func TestValuesWithACodePrintRedacted(t *testing.T) {
	req := RenderRequest{Notify: NotifyGlance, Data: shop()}
	m := render(t, renderer(t), req)
	var out bytes.Buffer
	prepared, err := renderer(t).Prepare(req)
	for _, v := range []any{
		prepared, &prepared, req, &req, req.Data, &req.Data, m, &m,
		[]MailTexts{m},
		map[string]Data{"x": req.Data},
		err,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb, v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "mail", m, "data", req.Data)
	for _, form := range []string{req.Data.Code, fmt.Sprintf("%x", req.Data.Code)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the code is printed as %q", form)
		}
	}
	if !strings.Contains(out.String(), redactedText) {
		t.Error("nothing is printed at all")
	}
}

func TestDisplayedTime(t *testing.T) {
	at := time.Date(2026, 3, 4, 23, 5, 59, 0, time.FixedZone("", 9*3600))
	if got := DisplayedTime(at); got != "14:05 UTC" {
		t.Error(got)
	}
}
