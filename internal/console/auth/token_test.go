package auth

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
)

func (b *browser) withToken(token string) int {
	b.Helper()
	return b.Get("/v1/admin/sends", "Authorization", "Bearer "+token).Code
}

// Of 300 wrong tokens from one address ten are looked at; the log has one line for them, and none of them is in any output.
func TestWrongTokensAreThrottled(t *testing.T) {
	r := newRig(t)
	b := r.browser()
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
	rec := b.Get("/v1/admin/sends", "Authorization", "Bearer "+consoletest.Token)
	want(t, rec, http.StatusTooManyRequests) // a guess that is right gains nothing either
	if rec.Header().Get("Retry-After") != "900" {
		t.Errorf("Retry-After %q", rec.Header().Get("Retry-After"))
	}
	if n := strings.Count(r.Logged.String(), "wrong admin tokens were refused"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	r.Clock.Add(time.Minute)
	b.withToken("wrong-token-of-length-300")
	if !strings.Contains(r.Logged.String(), `msg="wrong admin tokens were refused" count=301`) {
		t.Errorf("no count: %s", r.Logged)
	}
	r.Unlogged("wrong-token", consoletest.Token)
	other := r.browser()
	other.From = "192.0.3.1:1"
	if got := other.withToken(consoletest.Token); got != http.StatusOK {
		t.Errorf("from another network: %d", got)
	}
	want(t, r.loggedIn().Get("/v1/admin/sends"), http.StatusOK) // sessions and logins are counted apart
	r.Clock.Add(14 * time.Minute)
	if got := b.withToken(consoletest.Token); got != http.StatusOK {
		t.Errorf("after the wait: %d", got)
	}
}

func TestRightTokensAreNotLimited(t *testing.T) {
	b := newRig(t).browser()
	for range 50 {
		if got := b.withToken(consoletest.Token); got != http.StatusOK {
			t.Fatal(got)
		}
	}
}

func TestListedTokens(t *testing.T) {
	token := func(id string, role Role, expires time.Time) Token {
		return Token{ID: id, SHA256: sha256.Sum256([]byte("the-token-of-" + id)), Role: role, Expires: expires}
	}
	r := newRig(t, func(c *Config) {
		c.Tokens = append(c.Tokens, token("charts", Reader, consoletest.Start.Add(time.Hour)), token("desk", Operator, time.Time{}))
	})
	b := r.browser()
	for id, is := range map[string][2]int{"charts": {http.StatusOK, http.StatusForbidden}, "desk": {http.StatusOK, http.StatusOK}, "none": {http.StatusUnauthorized, http.StatusUnauthorized}} {
		header := []string{"Authorization", "Bearer the-token-of-" + id}
		if got := [2]int{b.Get("/v1/admin/sends", header...).Code, b.Get("/v1/admin/sends.csv", header...).Code}; got != is {
			t.Errorf("%s: %v, want %v", id, got, is)
		}
	}
	acts := r.Entries(ActionExport)
	if len(acts) == 0 || acts[0].Who != "token:desk" {
		t.Errorf("%+v", acts)
	}
	for role, is := range map[Role]int{"": http.StatusForbidden, "root": http.StatusForbidden, Reader: http.StatusForbidden, Operator: http.StatusOK} {
		own := newRig(t, func(c *Config) { c.Tokens[0].Role = role }).browser()
		if got := own.Get("/v1/admin/sends.csv", "Authorization", "Bearer "+consoletest.Token).Code; got != is {
			t.Errorf("the token of the environment, %q: %d", role, got)
		}
	}
	r.Clock.Add(time.Hour)
	if got := b.withToken("the-token-of-charts"); got != http.StatusUnauthorized {
		t.Errorf("expired: %d", got)
	}
	if !strings.Contains(r.Logged.String(), "an admin token that has expired was refused\" token=charts") {
		t.Errorf("%s", r.Logged)
	}
	if got := b.withToken(consoletest.Token); got != http.StatusOK {
		t.Errorf("the token of the environment: %d", got)
	}
}
