package admin

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/openid"
	"sendcode/internal/openid/openidtest"
	"sendcode/internal/store"
)

const consoleAddress = "http://console.example"

// besideProvider is a rig whose people may also log in by a provider, which is real and on loopback.
func besideProvider(t *testing.T, changes ...func(*Config)) (*rig, *openidtest.Provider) {
	t.Helper()
	server := openidtest.New(t, consoleAddress+ProviderCallback)
	r := newRig(t, append([]func(*Config){func(c *Config) { c.Auth.Provider = providerAt(server, c.Now) }}, changes...)...)
	server.Do(func() { server.Now = r.clock.now })
	return r, server
}

func providerAt(server *openidtest.Provider, now func() time.Time) *Provider {
	s := openid.Settings{
		Issuer: server.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, RedirectURL: server.Redirect,
		Scopes: []string{"openid"}, NameClaim: "preferred_username", RoleClaim: "groups",
	}
	return &Provider{
		Asked: openid.New(s, now), Title: "Example ID", About: "one",
		Roles: map[string]Role{"support": Reader, "on-call": Operator, "console-owners": Owner},
	}
}

// is has the provider log somebody in from now on.
func is(server *openidtest.Provider, name string, groups ...string) {
	server.Do(func() { server.Claims = map[string]any{"sub": "x", "preferred_username": name, "groups": groups} })
}

// leadsTo is where a page of ours goes by itself.
func leadsTo(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	want(t, rec, http.StatusOK)
	_, rest, found := strings.Cut(rec.Body.String(), `<meta http-equiv="refresh" content="0; url=`)
	if !found {
		t.Fatalf("leads nowhere: %s", rec.Body)
	}
	address, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(address)
}

// errandTo begins a login and does at the provider what a browser does; it comes back with the address that it was sent to.
func (b *browser) errandTo(next string) string {
	b.Helper()
	address := leadsTo(b.T, b.post(providerStart, url.Values{"next": {next}}))
	visit := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visit.Get(address)
	b.must(err)
	b.must(resp.Body.Close())
	back := resp.Header.Get("Location")
	if !strings.HasPrefix(back, consoleAddress+ProviderCallback+"?") {
		b.Fatalf("%d to %q", resp.StatusCode, back)
	}
	return strings.TrimPrefix(back, consoleAddress)
}

func (b *browser) byProvider(next string) *httptest.ResponseRecorder {
	b.Helper()
	return b.get(b.errandTo(next))
}

// account adds an account, or makes the one of its name like it.
func (r *rig) account(a store.Account) {
	r.Helper()
	act := store.AuditEntry{ID: r.id(), Who: "test", What: "account.add", Outcome: store.AuditDone}
	err := r.log.AddAccount(r.Context(), a, act)
	if errors.Is(err, store.ErrNameTaken) {
		all := store.AccountChange{Role: &a.Role, Password: &a.Password, Identity: &a.Identity, DisabledAt: &a.DisabledAt}
		err = r.log.ChangeAccount(r.Context(), a.Name, all, act)
	}
	r.must(err)
}

func TestLoginByTheProvider(t *testing.T) {
	r, server := besideProvider(t)
	r.account(store.Account{Name: "ana", Role: "operator", Identity: "ana@example.org"})
	b := r.browser()
	contains(t, b.get("/admin/login?next=/admin/preview"), "Log in with Example ID", `value="/admin/preview"`)
	is(server, "ana@example.org", "console-owners") // the account decides, not the group
	rec := b.byProvider("/admin/preview")
	if to := leadsTo(t, rec); to != "/admin/preview" {
		t.Errorf("leads to %q", to)
	}
	c := b.cookies[cookieName]
	if c == nil || c.SameSite != http.SameSiteStrictMode || b.cookies[errandCookie] != nil {
		t.Fatalf("%+v", b.cookies)
	}
	want(t, b.get("/admin"), http.StatusOK)
	want(t, b.get("/admin/accounts"), http.StatusForbidden)
	acts, err := r.log.AuditEntries(t.Context(), store.AuditFilter{Limit: 1})
	r.must(err)
	if a := acts[0]; a.Who != "ana" || a.What != ActionLogin || a.Role != "operator" || a.Detail != "oidc" {
		t.Errorf("%+v", a)
	}
	want(t, b.post("/admin/logout", url.Values{}), http.StatusSeeOther)
	want(t, b.get("/admin"), http.StatusSeeOther)
	// By password nobody logs in who has none.
	want(t, b.loginAs("ana", ""), http.StatusUnprocessableEntity)
	want(t, b.loginAs("ana", "x"), http.StatusUnauthorized)
}

func TestRolesByTheProvider(t *testing.T) {
	r, server := besideProvider(t)
	for _, c := range []struct {
		groups   []string
		accounts int // status of the page of accounts
		export   int // status of an operator's deed
		granted  string
	}{
		{[]string{"support"}, http.StatusForbidden, http.StatusForbidden, "support"},
		{[]string{"x", "support", "on-call", "support"}, http.StatusForbidden, http.StatusOK, "on-call"},
		{[]string{"console-owners", "support"}, http.StatusOK, http.StatusOK, "console-owners"},
	} {
		is(server, "bo", c.groups...)
		b := r.browser()
		leadsTo(t, b.byProvider(""))
		want(t, b.get("/admin"), http.StatusOK)
		want(t, b.get("/admin/accounts"), c.accounts)
		want(t, b.get("/v1/admin/sends.csv"), c.export)
		acts, err := r.log.AuditEntries(t.Context(), store.AuditFilter{What: ActionLogin, Limit: 1})
		r.must(err)
		if a := acts[0]; a.Who != "oidc:bo" || a.Detail != c.granted {
			t.Errorf("%+v", a)
		}
	}
	for _, groups := range [][]string{nil, {""}, {"Support"}, {"owner"}, {"on-call "}} {
		is(server, "bo", groups...)
		b := r.browser()
		rec := b.byProvider("")
		want(t, rec, http.StatusForbidden)
		contains(t, rec, "you have no access here")
		if b.cookies[cookieName] != nil {
			t.Errorf("%q: a session", groups)
		}
	}
}

// A session by the provider ends when what it rests on does: the account, its identity, the value that gave a role, the provider itself.
func TestSessionsByTheProviderEnd(t *testing.T) {
	r, server := besideProvider(t)
	ana := store.Account{Name: "ana", Role: "operator", Identity: "ana"}
	changed := func(change func(*store.Account)) func() {
		return func() { a := ana; change(&a); r.account(a) }
	}
	other := func(change func(*Provider)) func() {
		return func() {
			p := *r.console.auth.provider
			change(&p)
			r.console.auth.provider = &p
		}
	}
	whole := r.console.auth.provider
	for what, c := range map[string]struct {
		who    string
		change func()
	}{
		"closed":                {"ana", changed(func(a *store.Account) { a.DisabledAt = start })},
		"another identity":      {"ana", changed(func(a *store.Account) { a.Identity = "ana2" })},
		"no identity":           {"ana", changed(func(a *store.Account) { a.Identity = "" })},
		"another provider":      {"ana", other(func(p *Provider) { p.About = "two" })},
		"no provider":           {"ana", func() { r.console.auth.provider = nil }},
		"no role any more":      {"bo", other(func(p *Provider) { p.Roles = nil })},
		"bo's another provider": {"bo", other(func(p *Provider) { p.About = "two" })},
		"bo's no provider":      {"bo", func() { r.console.auth.provider = nil }},
		"bo's account closed":   {"bo", changed(func(a *store.Account) { a.Name, a.Identity, a.DisabledAt = "bo", "bo", start })},
	} {
		r.console.auth.provider = whole
		r.account(ana)
		is(server, c.who, "support")
		b := r.browser()
		leadsTo(t, b.byProvider(""))
		want(t, b.get("/admin"), http.StatusOK)
		c.change()
		if got := b.get("/admin").Code; got != http.StatusSeeOther {
			t.Errorf("%s: %d", what, got)
		}
		if got := b.get("/v1/admin/sends").Code; got != http.StatusUnauthorized {
			t.Errorf("%s: %d for a program", what, got)
		}
		r.console.auth.provider = whole
		r.account(store.Account{Name: "bo", Role: "reader"})
		r.clock.add(time.Hour) // the limits forget
	}
	is(server, "ana")
	r.account(ana)
	b := r.browser()
	leadsTo(t, b.byProvider(""))
	changed(func(a *store.Account) { a.Role = "owner" })()
	want(t, b.get("/admin/accounts"), http.StatusOK) // the role is read with each request
	changed(func(a *store.Account) { a.DisabledAt = r.clock.now() })()
	rec := r.browser().byProvider("")
	want(t, rec, http.StatusForbidden)
	is(server, "ana", "console-owners") // nor does a group open what an owner closed
	want(t, r.browser().byProvider(""), http.StatusForbidden)
}

func TestProviderNeverLeadsElsewhere(t *testing.T) {
	r, server := besideProvider(t)
	is(server, "bo", "support")
	for i, next := range []string{"https://evil.example/admin", "//evil.example", `/\evil.example`, "/admin/logout", "javascript:alert(1)", "/admin/sends/../../x", ""} {
		b := r.browser()
		b.from = fmt.Sprintf("192.0.2.%d:1", i+10)
		if to := leadsTo(t, b.byProvider(next)); to != "/admin" {
			t.Errorf("%q leads to %q", next, to)
		}
	}
	b := r.browser()
	if to := leadsTo(t, b.byProvider("/admin?status=refused")); to != "/admin?status=refused" {
		t.Errorf("leads to %q", to)
	}
}

func TestProviderOverHTTPS(t *testing.T) {
	r, server := besideProvider(t)
	is(server, "bo", "support")
	b := r.browser()
	b.base = "https://console.example"
	back := b.errandTo("")
	if c := b.cookies[secureErrandCookie]; c == nil || !c.Secure || c.Domain != "" || c.Path != "/" {
		t.Errorf("%+v", b.cookies)
	}
	leadsTo(t, b.get(back))
	if c := b.cookies[secureCookieName]; c == nil || !c.Secure {
		t.Errorf("%+v", b.cookies)
	}
}

// A page of another site can't begin a login, and without a provider there is none to begin.
func TestProviderFromElsewhere(t *testing.T) {
	r, _ := besideProvider(t)
	b := r.browser()
	want(t, b.post(providerStart, url.Values{}, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
	want(t, b.get(providerStart), http.StatusMethodNotAllowed)
	without := newRig(t).browser()
	lacks(t, without.get("/admin/login"), providerStart)
	want(t, without.post(providerStart, url.Values{}), http.StatusNotFound)
	want(t, without.get(ProviderCallback), http.StatusNotFound)
	alone, _ := besideProvider(t, func(c *Config) { c.Auth.Password = "" })
	lacks(t, alone.browser().get("/admin/login"), "No password is configured")
}

func TestIdentitiesInTheConsole(t *testing.T) {
	r, server := besideProvider(t)
	owner := r.loggedIn()
	form := account("add", "mei", "reader", "new colleague")
	form.Set("identity", "mei@example.org")
	rec := owner.post("/admin/accounts", form)
	want(t, rec, http.StatusOK)
	lacks(t, rec, `class="shown"`) // no password
	contains(t, owner.get("/admin/accounts"), "mei@example.org", "no password")
	is(server, "mei@example.org")
	leadsTo(t, r.browser().byProvider(""))
	form = account("add", "li", "reader", "x")
	form.Set("identity", "mei@example.org")
	rec = owner.post("/admin/accounts", form)
	want(t, rec, http.StatusUnprocessableEntity)
	contains(t, rec, "Another account has this name at the provider.", `value="mei@example.org"`)
	for _, bad := range []string{"a b", strings.Repeat("a", 201), "a\u202eb", "\xff"} {
		form.Set("identity", bad)
		want(t, owner.post("/admin/accounts", form), http.StatusUnprocessableEntity)
	}
	form = account("identity", "mei", "", "married")
	form.Set("identity", "mei.li@example.org")
	want(t, owner.post("/admin/accounts", form), http.StatusOK)
	want(t, r.browser().byProvider(""), http.StatusForbidden)
	is(server, "mei.li@example.org")
	b := r.browser()
	leadsTo(t, b.byProvider(""))
	form.Set("identity", "")
	want(t, owner.post("/admin/accounts", form), http.StatusOK)
	want(t, b.get("/admin"), http.StatusSeeOther)
	contains(t, owner.get("/admin/acts"), "changed a name at the provider")
}
