package clients

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// looks has the looks of the page, the widget and the console, in this order.
type looks [3]browsertest.Look

// The service runs as one process on one file; the browsers are Firefox and WebKit. A person
// requests a code and enters it, on the page and in the widget of another site. On the page, this
// also works in a browser that keeps no cookies. An administrator then finds the person.
// [TestPageWidgetAndHooksOnRealParts] makes these journeys in Chromium.
func TestPeopleInOtherBrowsers(t *testing.T) {
	t.Parallel()
	inOtherBrowsers(t, looks{{Width: 320, Height: 640, Dark: true}, {Width: 1280, Height: 900}, {Width: 1280, Height: 900}})
}

func inOtherBrowsers(t *testing.T, rounds ...looks) {
	t.Helper()
	s := apptest.Embedded(t)
	site, body := embedding(t)
	s.Env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
	const places = 200
	s.Write(appOf(site, "human_check: {by: work}") + fmt.Sprintf(`policies:
  default: [{name: own, scope: recipient, limit: 9, window: 1h}, {name: wide, scope: app, limit: %d, window: 24h, reserve: 40}]
`, places)).Start(1)
	base := s.Replicas[0].Base
	*body = widgetOf(base)
	for n := range places / 2 { // these use up the places without a pass, so each send of a browser needs one
		s.Is("a send of a back end", s.Post("/v1/verifications",
			fmt.Sprintf(`{"channel":"email","to":"early%d@example.com","trust":"known"}`, n)), http.StatusAccepted)
	}
	sends := 0
	for name, start := range map[string]func(testing.TB) browsertest.Browser{"firefox": browsertest.Firefox, "webkit": browsertest.WebKit} {
		t.Run(name, func(t *testing.T) {
			browser := start(t) // skips if the browser is missing
			for i, look := range rounds {
				of := func(journey string) string { return fmt.Sprintf("%s.%s.%d@example.com", journey, name, i) }
				inLook := func(journey string, look browsertest.Look, root, address string, walk func(*browsertest.Page)) {
					t.Run(fmt.Sprintf("%s %d dark %v", journey, look.Width, look.Dark), func(t *testing.T) {
						p := browsertest.NewPage(t, browser.Open(t, look), address, root)
						if root != "" {
							sends++
						}
						walk(p)
					})
				}
				inLook("page", look[0], inWidget, base+"/", func(p *browsertest.Page) { getsIn(p, s, of("ana")) })
				look[0].NoCookies = true
				inLook("page without cookies", look[0], inWidget, base+"/", func(p *browsertest.Page) { getsIn(p, s, of("cleo")) })
				inLook("widget", look[1], inWidget, site.URL, func(p *browsertest.Page) { getsIn(p, s, of("bea")) })
				inLook("console", look[2], "", base+"/admin", func(p *browsertest.Page) {
					p.Fits("the login")
					p.Shot("login")
					findsPerson(p, s, of("bea"), "b•••@example.com")
				})
			}
		})
	}
	servertest.Same(t, "sends that passed a check",
		s.Metric(0, `sendcode_human_checks_total{app="default",by="work",result="passed"}`), fmt.Sprint(sends))
}

// inWidget is an expression for the root of a widget's elements.
const inWidget = "document.querySelector('send-code')?.shadowRoot"

// embedding starts another site, whose page has the body that the test sets.
func embedding(t *testing.T) (site *pagetest.Site, body *string) {
	t.Helper()
	body = new(string)
	site = pagetest.NewSite("", func() (policy, head, all string) {
		return "default-src * data:", `<link rel="stylesheet" href="/own.css">`, *body
	})
	t.Cleanup(site.Close)
	return site, body
}

// appOf returns a configuration that allows the site to use the service. more has further settings
// of the app.
func appOf(site *pagetest.Site, more string) string {
	return fmt.Sprintf("apps: [{name: default, origins: [%q], keys: [{id: web, kind: public, sha256: %x}], %s}]\n",
		site.Origin(), sha256.Sum256([]byte(apptest.PublicKey)), more)
}

func widgetOf(base string) string {
	return fmt.Sprintf(`<script type="module" src="%s/widget.js"></script><send-code public-key="%s"></send-code>`, base,
		apptest.PublicKey)
}

// getsIn requests a code, reads the code in the mail and enters it.
func getsIn(p *browsertest.Page, s *apptest.Stack, to string) {
	p.Helper()
	for _, step := range []struct{ field, kind string }{{"", "ask"}, {"#to", "code"}, {"#code", "approved"}} {
		switch step.field {
		case "#to":
			p.Fill("#to", to+"\r")
		case "#code":
			p.Fill("#code", s.CodeIn(s.AwaitMail(to, 1)[0]))
		}
		p.Shows(fmt.Sprintf("#card[data-kind=%q]", step.kind))
		p.Fits(step.kind)
		p.Shot(step.kind)
	}
}

// findsPerson logs in to the console, searches for a person, and opens the person's page, which
// masks the address.
func findsPerson(p *browsertest.Page, s *apptest.Stack, to, masked string) {
	p.Helper()
	p.Leads("/admin", func() { p.Fill("#password", s.Env["SENDCODE_ADMIN_PASSWORD"]+"\r") })
	p.Leads("/admin?recipient=", func() { p.Fill("#q", to+"\r") })
	p.Shows("main", masked)
	if browsertest.Value[bool](p, "[...document.querySelectorAll('time')].some(e => e.innerText.includes(new Date().toISOString().slice(5, 10)))") {
		p.Errorf("times of today have their day: %s", p.Text("main"))
	}
	p.Fits("a person's page")
	p.Shot("person")
	if browsertest.Value[bool](p, fmt.Sprintf("document.body.innerText.includes(%q)", to)) {
		p.Errorf("the console shows %s", to)
	}
}
