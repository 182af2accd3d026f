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

	"sendcode/internal/servertest"
)

func TestHeadersOfUntrustedPeersAreWarnedOfOnceAnHour(t *testing.T) {
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
	now = now.Add(remindAfter)
	from("203.0.113.9:1", "Forwarded")
	lines(2)
	if !strings.Contains(out.String(), "10.0.0.1") || strings.Contains(out.String(), "203.0.113.9") {
		t.Errorf("a proxy inside is named, a public address is not: %s", out)
	}
}
