package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/sqlite/sqlitetest"
)

func TestWithoutSession(t *testing.T) {
	b := newRig(t).Browser()
	for path, next := range map[string]string{
		"/admin":                     "/admin/login",
		"/admin?status=refused":      "/admin/login?next=%2Fadmin%3Fstatus%3Drefused",
		"/admin/":                    "/admin",
		"/admin/sends/..%2f..%2fx":   "/admin/login",
		"/admin/sends/x?y=%5C%0d%0a": "/admin/login?next=" + url.QueryEscape("/admin/sends/x?y=%5C%0d%0a"),
	} {
		redirects(t, b.Get(path), next)
	}
	for _, path := range []string{"/admin/search", "/admin/logout"} {
		redirects(t, b.Post(path, url.Values{}), "/admin/login")
	}
	redirects(t, b.Post(sessionsPath, url.Values{}), "/admin/login?next=%2Fadmin%2Ffactor")
	// A change of language leads back to the login page, which still knows the page to return to,
	// even after a wrong password.
	const back = `name="back" value="/admin/login?next=%2Fadmin%3Fstatus%3Drefused"`
	contains(t, b.Get("/admin/login?next=%2Fadmin%3Fstatus%3Drefused"), back)
	contains(t, b.Post("/admin/login", url.Values{"password": {"wrong"}, "next": {"/admin?status=refused"}}), back)
	contains(t, b.Get("/admin/login?next=//evil.example"), `name="back" value="/admin/login"`)
}

func TestLogin(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	for _, wrong := range []string{
		"x", consoletest.Password + " ", strings.ToUpper(consoletest.Password),
		consoletest.Password[1:], strings.Repeat("x", 5000), "\x00",
	} {
		want(t, b.Login(wrong), http.StatusUnauthorized)
		servertest.Same(t, "cookies after a wrong password", len(b.Cookies), 0)
	}
	rec := want(t, b.Login(""), http.StatusUnprocessableEntity)
	contains(t, rec, "Enter the password")
	rec = want(t, b.Login(consoletest.Password), http.StatusSeeOther)
	redirects(t, rec, "/admin")
	want(t, b.Get("/admin"), http.StatusOK)
	want(t, b.Get("/admin/login"), http.StatusSeeOther)
	r.Unlogged(consoletest.Password, consoletest.Token, b.Cookies[sessionCookieName].Value)
}

// A browser that keeps no cookies, or drops a Secure cookie over http, gets a message before its
// password is tried. If a browser has lost the cookie since the page was loaded, the first press
// also gets this message, and the second press logs in.
func TestALoginWithoutCookies(t *testing.T) {
	b := newRig(t).Browser()
	form := url.Values{"username": {"admin"}, "password": {consoletest.Password}, "next": {"/admin/overview"}, "cookie": {"set"}}
	for _, scheme := range []string{"http", "https"} {
		clear(b.Cookies)
		contains(t, b.Get("/admin/login", "X-Forwarded-Proto", scheme), `<input type="hidden" name="cookie" value="set">`)
		for range 3 {
			clear(b.Cookies)
			rec := want(t, b.Post("/admin/login", form, "X-Forwarded-Proto", scheme), http.StatusUnprocessableEntity)
			contains(t, rec, "did not send this page&#39;s cookie back", "Log in again", "Allow cookies", "http://",
				`value="/admin/overview"`, `value="admin"`)
		}
		redirects(t, b.Post("/admin/login", form, "X-Forwarded-Proto", scheme), "/admin/overview")
	}
}

func TestPasswordsByTheSettings(t *testing.T) {
	hash := consoletest.SmallHash("open sesame 42")
	const broken = "$argon2id$v=19$m=64,t=2,p=1$short$short"
	for _, set := range []Config{{AdminPasswordHash: hash}, {}, {AdminPassword: consoletest.Password, AdminPasswordHash: broken}} {
		r := newRig(t, func(c *Config) { c.AdminPassword, c.AdminPasswordHash = set.AdminPassword, set.AdminPasswordHash })
		b := r.Browser()
		for _, typed := range []string{consoletest.Password, "open sesame 43", hash, broken, "", " "} {
			if rec := b.Login(typed); rec.Code < 400 {
				t.Errorf("%+v: %q logs in", set, typed)
			}
		}
		if set.AdminPasswordHash == hash {
			want(t, b.Login("open sesame 42"), http.StatusSeeOther)
		} else {
			contains(t, b.Get("/admin/login"), "No password is configured")
		}
		r.Unlogged("short$short")
	}
}

// Accounts of the database have a form to log in, even if no password is configured.
func TestLoginWithoutAConfiguredPassword(t *testing.T) {
	r := newRig(t)
	r.As("reader")
	b := r.Browser()
	b.Handler = r.replica(quiet(), func(c *Config) { c.AdminPassword = "" })
	page := b.Get("/admin/login")
	lacks(t, page, "No password is configured")
	contains(t, page, `action="/admin/login"`)
	redirects(t, b.LoginAs("the-reader", "the-reader's password"), "/admin")

	r.Clock.Add(time.Minute)
	other := r.Browser()
	want(t, r.LoggedIn().Post("/admin/accounts", account("close", "the-reader", "", "has left")), http.StatusOK)
	other.Handler = b.Handler
	contains(t, other.Get("/admin/login"), "No password is configured")
	r.Store.SetFault(func(method string) sqlitetest.Fault {
		if method == "Accounts" {
			return sqlitetest.Down
		}
		return sqlitetest.None
	})
	lacks(t, other.Get("/admin/login"), "No password is configured")
}

func TestLoginReturnsToTheRequestedPage(t *testing.T) {
	for _, path := range []string{
		"/admin/sends/x", "/admin?status=sent", "/admin/policies?rule=x",
		"/admin/overview?last=24h", "/admin/policies", "/admin/accounts",
	} {
		servertest.Same(t, "leads to", consolePageOrEmpty(path), path)
	}
	for _, path := range []string{
		"", "/", "/adminx", "/admin/logout", "https://evil.example/admin", "//evil.example/admin", "/\\evil.example",
		"/admin/sends/../../x", "/admin/sends/%2e%2e/x", "/admin/sends/x\r\nA: b", "x:/admin", "/admin/sends/x\ty", "javascript:alert(1)",
		"/admin\t?x", "//user@evil.example/admin", "/admin/sends/\\evil.example",
	} {
		servertest.Same(t, path+": leads to", consolePageOrEmpty(path), "")
	}
	b := newRig(t).Browser()
	for next, to := range map[string]string{"/admin?status=sent": "/admin?status=sent", "//evil.example/admin": "/admin"} {
		redirects(t, b.Post("/admin/login", url.Values{"password": {consoletest.Password}, "next": {next}}), to)
	}
}

func TestLoginIsLimited(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	for i := range 10 {
		rec := want(t, b.Login("wrong"), http.StatusUnauthorized)
		left := fmt.Sprintf("%d tries left", 9-i)
		if i == 8 {
			left = "1 try left"
		}
		if !strings.Contains(rec.Body.String(), left) {
			t.Errorf("try %d does not say %q", i+1, left)
		}
		r.Clock.Add(time.Second)
	}
	rec := want(t, b.Login(consoletest.Password), http.StatusTooManyRequests)
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "890")
	contains(t, rec, "14 min 50 s")
	servertest.Same(t, "cookies beyond the limit", len(b.Cookies), 0)
	want(t, r.from("192.0.2.2:5000").Login(consoletest.Password), http.StatusSeeOther)

	r.Clock.Add(890*time.Second - time.Microsecond)
	want(t, b.Login(consoletest.Password), http.StatusTooManyRequests)
	r.Clock.Add(time.Microsecond)
	want(t, b.Login(consoletest.Password), http.StatusSeeOther)
}

// A person may own a /64 or a /48, and a hoster's customer a /24, so whole networks are limited.
func TestLoginIsLimitedByNetwork(t *testing.T) {
	for form, tries := range map[string]int{"[2001:db8:1:2:%x::1]:1": 10, "[2001:db8:1:%x::1]:1": 30, "198.51.100.%d:1": 30} {
		r := newRig(t)
		tried := 0
		for i := range 60 {
			if r.from(fmt.Sprintf(form, i)).Login("wrong").Code == http.StatusUnauthorized {
				tried++
			}
		}
		servertest.Same(t, form+": attempts", tried, tries)
		for _, other := range []string{"192.0.2.9:1", "[2001:db8:2::1]:1"} {
			want(t, r.from(other).Login(consoletest.Password), http.StatusSeeOther)
		}
	}
}

func TestCheckPasswordWaitsForItsTurn(t *testing.T) {
	r := newRig(t)
	a := New(Config{Limiter: r.Svc.Gates, AdminPassword: consoletest.Password}, layout.New(quiet(), nil), quiet(), time.Now)
	for range maxConcurrentPasswordChecks {
		a.checks <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, right, err := a.checkPassword(ctx, configuredAccount.Name, consoletest.Password); err == nil || right {
		t.Errorf("checked beyond the bound: %v, %v", right, err)
	}
	<-a.checks
	if _, right, err := a.checkPassword(t.Context(), configuredAccount.Name, consoletest.Password); err != nil || !right {
		t.Errorf("%v, %v", right, err)
	}
	servertest.Same(t, "turns taken", len(a.checks), maxConcurrentPasswordChecks-1)
}

func TestLoginAcceptsOnlyForms(t *testing.T) {
	b := newRig(t).Browser()
	want(t, b.Do(http.MethodPost, "/admin/login", `{"password":"x"}`, "Content-Type", "application/json"), http.StatusUnsupportedMediaType)
	want(t, b.Do(http.MethodPost, "/admin/login", "password="+url.QueryEscape(consoletest.Password)), http.StatusUnsupportedMediaType)
	want(t, b.Do(http.MethodPost, "/admin/login", "%zz", "Content-Type", "application/x-www-form-urlencoded"), http.StatusBadRequest)
	want(t, b.Post("/admin/login", url.Values{"password": {strings.Repeat("x", 20_000)}}), http.StatusRequestEntityTooLarge)
	// A password in the query of an address would be logged by proxies.
	want(t, b.Post("/admin/login?password="+url.QueryEscape(consoletest.Password), url.Values{}), http.StatusUnprocessableEntity)
}
