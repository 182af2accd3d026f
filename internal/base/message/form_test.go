package message

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
)

func anyCode(length int) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcxyz"
	code := make([]byte, length)
	for i := range code {
		code[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(code)
}

// A form gives the same texts as the templates, and package delivery can encode them.
func TestFormsGiveTheSameMails(t *testing.T) {
	var encoder delivery.MailEncoder
	r := renderer(t)
	changes := map[string]func(*RenderRequest){
		"nothing": func(*RenderRequest) {}, "app": func(q *RenderRequest) { q.Data.App = "Other" },
		"minutes": func(q *RenderRequest) { q.Data.Minutes = 1 },
		"site":    func(q *RenderRequest) { q.Site = "shop.example" },
		"purpose": func(q *RenderRequest) { q.Data.Purpose = "pay" }, "support": func(q *RenderRequest) { q.Data.Support = "S-1" },
		"support as long":         func(q *RenderRequest) { q.Data.Support = "S-12345" },
		"support that is escaped": func(q *RenderRequest) { q.Data.Support = "S<12345" },
		"support that is long":    func(q *RenderRequest) { q.Data.Support = strings.Repeat("S", 21) },
		"details":                 func(q *RenderRequest) { q.Data.Details = "Pay 40.00 EUR & more" },
		"no link":                 func(q *RenderRequest) { q.Data.NotMe = "" }, "token": func(q *RenderRequest) { q.Data.NotMe += "x0" },
		"length": func(q *RenderRequest) {
			q.Data.Code, q.Data.Support = anyCode(minCodeLength+rand.IntN(maxCodeLength-minCodeLength+1)), "S-Q2"
		},
	}
	for range 3 {
		for _, locale := range r.locales.All() {
			for name, change := range changes {
				for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
					req := RenderRequest{Locale: locale, Notify: notify, Data: shop()}
					req.Data.Code, req.Data.Support = anyCode(6), "S-"+anyCode(4)
					change(&req)
					p, err := r.Prepare(req)
					if err != nil {
						t.Fatal(err)
					}
					m := delivery.Mail{
						MessageID: "0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example", To: "ana@example.org",
						SharedFields: delivery.SharedFields{From: "Codes <no-reply@codes.example>", Language: p.Language},
						Date:         time.Unix(1_700_000_000, 0), Form: p.Form, Fill: p.Fill, Token: p.Token,
					}
					got, err := m.WithTexts()
					want := render(t, r, req)
					if err != nil || got.Subject != want.Subject || got.Text != want.Text || got.HTML != want.HTML ||
						p.Language != want.Language {
						t.Fatalf("%s %s %s: another mail than the templates', %v", name, locale, notify, err)
					}
					blank := func(c rune) bool { return c < ' ' && c != '\r' && c != '\n' }
					if r, fail := encoder.Encode(m); fail != nil || bytes.ContainsFunc(r.Content, blank) {
						t.Fatalf("%s %s %s: %v, %q", name, locale, notify, fail, r.Content)
					}
				}
			}
		}
	}
}

// The number of kept forms is bounded, and none contains a code.
func TestFormsAreBoundedAndHoldNoCode(t *testing.T) {
	r := renderer(t)
	for i := range 2*maxUnfilledMails + 10 {
		req := RenderRequest{Locale: "en", Data: shop()}
		req.Data.Code, req.Data.App, req.Data.Details = "907683", fmt.Sprintf("S-%d", i), "Pay 1 EUR"
		if _, err := r.Prepare(req); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.rendered.entries); n == 0 || n > maxUnfilledMails {
		t.Errorf("%d forms are kept", n)
	}
	for form := range r.rendered.entries {
		if form.data.Code+form.data.Support+form.data.Details != "" {
			t.Fatal("a form has a code, a reference or details")
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, s := range []string{
		"", "Shop", "小店", "A & B's <shop>", "Node.js", "Dr. Smith", "v1.2.3", "Shop 2.0", "St. Anna", "3.14", "a.b.c",
		"U.S. Mail", "Pay Rp 1.500.000.000",
		strings.Repeat("宽", 64), "你好。谢谢", "24/7", "C++", "e.g. this", "...", "Straße", "क्षि",
	} {
		if err := CheckName(s); err != nil {
			t.Errorf("CheckName(%q): %v", s, err)
		}
	}
	for _, s := range []string{
		strings.Repeat("a", 65), "Shop\nBcc: x", "Shop\t", "Shop\u0085", "Shop\u202e", "ev\u200bil", "Shop\xff",
		"https://evil.example", "Win now at HTTP://X", "www.evil", "mailto:ana", "ana@evil.com",
		"Prize at evil.com!", "Go to evil.com.", "a.b.evil.co.uk", "my_shop.com", "Go to 192.0.2.1",
		"ｅｖｉｌ．ｃｏｍ", "evil。com", "例子.中国", "a.xn--fiqs8s", "bücher.de", "a.github.io", "evil.com\ufe0f",
		"\u2800", " \u2800 ", "\u0301", "\ufe0f", " ", "\u00a0",
	} {
		if err := CheckName(s); err == nil || strings.Contains(err.Error(), "Prize") {
			t.Errorf("CheckName(%q): %v", s, err)
		}
	}
	for s, want := range map[string]string{
		"Amazon.de": "Amazon.de", "Prize at evil.com!": "evil.com", "See HTTP://x": "://", "WWW.x": "www.", "my_shop.com": "shop.com",
		"ｅｖｉｌ．ｃｏｍ": "evil.com",
	} {
		if err := CheckName(s); err == nil || err.Error() != "contains "+want+", which mail programs turn into a link" {
			t.Errorf("CheckName(%q): %v", s, err)
		}
	}
}

// CheckDetails accepts a name that looks like a domain, and unlinked writes it so that mail
// programs make no link of it. The error says which mistake the details have, and does not repeat
// them.
func TestCheckDetails(t *testing.T) {
	for s, shown := range map[string]string{
		"Pay 40,00 € to Muster GmbH & Co.KG": "Pay 40,00 € to Muster GmbH & Co. KG",
		"Amazon.de":                          "Amazon. de",
		"Pay 40.00 EUR to Amazon.co.uk, 1.2": "Pay 40.00 EUR to Amazon. co. uk, 1.2",
		"login at shop.example.com.":         "login at shop. example. com.",
		"to ana@example.com":                 "to ana@example. com",
		"Host 192.0.2.1":                     "Host 192. 0. 2. 1",
		"例子。中国":                              "例子。 中国",
		"Ｓｈｏｐ．ｃｏｍ":                           "Ｓｈｏｐ． ｃｏｍ",
		"Node.js, v1.2.3, St. Anna, U.S.":    "Node.js, v1.2.3, St. Anna, U.S.",
		"":                                   "",
	} {
		if err := CheckDetails(s, 100); err != nil || unlinked(s) != shown || linkIn(unlinked(s)) != "" || unlinked(shown) != shown {
			t.Errorf("%q: %v, %q", s, err, unlinked(s))
		}
	}
	for s, want := range map[string]string{
		"see https://evil.example": "a URL, which begins with ://", "WWW.evil.com": "begins with www.", "mailto:ana": "begins with mailto:",
		"Pay\n40": "more than one line (character 4 is a line break)", "Pay\r40": "more than one line", "Pay\u202840": "more than one line",
		"Pay ": "a blank at the beginning or the end", "\u00a0Pay": "a blank at the beginning",
		strings.Repeat("é", 101): "longer than 100 characters: it has 101", "Pay \u202e04": "U+202E (character 5)", "Pay\t4": "U+0009 (character 4)",
		"\u2800": "without a letter", "Pay\xff": "not valid UTF-8", "evil⒈com": "a URL, which begins with",
	} {
		if err := CheckDetails(s, 100); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Pay") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// WithoutTexts removes known texts only where they stand as whole words. Line breaks may replace
// their spaces.
func TestWithoutTexts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Code 123456 for order 482913", "Code 123456 for"}, {"for order\n482913: 123456", "for : 123456"},
		{"reorder 482913 123456", "reorder 482913 123456"}, {"order 4829134", "order 4829134"}, {"order 482913 order 482913", ""},
		{"to Muster GmbH & Co. KG 1: 123456", "to 1: 123456"}, {"123456", "123456"},
	} {
		if got := WithoutTexts(c.text, "", "order 482913", "Muster GmbH & Co.KG"); strings.Join(strings.Fields(got), " ") != c.want {
			t.Errorf("%q: %q", c.text, got)
		}
	}
}

// HiddenCharacter allows joiners only where a script or an emoji needs them. It returns the refused
// character with its position.
func TestHiddenCharacter(t *testing.T) {
	const nj, j = "\u200c", "\u200d"
	for s, want := range map[string]string{
		"Boutique\u00a0en\u202fligne": "", "می" + nj + "خواهم": "", "क्" + j + "ष": "", "ක්" + j + "රි": "", "അവന്" + j: "",
		"র" + j + "্য":          "",
		"👨" + j + "👩" + j + "👧": "", "👩🏽" + j + "💻": "", "❤️" + j + "🔥": "", "🏳️" + j + "🌈 Shop": "", "❤️": "",
		"a" + nj + "b": "U+200C (character 2)", "a" + j + "b": "U+200D (character 2)", "می" + nj: "U+200C (character 3)",
		nj + "می":            "U+200C (character 1)",
		"می" + nj + nj + "خ": "U+200C (character 3)", "می" + nj + "a": "U+200C (character 3)", "👨" + nj + "👩": "U+200C (character 2)",
		"👨" + j: "U+200D (character 2)", "é👨" + j + "a": "U+200D (character 3)", "क" + j: "U+200D (character 2)",
		"ev\u200bil": "U+200B (character 3)", "a\u202eb": "U+202E (character 2)", "é\tb": "U+0009 (character 2)",
		"\ufeffa": "U+FEFF (character 1)",
		"a\u3164": "U+3164 (character 2)", "a\u2028": "U+2028 (character 2)",
	} {
		if got := HiddenCharacter(s); got != want {
			t.Errorf("%+q: %q, want %q", s, got, want)
		}
		if err := CheckName(s); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("CheckName(%+q): %v", s, err)
		}
	}
	for subject, want := range map[string]string{
		"سلام\u200f\u00a0👨" + j + "👩": "<nil>",
		"é\tb":                        "the subject has U+0009 (character 2), a control character",
	} {
		if err := checkSubject(subject); fmt.Sprint(err) != want {
			t.Errorf("%+q: %v", subject, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	r := renderer(t)
	for name, c := range map[string]struct {
		change func(*RenderRequest)
		want   string
	}{
		"no app":            {func(q *RenderRequest) { q.Data.App = "" }, "app: empty"},
		"app with a url":    {func(q *RenderRequest) { q.Data.App = "evil.com" }, "app: contains evil.com, which"},
		"no time left":      {func(q *RenderRequest) { q.Data.Minutes = -1 }, "the minutes are less than 0"},
		"short code":        {func(q *RenderRequest) { q.Data.Code = "733" }, "must be 4 to 16"},
		"code with a space": {func(q *RenderRequest) { q.Data.Code = "733 914" }, "must be 4 to 16"},
		"unknown notify":    {func(q *RenderRequest) { q.Notify = "loud" }, "notify"},
	} {
		req := RenderRequest{Notify: NotifyGlance, Data: shop()}
		c.change(&req)
		m, err := r.Render(req)
		if err == nil || m != (MailTexts{}) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), req.Data.Code) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}
