package auth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

func TestLoginByTheProvider(t *testing.T) {
	r, server := newRigWithProvider(t)
	r.PutAccount(store.Account{Name: "ana", Role: "operator", Identity: "ana@example.org"})
	b := r.Browser()
	contains(t, b.Get("/admin/login?next=/admin/policies"), "Log in with Example ID", `value="/admin/policies"`)
	elsewhere := r.Browser()
	consoletest.SetIdentity(server, "bo", "support")
	servertest.Same(t, "leads to", consoletest.LeadsTo(t, elsewhere.ByProvider("//evil.example")), "/admin")
	consoletest.SetIdentity(server, "ana@example.org", "console-owners") // the account decides, not the group
	rec := b.ByProvider("/admin/policies")
	servertest.Same(t, "leads to", consoletest.LeadsTo(t, rec), "/admin/policies")
	c := b.Cookies[sessionCookieName]
	if c == nil || c.SameSite != http.SameSiteStrictMode || len(b.Cookies) != 2 {
		t.Fatalf("%+v", b.Cookies)
	}
	want(t, b.Get("/admin"), http.StatusOK)
	want(t, b.Get("/admin/accounts"), http.StatusForbidden)
	acts := r.Entries("")
	if a := acts[0]; a.Who != "ana" || a.What != actionLogin || a.Role != "operator" || a.Detail != "oidc" {
		t.Errorf("%+v", a)
	}
	want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
	want(t, b.Get("/admin"), http.StatusSeeOther)
	// A person can't log in to an account without a password by typing one.
	want(t, b.LoginAs("ana", ""), http.StatusUnprocessableEntity)
	want(t, b.LoginAs("ana", "x"), http.StatusUnauthorized)
}

func TestRolesByTheProvider(t *testing.T) {
	r, server := newRigWithProvider(t)
	for groups, c := range map[string]struct {
		accounts, export int // status of the page of accounts, and of an operator's action
		granted          string
	}{
		"support": {403, 403, "support"}, "x support on-call": {403, 200, "on-call"},
		"console-owners support": {200, 200, "console-owners"},
	} {
		consoletest.SetIdentity(server, "bo", strings.Fields(groups)...)
		b := r.Browser()
		consoletest.LeadsTo(t, b.ByProvider(""))
		want(t, b.Get("/admin"), http.StatusOK)
		want(t, b.Get("/admin/accounts"), c.accounts)
		want(t, b.Get("/v1/admin/sends.csv"), c.export)
		if a := r.Entries(actionLogin)[0]; a.Who != "oidc:bo" || a.Detail != c.granted {
			t.Errorf("%+v", a)
		}
	}
	for _, groups := range [][]string{nil, {""}, {"Support"}, {"owner"}, {"on-call "}} {
		consoletest.SetIdentity(server, "bo", groups...)
		b := r.Browser()
		rec := want(t, b.ByProvider(""), http.StatusForbidden)
		contains(t, rec, "you have no access here")
		servertest.Same(t, "a session", b.Cookies[sessionCookieName] != nil, false)
	}
}

// A session that began at the provider ends when its basis is gone: the account, its identity, the
// value of the claim that gave a role, or the provider itself.
func TestSessionsByTheProviderEnd(t *testing.T) {
	r, server := newRigWithProvider(t)
	ana := store.Account{Name: "ana", Role: "operator", Identity: "ana"}
	changed := func(change func(*store.Account)) func() {
		return func() { a := ana; change(&a); r.PutAccount(a) }
	}
	other := func(change func(*Provider)) func() {
		return func() {
			p := *r.auth.Provider
			change(&p)
			r.auth.Provider = &p
		}
	}
	whole := r.auth.Provider
	closed := func(a *store.Account) { a.DisabledAt = consoletest.Start }
	another, none := other(func(p *Provider) { p.Fingerprint = "two" }), func() { r.auth.Provider = nil }
	for what, change := range map[string]func(){
		"ana, another provider": another, "ana, no provider": none, "bo, another provider": another, "bo, no provider": none,
		"ana, closed":           changed(closed),
		"ana, another identity": changed(func(a *store.Account) { a.Identity = "ana2" }),
		"ana, no identity":      changed(func(a *store.Account) { a.Identity = "" }),
		"bo, no role any more":  other(func(p *Provider) { p.Roles = nil }),
		"bo, closed":            changed(func(a *store.Account) { a.Name, a.Identity = "bo", "bo"; closed(a) }),
	} {
		r.auth.Provider = whole
		r.PutAccount(ana)
		who, _, _ := strings.Cut(what, ",")
		consoletest.SetIdentity(server, who, "support")
		b := r.Browser()
		consoletest.LeadsTo(t, b.ByProvider(""))
		want(t, b.Get("/admin"), http.StatusOK)
		change()
		servertest.Same(t, what, b.Get("/admin").Code, http.StatusSeeOther)
		servertest.Same(t, what+": for a program", b.Get("/v1/admin/sends").Code, http.StatusUnauthorized)
		r.auth.Provider = whole
		r.PutAccount(store.Account{Name: "bo", Role: "reader"})
		r.Clock.Add(time.Hour) // the limits no longer count the attempts
	}
	consoletest.SetIdentity(server, "ana")
	r.PutAccount(ana)
	b := r.Browser()
	consoletest.LeadsTo(t, b.ByProvider(""))
	changed(func(a *store.Account) { a.Role = "owner" })()
	want(t, b.Get("/admin/accounts"), http.StatusOK) // the role is read with each request
	changed(func(a *store.Account) { a.DisabledAt = r.Clock.Now() })()
	want(t, r.Browser().ByProvider(""), http.StatusForbidden)
	consoletest.SetIdentity(server, "ana", "console-owners") // a group does not open an account that an owner has closed
	want(t, r.Browser().ByProvider(""), http.StatusForbidden)
}

// Without a provider, no login through a provider can begin. With a provider, the login page does
// not say that no password is configured.
func TestProviderFromElsewhere(t *testing.T) {
	without := newRig(t).Browser()
	lacks(t, without.Get("/admin/login"), providerStartPath)
	want(t, without.Post(providerStartPath, url.Values{}), http.StatusNotFound)
	want(t, without.Get(ProviderCallbackPath), http.StatusNotFound)
	alone, _ := newRigWithProvider(t, func(c *Config) { c.AdminPassword = "" })
	lacks(t, alone.Browser().Get("/admin/login"), "No password is configured")
}

func TestIdentitiesInTheConsole(t *testing.T) {
	r, server := newRigWithProvider(t)
	owner := r.LoggedIn()
	form := account("add", "mei", "reader", "new colleague")
	form.Set("identity", "mei@example.org")
	rec := want(t, owner.Post("/admin/accounts", form), http.StatusOK)
	lacks(t, rec, `class="shown"`) // no password
	contains(t, owner.Get("/admin/accounts"), "mei@example.org", "no password")
	consoletest.SetIdentity(server, "mei@example.org")
	consoletest.LeadsTo(t, r.Browser().ByProvider(""))
	form = account("add", "li", "reader", "x")
	form.Set("identity", "mei@example.org")
	rec = want(t, owner.Post("/admin/accounts", form), http.StatusUnprocessableEntity)
	contains(t, rec, "Another account has this name at the provider.", `value="mei@example.org"`)
	for _, bad := range []string{"a b", strings.Repeat("a", 201), "a\u202eb", "\xff"} {
		form.Set("identity", bad)
		want(t, owner.Post("/admin/accounts", form), http.StatusUnprocessableEntity)
	}
	form = account("identity", "mei", "", "married")
	form.Set("identity", "mei.li@example.org")
	want(t, owner.Post("/admin/accounts", form), http.StatusOK)
	want(t, r.Browser().ByProvider(""), http.StatusForbidden)
	consoletest.SetIdentity(server, "mei.li@example.org")
	b := r.Browser()
	consoletest.LeadsTo(t, b.ByProvider(""))
	form.Set("identity", "")
	want(t, owner.Post("/admin/accounts", form), http.StatusOK)
	want(t, b.Get("/admin"), http.StatusSeeOther)
}
