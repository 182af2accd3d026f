package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store/sqlite"
)

func TestCookie(t *testing.T) {
	b := newRig(t).browser()
	c := b.login(testPassword).Result().Cookies()[0]
	if c.Name != "sendcode-admin" || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 1800 {
		t.Errorf("over http: %+v", c)
	}
	b = newRig(t).browser()
	b.base = "https://console.example"
	c = b.login(testPassword).Result().Cookies()[0]
	if c.Name != "__Host-sendcode-admin" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("over https: %+v", c)
	}
	want(t, b.get("/admin"), http.StatusOK)
	// A neighbour under the same domain can plant a cookie without the prefix; it must not be read.
	planted := *c
	planted.Name = cookieName
	b.cookies = map[string]*http.Cookie{cookieName: &planted}
	want(t, b.get("/admin"), http.StatusSeeOther)
}

func TestSessionsDiffer(t *testing.T) {
	r := newRig(t)
	first, second := r.loggedIn(), r.loggedIn()
	if first.cookies[cookieName].Value == second.cookies[cookieName].Value {
		t.Error("two sessions have one cookie")
	}
}

func TestSessionGoesIdle(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.clock.add(30*time.Minute - time.Microsecond)
	want(t, b.get("/admin"), http.StatusOK) // seen now
	r.clock.add(30*time.Minute - time.Microsecond)
	want(t, b.get("/v1/admin/sends"), http.StatusOK)
	r.clock.add(30 * time.Minute)
	want(t, b.get("/admin"), http.StatusSeeOther)
	want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
}

func TestSessionEndsForGood(t *testing.T) {
	r := newRig(t)
	r.clock.t = start.Truncate(time.Second)
	b := r.loggedIn()
	for range 12*3 - 1 {
		r.clock.add(20 * time.Minute)
		want(t, b.get("/admin"), http.StatusOK)
	}
	if age := b.cookies[cookieName].MaxAge; age != 20*60 {
		t.Errorf("the last cookie lives for %d s, want 1200", age)
	}
	r.clock.add(20*time.Minute - time.Second)
	want(t, b.get("/v1/admin/sends"), http.StatusOK)
	r.clock.add(time.Second)
	want(t, b.get("/admin"), http.StatusSeeOther)
	want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
}

func TestSessionIsNotRenewedAllTheTime(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.clock.add(30 * time.Second)
	if rec := b.get("/admin"); len(rec.Result().Cookies()) != 0 {
		t.Error("renewed after 30 s")
	}
}

func TestSessionFromTheFuture(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.clock.add(-4 * time.Minute)
	want(t, b.get("/admin"), http.StatusOK) // another replica's clock may be a little behind
	r.clock.add(-2 * time.Minute)
	want(t, b.get("/admin"), http.StatusSeeOther)
}

func TestSessionCannotBeForged(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	value := b.cookies[cookieName].Value
	key, err := base64.RawURLEncoding.DecodeString(value)
	r.must(err)
	id := sha256.Sum256(key)
	for i := range key {
		tampered := append([]byte(nil), key...)
		tampered[i] ^= 1
		b.cookies[cookieName].Value = base64.RawURLEncoding.EncodeToString(tampered)
		if rec := b.get("/admin"); rec.Code != http.StatusSeeOther {
			t.Fatalf("byte %d changed: %d", i, rec.Code)
		}
	}
	for _, forged := range []string{
		"", "x", value + "A", value[:len(value)-2], strings.Repeat("A", 4000), base64.RawURLEncoding.EncodeToString(id[:]), // what the log has
	} {
		b.cookies[cookieName] = &http.Cookie{Name: cookieName, Value: forged}
		want(t, b.get("/admin"), http.StatusSeeOther)
		want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
	}
}

// What the log keeps of a session is of no use to who reads it: neither the key, nor a password to try.
func TestSessionsAreKeptAsHashes(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	key, err := base64.RawURLEncoding.DecodeString(b.cookies[cookieName].Value)
	r.must(err)
	s, _, err := r.log.Session(t.Context(), sha256.Sum256(key))
	r.must(err)
	p, err := newPassword(testPassword, "")
	r.must(err)
	if s.Bound == p.identity || s.Bound != boundTo(key, p.proof()) || s.Account != "admin" {
		t.Errorf("%+v", s)
	}
}

func TestSessionIsForItsPasswordAndEveryReplica(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	b.handler = r.replica(quiet())
	want(t, b.get("/admin"), http.StatusOK)
	b.handler = r.replica(quiet(), func(c *Config) { c.Auth.Password = "another password" })
	want(t, b.get("/admin"), http.StatusSeeOther)
	b.handler = r.replica(quiet(), func(c *Config) { c.Auth.Password = "" })
	want(t, b.get("/admin"), http.StatusSeeOther)
}

// A copy of the cookie that was taken before is of no use after logging out, on any replica.
func TestLogout(t *testing.T) {
	r := newRig(t)
	b, other := r.loggedIn(), r.loggedIn()
	kept := *b.cookies[cookieName]
	r.clock.add(2 * time.Minute)
	rec := b.post("/admin/logout", url.Values{})
	want(t, rec, http.StatusSeeOther)
	if got := rec.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 || got[0].Value != "" || rec.Header().Get("Location") != "/admin/login" {
		t.Errorf("logging out sets %v and leads to %q", got, rec.Header().Get("Location"))
	}
	b.cookies[cookieName] = &kept
	for _, handler := range []http.Handler{r.handler, r.replica(quiet())} {
		b.handler = handler
		want(t, b.get("/admin"), http.StatusSeeOther)
		want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
	}
	want(t, other.get("/admin"), http.StatusOK)
}

func TestSessionsWithoutTheLog(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.log.SetFault(func(string) sqlite.Fault { return sqlite.Down })
	want(t, b.get("/admin"), http.StatusServiceUnavailable)
	want(t, b.get("/v1/admin/sends"), http.StatusServiceUnavailable)
	want(t, b.post("/admin/logout", url.Values{}), http.StatusServiceUnavailable) // it would not be true
	want(t, r.browser().login(testPassword), http.StatusServiceUnavailable)
	want(t, b.get("/admin/login"), http.StatusOK)
	r.log.SetFault(nil)
	want(t, b.get("/admin"), http.StatusOK)
}
