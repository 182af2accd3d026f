package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/servertest"
)

func TestCookie(t *testing.T) {
	b := newRig(t).Browser()
	c := b.Login(consoletest.Password).Result().Cookies()[0]
	if c.Name != "sendcode-admin" || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 1800 {
		t.Errorf("over http: %+v", c)
	}
	b = newRig(t).Browser()
	b.Base = "https://console.example"
	c = b.Login(consoletest.Password).Result().Cookies()[0]
	if c.Name != "__Host-sendcode-admin" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("over https: %+v", c)
	}
	if known := b.Cookies["__Host-"+browserCookieName("admin")]; known == nil || !known.Secure {
		t.Errorf("the cookie of a known browser: %+v", known)
	}
	want(t, b.Get("/admin"), http.StatusOK)
	// A neighbour under the same domain can plant a cookie without the prefix; it must not be read.
	planted := *c
	planted.Name = cookieName
	b.Cookies = map[string]*http.Cookie{cookieName: &planted}
	want(t, b.Get("/admin"), http.StatusSeeOther)
}

func TestSessionGoesIdle(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	r.Clock.Add(30 * time.Second)
	servertest.Same(t, "cookies renewed after 30 s", len(b.Get("/admin").Result().Cookies()), 0)
	r.Clock.Add(29*time.Minute + 30*time.Second - time.Microsecond)
	want(t, b.Get("/admin"), http.StatusOK) // seen now
	r.Clock.Add(30*time.Minute - time.Microsecond)
	want(t, b.Get("/v1/admin/sends"), http.StatusOK)
	r.Clock.Add(30 * time.Minute)
	want(t, b.Get("/admin"), http.StatusSeeOther)
	want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
}

func TestSessionEndsForGood(t *testing.T) {
	r := newRig(t)
	r.Clock.Add(-time.Duration(consoletest.Start.Nanosecond()))
	b := r.LoggedIn()
	for range 12*3 - 1 {
		r.Clock.Add(20 * time.Minute)
		want(t, b.Get("/admin"), http.StatusOK)
	}
	servertest.Same(t, "seconds of the last cookie", b.Cookies[cookieName].MaxAge, 20*60)
	r.Clock.Add(20*time.Minute - time.Second)
	want(t, b.Get("/v1/admin/sends"), http.StatusOK)
	r.Clock.Add(time.Second)
	want(t, b.Get("/admin"), http.StatusSeeOther)
	want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
}

func TestSessionFromTheFuture(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	r.Clock.Add(-4 * time.Minute)
	want(t, b.Get("/admin"), http.StatusOK) // another replica's clock may be a little behind
	r.Clock.Add(-2 * time.Minute)
	want(t, b.Get("/admin"), http.StatusSeeOther)
}

func TestSessionCannotBeForged(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	value := b.Cookies[cookieName].Value
	key, err := base64.RawURLEncoding.DecodeString(value)
	r.Must(err)
	id := sha256.Sum256(key)
	for i := range key {
		tampered := append([]byte(nil), key...)
		tampered[i] ^= 1
		b.Cookies[cookieName].Value = base64.RawURLEncoding.EncodeToString(tampered)
		want(t, b.Get("/admin"), http.StatusSeeOther)
	}
	for _, forged := range []string{
		"", "x", value + "A", value[:len(value)-2], strings.Repeat("A", 4000), base64.RawURLEncoding.EncodeToString(id[:]), // what the log has
	} {
		b.Cookies[cookieName] = &http.Cookie{Name: cookieName, Value: forged}
		want(t, b.Get("/admin"), http.StatusSeeOther)
		want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	}
}

// What the log keeps of a session is of no use to who reads it: neither the key, nor a password to try.
func TestSessionsAreKeptAsHashes(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	key, err := base64.RawURLEncoding.DecodeString(b.Cookies[cookieName].Value)
	r.Must(err)
	s, _, err := r.Log.Session(t.Context(), sha256.Sum256(key))
	r.Must(err)
	p, err := parsePassword(consoletest.Password, "")
	r.Must(err)
	if s.Bound == p.identity || s.Bound != (holder{credential: p}).sessionBinding(key) || s.Account != "admin" {
		t.Errorf("%+v", s)
	}
}

func TestSessionIsForItsPasswordAndEveryReplica(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	b.Handler = r.replica(quiet())
	want(t, b.Get("/admin"), http.StatusOK)
	b.Handler = r.replica(quiet(), func(c *Config) { c.Password = "another password" })
	want(t, b.Get("/admin"), http.StatusSeeOther)
	b.Handler = r.replica(quiet(), func(c *Config) { c.Password = "" })
	want(t, b.Get("/admin"), http.StatusSeeOther)
}

// A copy of the cookie that was taken before is of no use after logging out, on any replica.
func TestLogout(t *testing.T) {
	r := newRig(t)
	b, other := r.LoggedIn(), r.LoggedIn()
	kept := *b.Cookies[cookieName]
	r.Clock.Add(2 * time.Minute)
	rec := b.Post("/admin/logout", url.Values{})
	want(t, rec, http.StatusSeeOther)
	if got := rec.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 || got[0].Value != "" || rec.Header().Get("Location") != "/admin/login" {
		t.Errorf("logging out sets %v and leads to %q", got, rec.Header().Get("Location"))
	}
	b.Cookies[cookieName] = &kept
	for _, handler := range []http.Handler{r.Handler, r.replica(quiet())} {
		b.Handler = handler
		want(t, b.Get("/admin"), http.StatusSeeOther)
		want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	}
	want(t, other.Get("/admin"), http.StatusOK)
}

func TestSessionsWithoutTheLog(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	r.Break()
	want(t, b.Get("/admin"), http.StatusServiceUnavailable)
	want(t, b.Get("/v1/admin/sends"), http.StatusServiceUnavailable)
	want(t, b.Post("/admin/logout", url.Values{}), http.StatusServiceUnavailable) // it would not be true
	want(t, r.Browser().Login(consoletest.Password), http.StatusServiceUnavailable)
	want(t, b.Get("/admin/login"), http.StatusOK)
	r.Log.SetFault(nil)
	want(t, b.Get("/admin"), http.StatusOK)
}
