package admin

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
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
	if one, other := begin(start), begin(start); one.id == other.id {
		t.Error("two sessions have one id")
	}
}

func TestSessionGoesIdle(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.clock.t = r.clock.t.Truncate(time.Second) // the cookie's times are whole seconds
	r.clock.add(30*time.Minute - time.Second)
	old := *b.cookies[cookieName]
	want(t, b.get("/admin"), http.StatusOK)
	if b.cookies[cookieName].Value == old.Value {
		t.Fatal("a session in use was not renewed")
	}
	r.clock.add(time.Second)
	renewed := b.cookies[cookieName]
	b.cookies[cookieName] = &old
	want(t, b.get("/admin"), http.StatusSeeOther)
	b.cookies[cookieName] = renewed
	want(t, b.get("/admin"), http.StatusOK)
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
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	r.must(err)
	for i := range sealed {
		tampered := append([]byte(nil), sealed...)
		tampered[i] ^= 1
		b.cookies[cookieName].Value = base64.RawURLEncoding.EncodeToString(tampered)
		if rec := b.get("/admin"); rec.Code != http.StatusSeeOther {
			t.Fatalf("byte %d changed: %d", i, rec.Code)
		}
	}
	otherUse, err := r.ring.Seal("page", make([]byte, sealedSize), nil)
	r.must(err)
	p, err := newPassword(testPassword, "")
	r.must(err)
	otherPlain, err := r.ring.Seal(sealLabel, []byte("short"), newSessions(r.ring, p).bound)
	r.must(err)
	for _, forged := range []string{"", "x", value + "A", value[:len(value)-2], strings.Repeat("A", 4000),
		base64.RawURLEncoding.EncodeToString(otherUse), base64.RawURLEncoding.EncodeToString(otherPlain)} {
		b.cookies[cookieName] = &http.Cookie{Name: cookieName, Value: forged}
		want(t, b.get("/admin"), http.StatusSeeOther)
		want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
	}
}

func TestSessionIsForItsPasswordAndEveryReplica(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	b.handler = r.replica(quiet())
	want(t, b.get("/admin"), http.StatusOK)
	b.handler = r.replica(quiet(), func(c *Config) { c.Password = "another password" })
	want(t, b.get("/admin"), http.StatusSeeOther)
	b.handler = r.replica(quiet(), func(c *Config) { c.Cookies = testRing(t) })
	want(t, b.get("/admin"), http.StatusSeeOther)
}

func TestLogout(t *testing.T) {
	r := newRig(t)
	b, other := r.loggedIn(), r.loggedIn()
	kept := *b.cookies[cookieName]
	rec := b.post("/admin/logout", url.Values{})
	want(t, rec, http.StatusSeeOther)
	if rec.Header().Get("Location") != "/admin/login" || len(b.cookies) != 0 {
		t.Errorf("to %q with %d cookies", rec.Header().Get("Location"), len(b.cookies))
	}
	b.cookies[cookieName] = &kept
	want(t, b.get("/admin"), http.StatusSeeOther)
	want(t, b.get("/v1/admin/sends"), http.StatusUnauthorized)
	want(t, other.get("/admin"), http.StatusOK)
}

func TestLogoutEndsEveryCookieOfTheSession(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	first := *b.cookies[cookieName]
	r.clock.add(2 * time.Minute)
	want(t, b.get("/admin"), http.StatusOK) // renewed
	r.clock.add(2 * time.Minute)
	rec := b.post("/admin/logout", url.Values{})
	want(t, rec, http.StatusSeeOther)
	if got := rec.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 || got[0].Value != "" {
		t.Errorf("logging out sets %v", got)
	}
	b.cookies[cookieName] = &first
	want(t, b.get("/admin"), http.StatusSeeOther)
}

func TestRevocationsAreForgotten(t *testing.T) {
	s := newSessions(testRing(t), password{})
	for range 100 {
		s.revoke(begin(start), start)
	}
	last := begin(start.Add(13 * time.Hour))
	s.revoke(last, start.Add(13*time.Hour))
	if len(s.revoked) != 1 || !s.isRevoked(last) {
		t.Errorf("%d revocations are kept", len(s.revoked))
	}
}
