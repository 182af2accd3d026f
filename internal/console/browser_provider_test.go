package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
)

// A real browser goes to the provider, which is another site, and comes back to the page that it wanted, logged in, though the
// session's cookie is for this site alone and forms may go nowhere else.
func TestBrowserLogsInByTheProvider(t *testing.T) {
	r, server := besideProvider(t)
	w := openWindow(r)
	server.Do(func() {
		server.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		server.Redirect = w.base + auth.ProviderCallback
	})
	*r.console.Auth.Provider = *providerAt(server, r.clock.Now)
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
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(".top button")))
	w.shot("login-provider-1280-dark")
	w.leads(begins("/admin/login?next="), chromedp.Navigate(w.base+"/admin/acts"))
	w.quietAt()
}
