package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

func TestUntrustedForwardedHeaderWarning(t *testing.T) {
	out, now := &servertest.Text{}, time.Unix(1e9, 0)
	watch := warnOfForwarding([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, slog.New(slog.NewJSONHandler(out, nil)),
		func() time.Time { return now })
	from := func(peer, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		if header != "" {
			r.Header.Set(header, "198.51.100.1")
		}
		_ = watch(func(echo.Context) error { return nil })(echo.New().NewContext(r, httptest.NewRecorder()))
	}
	lines := func(want int) {
		t.Helper()
		servertest.Same(t, "warnings", strings.Count(out.String(), "SENDCODE_TRUSTED_PROXIES"), want)
	}
	from("192.0.2.1:1", "X-Forwarded-For")
	from("10.0.0.1:1", "")
	lines(0)
	from("10.0.0.1:1", "X-Forwarded-For")
	from("10.0.0.1:1", "Forwarded")
	lines(1)
	now = now.Add(forwardingWarnInterval)
	from("203.0.113.9:1", "Forwarded")
	lines(2)
	servertest.Same(t, "warnings of a trusted proxy", strings.Count(out.String(), "sends no X-Forwarded-For"), 0)
	from("192.0.2.1:1", "X-Real-IP")
	from("192.0.2.1:1", "Forwarded")
	from("192.0.2.1:1", "")
	servertest.Same(t, "warnings of a trusted proxy", strings.Count(out.String(), `"header":"X-Real-Ip"`), 1)
	now = now.Add(trustedWarnInterval)
	from("192.0.2.1:1", "X-Forwarded-Proto")
	from("192.0.2.1:1", "Forwarded")
	servertest.Same(t, "a minute later", strings.Count(out.String(), `"header":"X-Forwarded-Proto"`), 1)
	servertest.Same(t, "warnings of a trusted proxy", strings.Count(out.String(), "sends no X-Forwarded-For"), 2)
	if !strings.Contains(out.String(), "10.0.0.1") || strings.Contains(out.String(), "203.0.113.9") {
		t.Errorf("a proxy inside is named, a public address is not: %s", out)
	}
}

// Strangers may reach the service through a proxy on this machine. A request through a proxy is not
// local, whichever header the proxy adds.
func TestRequireDirectAndLocal(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		change        func(*http.Request)
		direct, local bool
	}{
		"straight":        {func(*http.Request) {}, true, true},
		"its name":        {func(r *http.Request) { r.Host = "localhost:8080" }, true, true},
		"IPv6":            {func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]", "[::1]:1" }, true, true},
		"another host":    {func(r *http.Request) { r.Host = "codes.example" }, true, false},
		"no host":         {func(r *http.Request) { r.Host = "" }, true, false},
		"another machine": {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, true, false},
		"a socket":        {func(r *http.Request) { r.RemoteAddr = "@" }, true, false},
		"Forwarded":       {header("forwarded", "for=192.0.2.1"), false, false},
		"Via":             {header("Via", "1.1 x"), false, false},
		"X-Real-IP":       {header("X-Real-IP", "127.0.0.1"), false, false},
		"the address":     {header("X-Forwarded-For", "127.0.0.1"), false, false},
		"only the scheme": {header("X-Forwarded-Proto", "http"), false, false},
		"an empty header": {header("x-forwarded-host", ""), false, false},
		"a CDN":           {header("CDN-Loop", "x"), false, false},
		"HTTP/1.0":        {func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0 }, false, false},
	} {
		for _, https := range []bool{false, true} {
			e := New(Config{
				Logger: slog.New(slog.DiscardHandler), AssumeHTTPS: https,
				TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			})
			scheme := func(c echo.Context) error { return c.String(http.StatusOK, c.Scheme()) }
			e.GET("/scheme", scheme)
			e.GET("/direct", scheme, RequireDirect)
			e.GET("/local", scheme, RequireLocal)
			ask := func(path string) *httptest.ResponseRecorder {
				return get(e, path, func(r *http.Request) {
					r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:5000"
					c.change(r)
				})
			}
			servertest.Same(t, name+", scheme", ask("/scheme").Body.String(),
				map[bool]string{true: "http", false: "https"}[c.local && !https])
			servertest.Same(t, name+", direct", ask("/direct").Code, map[bool]int{true: 200, false: 403}[c.direct])
			servertest.Same(t, name+", local", ask("/local").Code, map[bool]int{true: 200, false: 403}[c.local])
		}
	}
}
