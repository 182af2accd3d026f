package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/explain"
	"sendcode/internal/store"
)

// From "where is my code?" to the record of what was done about it: find the refused send by its recipient, open its time line,
// reset the quota, see the act. By keyboard, with what a page asks for.
func TestBrowserResetsAQuota(t *testing.T) {
	r := newRig(t)
	row := busy(r)
	w := openWindow(r)
	w.logIn()
	w.leads(begins("/admin?recipient="), press("/"), chromedp.KeyEvent("ana@example.com"+kb.Enter))
	page := explain.SendAddress(row.ID)
	w.leads(exactly(page), chromedp.KeyEvent("jkjk"+kb.Enter))

	// Without a reason the browser itself asks for one, and nothing is sent.
	w.do(chromedp.Click(chromedp.CSS(".deeds summary")), chromedp.Click(chromedp.CSS(`form[action$="/reset"] button`)))
	if at := w.text(`location.pathname + " " + document.activeElement.id`); at != page+" reason-reset" {
		t.Errorf("without a reason: %s", at)
	}
	r.Acts()
	// A reason that names the person is refused, and kept to be mended.
	w.do(chromedp.KeyEvent("ana@example.com called" + kb.Enter))
	w.leads(exactly(page + "/reset"))
	if got := w.text(`document.querySelector("details[open] [role=alert]").innerText + "|" + document.querySelector("#reason-reset").value`); !strings.HasPrefix(got, "Leave names") || !strings.HasSuffix(got, "|ana@example.com called") {
		t.Errorf("a reason that names a person: %q", got)
	}
	w.leads(exactly(page+"?done=quota.reset"), chromedp.SetValue(chromedp.CSS("#reason-reset"), "ticket 7"), chromedp.Click(chromedp.CSS(`form[action$="/reset"] button`)))
	if got := w.text(`document.querySelector("[role=status]").innerText + document.querySelector(".pips").innerText`); !strings.Contains(got, "The quota is reset") || strings.Contains(got, "free in") {
		t.Errorf("afterwards: %q", got)
	}
	w.leads(exactly("/admin/acts"), chromedp.Click(chromedp.CSS(".menu summary")), chromedp.Click(chromedp.CSS(`nav a[href="/admin/acts"]`)))
	if got := w.text(`document.querySelector("tbody tr").innerText`); !strings.Contains(got, "reset the quota") || !strings.Contains(got, "ticket 7") || !strings.Contains(got, "done") || !strings.Contains(got, "a•••@example.com") {
		t.Errorf("the newest act: %q", got)
	}
	on := store.AuditEntry{}.Detail + "|a•••@example.com|ticket 7"
	r.Acts("admin|quota.reset|begun|"+on, "admin|quota.reset|done|"+on)
	w.quietAt()
}

// A page of another site that makes a logged-in browser post a form to the console does nothing: neither with the cookie, which
// stays away, nor by being let in.
func TestBrowserOfAnotherSiteDoesNothing(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com")
	w := openWindow(r)
	w.logIn()
	target := w.base + explain.SendAddress(s.ID) + "/reset"
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`<form method="post" action="` + target + `"><input name="reason" value="ticket 7"></form><script>document.forms[0].submit()</script>`))
	}))
	t.Cleanup(evil.Close)
	w.leads(exactly(explain.SendAddress(s.ID)+"/reset"), chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)))
	if got := w.text(`document.body.innerText`); !strings.Contains(got, "another site") {
		t.Errorf("the answer: %q", got)
	}
	r.Acts()
	if r.free(s) {
		t.Error("another site's page reset a quota")
	}
}

// A person sets up an app, by keyboard, and logs in with it.
func TestBrowserSecondFactor(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth.DemandFactor = true })
	w := openWindow(r)
	w.do(chromedp.Navigate(w.base + "/admin"))
	w.leads(exactly("/admin/factor"), chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	w.shows(".qr", chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	for _, width := range []int64{320, 1280} {
		w.do(emulate(width, "dark"))
		if wide := w.text(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(width) {
			t.Errorf("at %d px it is %s px wide", width, wide)
		}
		w.shot(fmt.Sprintf("factor-begun-%d-dark", width))
	}
	d := r.Phone(strings.ReplaceAll(w.text(`document.querySelector(".shown").innerText`), " ", ""))
	const ready = `document.activeElement.id === "code"` // which a browser may see to after the page has been loaded
	w.until(ready)
	w.shows(".codes", chromedp.KeyEvent(d.Code()+kb.Enter))
	if n := w.text(`String(document.querySelectorAll(".codes li").length)`); n != "10" {
		t.Errorf("%s recovery codes", n)
	}
	w.do(emulate(320, "light"))
	w.shot("factor-done-320-light")
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(logout)))
	w.leads(exactly("/admin/login/code?next=%2Fadmin%2Ftail"), chromedp.Navigate(w.base+"/admin/tail"),
		chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	w.shot("factor-code-320-light")
	w.until(ready)
	w.leads(exactly("/admin/tail"), chromedp.KeyEvent(d.Next()+kb.Enter))
	w.quietAt()
	r.console.Stop() // which the page would complain about in the end
}

// A real browser goes to the provider, which is another site, and comes back to the page that it wanted, logged in, though the
// session's cookie is for this site alone and forms may go nowhere else.
func TestBrowserLogsInByTheProvider(t *testing.T) {
	r, server := besideProvider(t)
	w := openWindow(r)
	server.Do(func() {
		server.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		server.Redirect = w.base + auth.ProviderCallback
	})
	*r.console.Auth.Provider = *providerAt(server, r.Clock.Now)
	consoletest.Is(server, "bo", "support")
	w.do(emulate(320, "light"), chromedp.Navigate(w.base+"/admin/preview"))
	w.shot("login-provider-320-light")
	if got := w.text(`String(document.documentElement.scrollWidth) + document.querySelector(".provider button").innerText`); got != "320Log in with Example ID" {
		t.Errorf("the login page: %q", got)
	}
	w.leads(exactly("/admin/preview"), emulate(1280, "dark"), chromedp.Click(chromedp.CSS(".provider button")))
	if n := server.Seen("/authorize"); n != 1 {
		t.Errorf("%d visits at the provider", n)
	}
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(logout)))
	w.shot("login-provider-1280-dark")
	w.leads(begins("/admin/login?next="), chromedp.Navigate(w.base+"/admin/acts"))
	w.quietAt()
}
