package message

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// On a telephone of 320 × 568 pixels, the code of each mail is on the first screen, in one text
// node. At most two rows of text stand above it if the mail has no details. Only a mail with
// NotifyGlance ends with the origin line.
func TestMailHasTheCodeOnTheFirstScreen(t *testing.T) {
	tab := browsertest.Chromium(t).Open(t, browsertest.Look{Width: 320, Height: 568})
	r := renderer(t)
	r.Site = "codes.shop.example"
	long := shop()
	long.App, long.Home, long.Code = "The Greengrocers of Lower Saxony", "https://shop.example/", "BKVXRTNZ"
	long.Details = strings.Repeat("Pay 40.00 EUR to Shop 12 ", 4)[:100]
	for _, locale := range r.locales.All() {
		for purpose, purposeTitles := range titles {
			for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
				for _, data := range []Data{shop(), long} {
					data.Purpose = ""
					name := fmt.Sprint(locale, " ", purpose, " ", notify, " ", data.App)
					m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Titles: purposeTitles, Data: data})
					p := browsertest.NewPage(t, tab, "data:text/html;base64,"+base64.StdEncoding.EncodeToString([]byte(m.HTML)), "")
					p.Fits(name)
					if bottom := browsertest.Value[float64](p, p.Element(".code")+".getBoundingClientRect().bottom"); bottom > 568 || bottom < 100 {
						t.Errorf("%s: the code ends at %g px", name, bottom)
					}
					if rows := rowsAboveTheCode(p); data.Details == "" && (rows < 1 || rows > 2) {
						t.Errorf("%s: %d rows of text above the code", name, rows)
					}
					servertest.Same(t, name, browsertest.Value[int](p, p.Element(".code")+".childNodes.length"), 1)
					lines := strings.Split(strings.TrimSpace(p.Text("body")), "\n")
					servertest.Same(t, name, lines[len(lines)-1] == "@codes.shop.example #"+data.Code, notify == NotifyGlance)
					p.Shot(name)
				}
			}
		}
	}
}

func rowsAboveTheCode(p *browsertest.Page) int {
	p.Helper()
	return browsertest.Value[int](p, `(() => {
		const code = document.querySelector('.code').getBoundingClientRect().top, rows = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) {
			const range = document.createRange();
			range.selectNodeContents(texts.currentNode);
			if (texts.currentNode.data.trim()) for (const box of range.getClientRects()) if (box.width > 0 && box.bottom <= code) rows.add(Math.round(box.bottom / 8));
		}
		return rows.size;
	})()`)
}
