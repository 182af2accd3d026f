package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification"
)

func testServer(t *testing.T, trusted ...string) (*echo.Echo, *bytes.Buffer) {
	t.Helper()
	var proxies []netip.Prefix
	for _, p := range trusted {
		proxies = append(proxies, netip.MustParsePrefix(p))
	}
	var out bytes.Buffer
	return New(Config{Logger: slog.New(slog.NewJSONHandler(&out, nil)), TrustedProxies: proxies}), &out
}

func get(e *echo.Echo, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func TestErrorsBecomeProblems(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		slug   string
		more   string // part of the answer
		after  string // Retry-After
	}{
		{fmt.Errorf("outer: %w", fault.Invalid("to", "", "")), 422, "invalid-field", `"field":"to"`, ""},
		{fmt.Errorf("outer: %w", fault.Unavailable), 503, "unavailable", `"may_have_counted":false`, "2"},
		{fmt.Errorf("outer: %w", fault.Uncertain), 503, "unavailable", `"may_have_counted":true`, "2"},
		{
			&verification.HoldUntilError{Until: time.Unix(1e9, 0), RetryAfter: 1500 * time.Millisecond}, 503, "unavailable",
			"before 2001-09-09T01:46:40Z", "2",
		},
		{&verification.FailedCheckLimitError{RetryAfter: 59*time.Second + time.Microsecond}, 429, "too-many-checks", `"retry_after":60`, "60"},
		{&verification.FailedCheckLimitError{RetryAfter: time.Microsecond, Send: true}, 429, "too-many-checks", "can be sent in 1 s.", "1"},
		{verification.ErrKeyInProgress, 409, "conflict", "", "1"},
		{echo.ErrMethodNotAllowed, 405, "method-not-allowed", "", ""},
		{echo.ErrStatusRequestEntityTooLarge, 413, "too-large", "", ""},
		{errors.New("a secret detail"), 500, "internal", "", ""},
		{echo.NewHTTPError(500, "a secret detail"), 500, "internal", "", ""},
	} {
		e, _ := testServer(t)
		e.GET("/v1/x", func(echo.Context) error { return c.err })
		w := get(e, "/v1/x")
		var p struct {
			Type, Title, Detail string
			Status              int
		}
		servertest.OK(t, json.Unmarshal(w.Body.Bytes(), &p))
		if w.Code != c.status || p.Status != c.status || p.Type != "/problems/"+c.slug || p.Title == "" ||
			p.Detail == "" || !strings.Contains(w.Body.String(), c.more) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/problem+json" || h.Get("Retry-After") != c.after {
			t.Errorf("%v: headers %v", c.err, h)
		}
	}
}

func TestProblemKindsAreExplained(t *testing.T) {
	e, _ := testServer(t)
	for _, k := range ProblemKinds() {
		w := get(e, "/problems/"+k.Slug)
		for _, part := range []string{k.Title, k.Cause, k.Remedy, k.Say, k.Slug, strconv.Itoa(k.Status)} {
			if w.Code != 200 || part == "" || !strings.Contains(w.Body.String(), string(BackticksToHTML(part))) ||
				strings.Contains(w.Body.String(), "`") {
				t.Errorf("%s: %d without %q: %s", k.Slug, w.Code, part, w.Body)
			}
		}
		for _, other := range ProblemKinds() { // the list beside the page marks the kind of this page
			link := `<a href="/problems/` + other.Slug + `"`
			if other.Slug == k.Slug {
				link += ` aria-current="page"`
			}
			servertest.Same(t, link, strings.Count(w.Body.String(), link+">"), 1)
		}
	}
	servertest.Same(t, "an unknown kind", get(e, "/problems/none").Code, 404)
}

// The type of a problem begins with the service's public address, even if the request's Host is
// another one.
func TestTypesOfProblems(t *testing.T) {
	for public, want := range map[string]string{"https://codes.example/x": "https://codes.example/x/problems/not-found", "": "/problems/not-found"} {
		w := get(New(Config{Logger: slog.New(slog.DiscardHandler), PublicURL: public}), "/v1/x", func(r *http.Request) { r.Host = "evil.example" })
		var p struct{ Type string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Type != want {
			t.Errorf("%q: %s, %v", public, w.Body, err)
		}
	}
}

func TestProblemForAPersonIsAPage(t *testing.T) {
	e, _ := testServer(t)
	w := get(e, "/nowhere", func(r *http.Request) { r.Header.Set("Accept", "text/html,*/*") })
	if w.Code != 404 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Content-Type"))
	}
	w = get(e, "/v1/nowhere", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
	servertest.Same(t, "the API answers", w.Header().Get("Content-Type"), "application/problem+json")
}

func TestClientIP(t *testing.T) {
	const proxies = "192.0.2.0/24"
	for _, c := range []struct{ name, trusted, peer, forwarded, ip string }{
		{"loopback is no proxy", "", "127.0.0.1:1234", "198.51.100.1", "127.0.0.1"},
		{"a private neighbour", proxies, "10.0.0.1:1", "198.51.100.1", "10.0.0.1"},
		{"a forged first hop", proxies, "192.0.2.4:1234", "10.0.0.1, 198.51.100.1", "198.51.100.1"},
		{"private hops are not trusted", proxies, "192.0.2.4:1234", "198.51.100.1, 10.0.0.1", "10.0.0.1"},
		{"two proxies", proxies, "192.0.2.4:1234", "198.51.100.1, 192.0.2.5", "198.51.100.1"},
		{"brackets and a port", proxies, "192.0.2.4:1234", "1.1.1.1, [2001:db8::1]:443", "2001:db8::1"},
		{"brackets", proxies, "192.0.2.4:1234", "[2001:db8::1]", "2001:db8::1"},
		{"a mapped address", proxies, "192.0.2.4:1234", "::ffff:198.51.100.1", "198.51.100.1"},
		{"a proxy with a port", proxies, "192.0.2.4:1234", "198.51.100.1:80, 192.0.2.5:81", "198.51.100.1"},
		{"no address", proxies, "192.0.2.4:1234", "198.51.100.1, unknown", "192.0.2.4"},
		{"v6 proxy", "2001:db8::/64", "[2001:db8::1]:1234", "2001:db8:9::1", "2001:db8:9::1"},
		{"mapped", "", "[::ffff:203.0.113.9]:1234", "", "203.0.113.9"},
	} {
		e, _ := testServer(t, strings.Fields(c.trusted)...)
		e.GET("/x", func(ctx echo.Context) error {
			return ctx.String(http.StatusOK, ClientIP(ctx).String())
		})
		w := get(e, "/x", func(r *http.Request) {
			r.RemoteAddr = c.peer
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			r.Header.Set("X-Real-Ip", "9.9.9.9")
		})
		servertest.Same(t, c.name, w.Body.String(), c.ip)
	}
}
