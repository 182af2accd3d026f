package page_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/app/apptest"
	"sendcode/internal/page/pagetest"
)

// aKnownBrowser sends although a stranger has used up what strangers may, on the page and in the
// widget, until the person has it forgotten. The service is the program itself.
func aKnownBrowser(t *testing.T, browser context.Context) {
	for _, widget := range []bool{false, true} {
		markup := ""
		site := pagetest.NewSite("", func() (string, string, string) {
			return "",
				`<link rel="icon" href="data:,">`, markup
		})
		t.Cleanup(site.Close)
		service := apptest.Embedded(t).Write(fmt.Sprintf(`policies:
  default: [{name: hour, scope: recipient, limit: 4, window: 1h, reserve: 2}]
apps: [{name: shop, origins: [%q], keys: [{id: web, kind: public, sha256: %x}]}]
`, site.Origin(), sha256.Sum256([]byte(pagetest.PublicKey)))).Start(1)
		base := service.Replicas[0].Base
		markup = `<script type="module" src="` + base + `/widget.js"></script>` + tag("")
		address, root, forgotten := base+"/?view=new", "document", "ask"
		if widget {
			address, root, forgotten = site.URL, `document.querySelector('send-code').shadowRoot`, "approved"
		}
		another := func() *tab {
			b := open(t, browser, world(t), pagetest.Look{})
			b.root, b.tolerate = root, "Failed to load resource" // as the browser calls a refusal
			return b
		}
		person := another()
		gets := func(b *tab, kind string, words ...string) {
			t.Helper()
			b.do(chromedp.Navigate(address))
			b.asked(pagetest.Address)
			b.card(kind, words...)
		}
		approved := func(mails int) {
			t.Helper()
			person.focus("code")
			person.paste(service.CodeIn(service.AwaitMail(pagetest.Address, mails)[0]))
			person.card("approved", "Forget this device")
		}
		gets(person, "code", "1 left")
		approved(1)
		gets(another(), "code")
		service.AwaitMail(pagetest.Address, 2)
		gets(another(), "enough", "Hourly limit reached")
		gets(person, "code", "3 left") // by its own send alone
		approved(3)
		person.click("[data-act=forget], #forget")
		person.until("!" + person.q("[data-act=forget], #forget"))
		person.card(forgotten)
		gets(person, "enough", "Hourly limit reached")
		is(t, len(service.Mails()), 3)
	}
}

// aWidgetKeepsTokens of right codes, at most five, the newest first, until it is told to forget
// them. Without storage it keeps none.
func aWidgetKeepsTokens(t *testing.T, browser context.Context) {
	w := accepting(t)
	b, s := embeddedBeside(t, browser, w, pagetest.Look{}, tag(""), "")
	enter := func(known ...string) {
		t.Helper()
		w.Advance(24 * time.Hour)
		b.do(chromedp.Navigate(s.URL))
		b.asked(pagetest.Address)
		b.card("code")
		if asks := w.Codes.Asks(); !slices.Equal(asks[len(asks)-1].Known, known) {
			t.Errorf("presented %v, want %v", asks[len(asks)-1].Known, known)
		}
		b.paste(pagetest.Code)
		b.card("approved")
	}
	enter()
	var known []string
	for n := range 6 {
		known = append([]string{fmt.Sprint("token-", n+1)}, known[:min(4, len(known))]...)
		enter(known...)
	}
	b.do(chromedp.Navigate(s.URL))
	b.card("ask", "Forget this device")
	b.click("[data-act=forget]")
	b.until("!" + b.q("[data-act=forget]"))
	b.focused("to")
	enter()
	b.first(`Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError') } })`)
	enter()
	enter()
	is(t, eval[bool](b, b.q("[data-act=forget]")+" === null"), true)
}

// aBounceChangesTheCard: what a provider reports of this very send is on its card within five
// seconds, on the page and in the widget. The place stays spent, and a stranger's card of the same
// address shows nothing of it.
func aBounceChangesTheCard(t *testing.T, browser context.Context) {
	for _, widget := range []bool{false, true} {
		markup := ""
		site := pagetest.NewSite("", func() (string, string, string) {
			return "",
				`<link rel="icon" href="data:,">`, markup
		})
		t.Cleanup(site.Close)
		service := apptest.Embedded(t)
		service.Env["POSTMARK_SECRET"] = "a secret of both"
		service.Write(fmt.Sprintf(`policies: {default: [{name: hour, scope: recipient, limit: 4, window: 1h}]}
provider_events: [{name: postmark, scheme: header, header: X-Secret, secret_env: POSTMARK_SECRET, message: id, type: [type], outcomes: {hard: bounced_for_good, soft: bounced}}]
apps: [{name: shop, origins: [%q], keys: [{id: web, kind: public, sha256: %x}]}]
`, site.Origin(), sha256.Sum256([]byte(pagetest.PublicKey)))).Start(1)
		base := service.Replicas[0].Base
		markup = `<script type="module" src="` + base + `/widget.js"></script>` + tag("")
		address, root := base+"/?view=new", "document"
		if widget {
			address, root = site.URL, `document.querySelector('send-code').shadowRoot`
		}
		asks := func(left string) *tab {
			b := open(t, browser, world(t), pagetest.Look{})
			b.root, b.tolerate = root, "Failed to load resource"
			b.do(chromedp.Navigate(address))
			b.asked(pagetest.Address)
			b.card("code", "Check your mail", left)
			return b
		}
		reports := func(id, kind string) {
			t.Helper()
			service.Is(kind, service.Post("/v1/events/postmark", fmt.Sprintf(`{"id":%q,"type":%q}`, id, kind),
				func(r *http.Request) { r.Header.Set("X-Secret", "a secret of both") }), http.StatusNoContent)
		}
		first := asks("3 left")
		mine := service.AwaitMail(pagetest.Address, 1)[0].ID
		reports(mine, "soft") // it may be this mail's alone
		other := asks("left")
		from := time.Now()
		reports(mine, "hard")
		first.card("failed", "It did not arrive", "This address does not take our mail.", "Change the address",
			"The last code still works until")
		t.Logf("the card says so %v after the report", time.Since(from))
		other.run(looks, `setTimeout(() => { window.rested = true }, 5000)`)
		other.until(`window.rested`)
		other.card("code", "Check your mail")
	}
}
