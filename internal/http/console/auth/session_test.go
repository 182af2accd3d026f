package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// Browsers send the cookies of a login only to this site. Over https the cookies have the prefix
// __Host-, so that no other host can set them. The cookie of a known browser lives for 90 days.
func TestLoginCookies(t *testing.T) {
	for base, prefix := range map[string]string{"http://localhost:8080": "", consoletest.Address: "__Host-"} {
		b := newRig(t).Browser()
		if b.Base = base; prefix == "" {
			b.From = "127.0.0.1:5000"
		}
		b.Login(consoletest.Password)
		for name, age := range map[string]int{sessionCookieName: 1800, knownBrowserCookieName("admin"): 90 * 24 * 3600} {
			c := b.Cookies[name]
			if c == nil || c.Name != prefix+name || c.Secure == (prefix == "") || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode ||
				c.Path != "/" || c.Domain != "" || c.MaxAge != age {
				t.Errorf("%s: %+v", name, c)
			}
		}
		want(t, b.Get("/admin"), http.StatusOK)
		// another host under the same domain can set a cookie without the prefix; the console must
		// not read it
		if prefix != "" {
			b.Cookies[sessionCookieName].Name = sessionCookieName
			want(t, b.Get("/admin"), http.StatusSeeOther)
		}
	}
}

// A session ends 30 minutes after it was last seen, and 12 hours after its login. It also ends if
// it was last seen more than five minutes in the future.
func TestSessionsEnd(t *testing.T) {
	r := newRig(t)
	r.Clock.Add(-time.Duration(consoletest.Start.Nanosecond()))
	b := r.LoggedIn()
	after := func(d time.Duration, status int) {
		t.Helper()
		r.Clock.Add(d)
		want(t, b.Get("/admin"), status)
	}
	r.Clock.Add(30 * time.Second)
	servertest.Same(t, "cookies renewed after 30 s", len(b.Get("/admin").Result().Cookies()), 0)
	after(29*time.Minute+30*time.Second-time.Microsecond, http.StatusOK) // this request counts as use
	after(30*time.Minute-time.Microsecond, http.StatusOK)
	after(30*time.Minute, http.StatusSeeOther)
	want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	r.Clock.Add(2 * time.Microsecond)
	b = r.LoggedIn()
	for range 12*3 - 1 {
		after(20*time.Minute, http.StatusOK)
	}
	servertest.Same(t, "seconds of the last cookie", b.Cookies[sessionCookieName].MaxAge, 20*60)
	after(20*time.Minute-time.Second, http.StatusOK)
	after(time.Second, http.StatusSeeOther)
	b = r.LoggedIn()
	after(-4*time.Minute, http.StatusOK) // another replica's clock may be a little behind
	after(-2*time.Minute, http.StatusSeeOther)
}

// A session's key cannot be forged. A reader of the database gains neither a key nor a password to
// try.
func TestSessionCannotBeForged(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	value := b.Cookies[sessionCookieName].Value
	key, err := base64.RawURLEncoding.DecodeString(value)
	r.Must(err)
	id := sha256.Sum256(key)
	forged := []string{"", "x", value + "A", value[:len(value)-2], strings.Repeat("A", 4000), base64.RawURLEncoding.EncodeToString(id[:])}
	for i := range key {
		tampered := slices.Clone(key)
		tampered[i] ^= 1
		forged = append(forged, base64.RawURLEncoding.EncodeToString(tampered))
	}
	for _, value := range forged {
		b.Cookies[sessionCookieName].Value = value
		want(t, b.Get("/admin"), http.StatusSeeOther)
		want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	}
	s, _, err := r.Store.Session(t.Context(), id)
	r.Must(err)
	p, err := newCredential(consoletest.Password, "")
	r.Must(err)
	if s.Bound == p.identity || s.Bound != (principal{credential: p}).sessionBinding(key) || s.Account != "admin" {
		t.Errorf("%+v", s)
	}
}

func TestSessionIsForItsPasswordAndEveryReplica(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	b.Handler = r.replica(quiet())
	want(t, b.Get("/admin"), http.StatusOK)
	b.Handler = r.replica(quiet(), func(c *Config) { c.AdminPassword = "another password" })
	want(t, b.Get("/admin"), http.StatusSeeOther)
	b.Handler = r.replica(quiet(), func(c *Config) { c.AdminPassword = "" })
	want(t, b.Get("/admin"), http.StatusSeeOther)
}

// A copy of the cookie that was taken before is useless after the logout, on any replica.
func TestLogout(t *testing.T) {
	r := newRig(t)
	b, other := r.LoggedIn(), r.LoggedIn()
	kept := *b.Cookies[sessionCookieName]
	r.Clock.Add(2 * time.Minute)
	rec := want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
	if got := rec.Result().Cookies(); len(got) != 1 || got[0].MaxAge >= 0 || got[0].Value != "" ||
		rec.Header().Get("Location") != "/admin/login" {
		t.Errorf("logging out sets %v and leads to %q", got, rec.Header().Get("Location"))
	}
	b.Cookies[sessionCookieName] = &kept
	for _, handler := range []http.Handler{r.Handler, r.replica(quiet())} {
		b.Handler = handler
		want(t, b.Get("/admin"), http.StatusSeeOther)
		want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	}
	want(t, other.Get("/admin"), http.StatusOK)
}

// unresponsiveStore stands for a database that accepts each query and gives no answer. It checks
// how long its caller would wait, and fails at once.
type unresponsiveStore struct{ sessionStore }

func (unresponsiveStore) Session(ctx context.Context, _ [32]byte) (store.Session, time.Time, error) {
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > store.CallTimeout {
		return store.Session{}, time.Time{}, errors.New("a page waits for longer than a call may take")
	}
	return store.Session{}, time.Time{}, fault.Unavailable
}

// A page waits for its session at most as long as a call of the database may take.
func TestSessionsOfADatabaseThatStops(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	b.Handler = r.replica(quiet(), func(c *Config) { c.Sessions = unresponsiveStore{c.Sessions} })
	want(t, b.Get("/admin"), http.StatusServiceUnavailable)
	want(t, b.Get("/v1/admin/sends"), http.StatusServiceUnavailable)
}

func TestSessionsWithoutTheDatabase(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	r.Break()
	want(t, b.Get("/admin"), http.StatusServiceUnavailable)
	want(t, b.Get("/v1/admin/sends"), http.StatusServiceUnavailable)
	want(t, b.Post("/admin/logout", url.Values{}), http.StatusServiceUnavailable) // the page must not claim a logout
	want(t, r.Browser().Login(consoletest.Password), http.StatusServiceUnavailable)
	want(t, b.Get("/admin/login"), http.StatusOK)
	r.Store.SetFault(nil)
	want(t, b.Get("/admin"), http.StatusOK)
}
