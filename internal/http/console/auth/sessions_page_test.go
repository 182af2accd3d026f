package auth

import (
	"net/http"
	"net/url"
	"testing"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
)

// "Log out everywhere" ends all sessions of one account, whether they began at the provider or with
// a password, including those of a copied cookie.
func TestLogOutEverywhere(t *testing.T) {
	r, server := newRigWithProvider(t)
	consoletest.SetIdentity(server, "bo", "support")
	bo, elsewhere := r.from("192.0.2.1:1"), r.from("198.51.100.1:1")
	for _, b := range []*consoletest.Browser{bo, elsewhere} {
		consoletest.LeadsTo(t, b.ByProvider(""))
	}
	owner, again := r.LoggedIn(), r.LoggedIn()
	kept := *owner.Cookies[sessionCookieName]
	want(t, owner.Post(sessionsPath, url.Values{}, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
	want(t, owner.Get("/admin"), http.StatusOK)
	redirects(t, owner.Post(sessionsPath, url.Values{}), "/admin/login")
	servertest.Same(t, "the cookie is gone", owner.Cookies[sessionCookieName] == nil, true)
	owner.Cookies[sessionCookieName] = &kept
	for _, b := range []*consoletest.Browser{owner, again} {
		redirects(t, b.Get("/admin"), "/admin/login")
	}
	want(t, elsewhere.Get("/admin"), http.StatusOK)
	redirects(t, bo.Post(sessionsPath, url.Values{}), "/admin/login")
	want(t, elsewhere.Get("/admin"), http.StatusSeeOther)
	r.WantActs(
		consoletest.Act{Who: "admin", What: "session.end", Outcome: "done", Detail: "2"},
		consoletest.Act{Who: "oidc:bo", What: "session.end", Outcome: "done", Detail: "2"})
}
