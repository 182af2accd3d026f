package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/openid/openidtest"
	"sendcode/internal/kit/servertest"
)

// A provider's answer is accepted only from the browser that was sent there, in time, and once.
func TestProviderStateIsBoundToItsBrowser(t *testing.T) {
	r, server := newRigWithProvider(t)
	consoletest.SetIdentity(server, "bo", "support")
	b := r.Browser()
	back := b.AtProvider("")
	named := func(back string) string { return oauthStateCookie + stateOf(t, back) }
	c := b.Cookies[named(back)]
	if c == nil || c.SameSite != http.SameSiteLaxMode || !c.HttpOnly || !c.Secure || c.Path != "/" || c.MaxAge != 600 {
		t.Errorf("%+v", c)
	}
	refused := func(what string, b *consoletest.Browser, address, says string) {
		t.Helper()
		rec := b.Get(address)
		if rec.Code < 400 || b.Cookies[sessionCookieName] != nil {
			t.Errorf("%s: %d, %v", what, rec.Code, b.Cookies)
		}
		contains(t, rec, says)
	}
	refused("a link to another person's login", r.Browser(), back, "took too long, or was begun in another browser")
	other := r.Browser()
	own := named(other.AtProvider(""))
	refused("another's answer", other, back, "took too long")
	other.Cookies[named(back)] = &http.Cookie{Name: "__Host-" + named(back), Value: other.Cookies[own].Value}
	refused("another's answer to a cookie of that name", other, back, "cannot be trusted")
	servertest.Same(t, "the state of a failed login is kept", other.Cookies[named(back)] != nil, false)
	planted := r.Browser()
	sealed, err := consoletest.Ring(t).Seal(oauthStateSealLabel, []byte(`{"s":"x","end":"2027-01-01T00:00:00Z"}`), nil)
	r.Must(err)
	for _, value := range []string{"", "x", "***", fmt.Sprintf("%x", sealed), strings.Repeat("A", 300)} {
		planted.Cookies[oauthStateCookie+"x"] = &http.Cookie{Name: "__Host-" + oauthStateCookie + "x", Value: value}
		refused("a cookie that was made up", planted, ProviderCallbackPath+"?state=x&code=x", "took too long")
	}
	kept := *c
	consoletest.LeadsTo(t, b.Get(back))
	again := r.Browser()
	again.Cookies[named(back)] = &kept
	calls := server.Seen("/token")
	refused("the same once more", again, back, "took too long")
	again.Handler, again.Cookies[named(back)] = r.replica(quiet(), func(c *Config) { c.Provider = r.providerAt(server) }), &kept
	refused("the same at another replica", again, back, "took too long")
	servertest.Same(t, "questions to the provider", server.Seen("/token"), calls)
	late := r.Browser()
	back = late.AtProvider("")
	r.Clock.Add(oauthStateLife)
	refused("late", late, back, "took too long")
	intime := r.Browser()
	back = intime.AtProvider("")
	r.Clock.Add(oauthStateLife - time.Microsecond)
	server.Do(func() { server.Now = r.Clock.Now })
	consoletest.LeadsTo(t, intime.Get(back))
}

// Whatever the provider does, no person without access is logged in, and the page describes the
// problem in our words.
func TestProviderInTrouble(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*openidtest.Provider)
		answer string // what the provider adds to its answer
		status int
		says   string
	}{
		"down": {func(p *openidtest.Provider) { p.At("", down) }, "", http.StatusServiceUnavailable, "cannot be reached"},
		"denied": {
			func(*openidtest.Provider) {}, "&error=access_denied&error_description=%3Cb%3Eevil",
			http.StatusForbidden, "did not log you in",
		},
		"nameless": {func(p *openidtest.Provider) {
			p.Do(func() { p.Claims = map[string]any{"sub": "x", "groups": []string{"support"}} })
		}, "", http.StatusForbidden, "does not confirm the name"},
		"lying": {func(p *openidtest.Provider) {
			p.Do(func() {
				p.Token = func(claims map[string]any) string { claims["aud"] = "shop"; return p.Signed(claims) }
			})
		}, "", http.StatusUnauthorized, "cannot be trusted"},
	} {
		r, server := newRigWithProvider(t)
		consoletest.SetIdentity(server, "bo", "support")
		b := r.Browser()
		back := b.AtProvider("/admin/overview")
		c.change(server)
		rec := b.Get(back + c.answer)
		if rec.Code != c.status || b.Cookies[sessionCookieName] != nil {
			t.Errorf("%s: %d, %v", what, rec.Code, b.Cookies)
		}
		contains(t, rec, c.says, `value="/admin/overview"`)
		lacks(t, rec, "evil")
		address, err := url.Parse(back)
		r.Must(err)
		r.Unlogged("evil", address.Query().Get("code"))
	}
	r, server := newRigWithProvider(t)
	server.At("", down)
	rec := want(t, r.Browser().Post(providerStartPath, url.Values{"next": {"/admin/overview"}}), http.StatusServiceUnavailable)
	contains(t, rec, "Example ID cannot be reached", `value="/admin/overview"`)
	r.Break("AccountByIdentity")
	server.At("", nil)
	consoletest.SetIdentity(server, "bo", "support")
	b := r.Browser()
	want(t, b.ByProvider(""), http.StatusServiceUnavailable)
	servertest.Same(t, "a session", b.Cookies[sessionCookieName] != nil, false)
}

// stateOf returns the state in the address that the provider redirects to.
func stateOf(t *testing.T, back string) string {
	t.Helper()
	u, err := url.Parse(back)
	servertest.OK(t, err)
	return u.Query().Get("state")
}

// Tabs of one browser log in at the same time, in any order, and each returns to its own page. A
// reloaded page still leads to its target, and cookies do not accumulate.
func TestProviderLoginInSeveralTabs(t *testing.T) {
	r, server := newRigWithProvider(t)
	consoletest.SetIdentity(server, "bo", "support")
	b := r.Browser()
	one, two := b.AtProvider("/admin/overview"), b.AtProvider("/admin/policies")
	servertest.Same(t, "the second leads to", consoletest.LeadsTo(t, b.Get(two)), "/admin/policies")
	servertest.Same(t, "the first leads to", consoletest.LeadsTo(t, b.Get(one)), "/admin/overview")
	servertest.Same(t, "once more", consoletest.LeadsTo(t, b.Get(one)), "/admin")
	want(t, b.Get("/admin"), http.StatusOK)
	for range 3 * maxOAuthStates {
		b.AtProvider("")
	}
	if n := len(b.Cookies); n > maxOAuthStates+3 {
		t.Errorf("%d cookies are kept", n)
	}
}

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

func TestLoginsByTheProviderAreLimited(t *testing.T) {
	r, server := newRigWithProvider(t)
	consoletest.SetIdentity(server, "stranger")
	for range 10 {
		want(t, r.Browser().ByProvider(""), http.StatusForbidden)
	}
	consoletest.SetIdentity(server, "bo", "support")
	b := r.Browser()
	calls := server.Seen("/token")
	rec := want(t, b.ByProvider(""), http.StatusTooManyRequests)
	if rec.Header().Get("Retry-After") == "" || server.Seen("/token") != calls {
		t.Error("the provider was asked all the same, or nothing said when")
	}
	want(t, b.Login(consoletest.Password), http.StatusSeeOther) // passwords are counted separately
	consoletest.LeadsTo(t, r.from("192.0.2.9:1").ByProvider(""))
}
