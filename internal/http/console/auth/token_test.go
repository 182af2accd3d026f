package auth

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
)

func withToken(b *consoletest.Browser, token string) int {
	b.Helper()
	return b.Get("/v1/admin/sends", "Authorization", "Bearer "+token).Code
}

// Of 300 wrong tokens from one address, ten get a 401 and the others a 429. The log has one line
// for all of them, and no output contains a token.
func TestWrongTokensAreThrottled(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	answers := map[int]int{}
	for i := range 300 {
		wrong := fmt.Sprintf("wrong-token-of-length-%d", i)
		rec := b.Get("/v1/admin/sends", "Authorization", "Bearer "+wrong)
		answers[rec.Code]++
		lacks(t, rec, wrong)
	}
	if answers[http.StatusUnauthorized] != 10 || answers[http.StatusTooManyRequests] != 290 {
		t.Errorf("%v", answers)
	}
	rec := b.Get("/v1/admin/sends", "Authorization", "Bearer wrong-token")
	servertest.Same(t, "Retry-After", want(t, rec, http.StatusTooManyRequests).Header().Get("Retry-After"), "900")
	servertest.Same(t, "the right one", withToken(b, consoletest.Token), http.StatusOK)
	servertest.Same(t, "lines about wrong tokens", strings.Count(r.Printed.String(), "unknown admin token refused"), 1)
	r.Clock.Add(time.Minute)
	withToken(b, "wrong-token-of-length-300")
	if !strings.Contains(r.Printed.String(), `msg="unknown admin token refused" count=301`) {
		t.Errorf("no count: %s", r.Printed)
	}
	r.Unlogged("wrong-token", consoletest.Token)
	servertest.Same(t, "a wrong one from another network", withToken(r.from("192.0.3.1:1"), "wrong-token"), http.StatusUnauthorized)
	want(t, r.LoggedIn().Get("/v1/admin/sends"), http.StatusOK) // sessions and logins are counted separately
	r.Clock.Add(14 * time.Minute)
	servertest.Same(t, "a wrong one after the wait", withToken(b, "wrong-token"), http.StatusUnauthorized)
}

// The token is valid only for the API; the scheme may be in any case. A valid session does not help
// a request with a wrong token.
func TestToken(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	for i := range 50 { // right tokens are not limited
		scheme := []string{"Bearer ", "bearer ", "BEARER  "}[i%3]
		want(t, b.Get("/v1/admin/sends", "Authorization", scheme+consoletest.Token), http.StatusOK)
	}
	want(t, b.Get("/admin", "Authorization", "Bearer "+consoletest.Token), http.StatusSeeOther)
	in, off := r.LoggedIn(), newRig(t, func(c *Config) { c.Tokens = nil }).Browser()
	want(t, in.Get("/v1/admin/sends"), http.StatusOK)
	for _, header := range []string{
		"Bearer", "Bearer ", "Bearer x", consoletest.Token, "Basic " + consoletest.Token,
		"Bearer " + strings.ToUpper(consoletest.Token), " ",
	} {
		rec := want(t, b.Get("/v1/admin/sends", "Authorization", header), http.StatusUnauthorized)
		lacks(t, rec, consoletest.Token)
		if !strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Bearer") ||
			rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%q: %v", header, rec.Header())
		}
		want(t, off.Get("/v1/admin/sends", "Authorization", header), http.StatusUnauthorized)
	}
	want(t, in.Get("/v1/admin/sends", "Authorization", "Bearer x"), http.StatusUnauthorized)
}

func TestListedTokens(t *testing.T) {
	token := func(id string, role Role, expires time.Time) Token {
		return Token{ID: id, SHA256: sha256.Sum256([]byte("the-token-of-" + id)), Role: role, Expires: expires}
	}
	r := newRig(t, func(c *Config) {
		c.Tokens = append(c.Tokens, token("charts", Reader, consoletest.Start.Add(time.Hour)), token("desk", Operator, time.Time{}))
	})
	b := r.Browser()
	for id, is := range map[string][2]int{
		"charts": {http.StatusOK, http.StatusForbidden},
		"desk":   {http.StatusOK, http.StatusOK}, "none": {http.StatusUnauthorized, http.StatusUnauthorized},
	} {
		header := []string{"Authorization", "Bearer the-token-of-" + id}
		servertest.Same(t, id, [2]int{b.Get("/v1/admin/sends", header...).Code, b.Get("/v1/admin/sends.csv", header...).Code}, is)
	}
	acts := r.Entries(ActionExport)
	if len(acts) == 0 || acts[0].Who != "token:desk" {
		t.Errorf("%+v", acts)
	}
	for role, is := range map[Role]int{
		"": http.StatusForbidden, "root": http.StatusForbidden,
		Reader: http.StatusForbidden, Operator: http.StatusOK,
	} {
		own := newRig(t, func(c *Config) { c.Tokens[0].Role = role }).Browser()
		got := own.Get("/v1/admin/sends.csv", "Authorization", "Bearer "+consoletest.Token).Code
		servertest.Same(t, "the token of the environment, "+string(role), got, is)
	}
	r.Clock.Add(time.Hour)
	servertest.Same(t, "expired", withToken(b, "the-token-of-charts"), http.StatusUnauthorized)
	if !strings.Contains(r.Printed.String(), "expired admin token refused\" token=charts") {
		t.Errorf("%s", r.Printed)
	}
	servertest.Same(t, "the token of the environment", withToken(b, consoletest.Token), http.StatusOK)
}
