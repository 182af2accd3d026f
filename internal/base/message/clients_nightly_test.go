//go:build nightly

// Only `make nightly` runs this test: every mail in every program takes minutes.

package message

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// mailProgram changes an HTML mail as a mail program does. caniemail.com lists what each program
// removes; for Gmail, developers.google.com/workspace/gmail/design/css does.
type mailProgram struct {
	name   string
	show   func(html string) string
	dark   string  // style sheet that the program adds in dark mode; empty: the program supports prefers-color-scheme
	widths []int64 // CSS pixels
}

var (
	styleElement  = regexp.MustCompile(`(?s)<style>.*?</style>`)
	metaElements  = regexp.MustCompile(`<meta name="(color-scheme|supported-color-schemes)"[^>]*>`)
	colorScheme   = regexp.MustCompile(`(?s):root \{.*?\}|@media \(prefers-color-scheme: dark\) \{.*?\n\}`)
	comment       = regexp.MustCompile(`(?s)<!--.*?-->`)
	forOutlook    = regexp.MustCompile(`(?s)<!--\[if mso\]>(.*?)<!\[endif\]-->`)
	notInWord     = regexp.MustCompile(`(max-width|max-height|border-radius|overflow|display|(-webkit-)?user-select|-webkit-text-size-adjust): ?[^;"]*;?`)
	hiddenInWord  = regexp.MustCompile(`(?s)<div style="[^"]*mso-hide:all[^"]*">.*?</div>`)
	paddedInWord  = regexp.MustCompile(`(<(?:p|h1|div|a)\b[^>]*?)padding:[^;"]*;?`)
	invertsColors = "html { filter: invert(1) hue-rotate(180deg); background: #fff; }"
)

var mailPrograms = []mailProgram{
	{name: "Apple Mail", show: func(html string) string { return html }, widths: []int64{320, 600}},
	{ // this program ignores media queries for colours, and inverts colours in dark mode
		name: "Gmail", widths: []int64{320, 600}, dark: invertsColors,
		show: func(html string) string {
			return comment.ReplaceAllString(colorScheme.ReplaceAllString(metaElements.ReplaceAllString(html, ""), ""), "")
		},
	},
	{ // Gmail's app with an account of another provider drops style sheets, as do some webmail programs
		name: "Gmail without style sheets", widths: []int64{320, 600}, dark: invertsColors,
		show: func(html string) string {
			return comment.ReplaceAllString(styleElement.ReplaceAllString(metaElements.ReplaceAllString(html, ""), ""), "")
		},
	},
	{ // in this program, Word lays out the mail
		name: "Outlook on Windows", widths: []int64{600}, dark: invertsColors,
		show: func(html string) string {
			html = hiddenInWord.ReplaceAllString(forOutlook.ReplaceAllString(html, "$1"), "")
			html = styleElement.ReplaceAllString(metaElements.ReplaceAllString(html, ""), "")
			return paddedInWord.ReplaceAllString(notInWord.ReplaceAllString(html, ""), "$1")
		},
	},
}

// In each mail program, light and dark, narrow and wide, a mail is not wider than its window and
// hides its preheader. Each text contrasts enough with its background. At most two rows of text
// stand above the code, or three in a narrow window if the mail has details.
func TestMailPrograms(t *testing.T) {
	tab := browsertest.Chromium(t).Open(t, browsertest.Look{Width: 600, Height: 800})
	r := renderer(t)
	r.Site = "codes.example"
	own, detailed := untitled(), shop()
	own.Code, own.Minutes, own.NotMe = "A1B2C3D4E5F6G7H8", 0, ""
	detailed.Details, detailed.Home = "Pay 40.00 EUR to Shop 12", "https://shop.example/"
	for _, program := range mailPrograms {
		for _, locale := range r.locales.All() {
			for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
				for kind, data := range map[string]Data{"usual": shop(), "a caller's code": own, "details": detailed} {
					data.App, data.Purpose = "Shop", ""
					m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Titles: titles["to confirm your address"], Data: data})
					for _, width := range program.widths {
						for _, dark := range []bool{false, true} {
							html := program.show(m.HTML)
							if dark && program.dark != "" {
								html = strings.Replace(html, "</head>", "<style>"+program.dark+"</style></head>", 1)
							}
							servertest.OK(t, tab.Show(browsertest.Look{Width: width, Height: 640, Dark: dark}))
							name := fmt.Sprintf("%s %s %s %s %d dark=%t", program.name, locale, notify, kind, width, dark)
							p := browsertest.NewPage(t, tab, "data:text/html;base64,"+base64.StdEncoding.EncodeToString([]byte(html)), "")
							p.Fits(name)
							most := 2
							if data.Details != "" && width < 400 {
								most = 3
							}
							if rows := rowsAboveTheCode(p); rows < 1 || rows > most {
								t.Errorf("%s: %d rows of text above the code", name, rows)
							}
							if text := p.Text("body"); strings.Contains(text, "Open this email") || strings.Count(text, data.Code) > 2 {
								t.Errorf("%s: the preheader is shown: %s", name, text)
							}
							if least := browsertest.Value[float64](p, leastContrast); least < 4.5 {
								t.Errorf("%s: a text has a contrast of %.2f", name, least)
							}
							p.Shot(name)
						}
					}
				}
			}
		}
	}
}

// leastContrast is a JavaScript expression for the least contrast of a text with its background
// (WCAG 2.2).
const leastContrast = `(() => {
	const rgb = (c) => c.match(/[\d.]+/g).map(Number);
	const light = (c) => rgb(c).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] !== 0) return c; } return 'rgb(255, 255, 255)'; };
	return Math.min(...[...document.querySelectorAll('h1, p, td.code, a')].filter((e) => e.checkVisibility() && e.innerText.trim()).map((e) => {
		const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	}));
})()`
