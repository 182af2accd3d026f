package echoquota

import (
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
)

func TestWhoIsOneClient(t *testing.T) {
	const shared, apart = http.StatusTooManyRequests, http.StatusOK
	for _, c := range []struct {
		scope  quota.Scope
		a, b   string
		status int
	}{
		{quota.IP, "192.0.2.1:1", "192.0.2.1:2", shared},
		{quota.IP, "192.0.2.1:1", "192.0.2.2:1", apart},
		{quota.IP, "[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", shared},
		{quota.IP, "[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", apart},
		{quota.IP, "[::ffff:192.0.2.1]:1", "192.0.2.1:1", shared},
		{quota.IP, "[fe80::1%eth0]:1", "[fe80::1%eth1]:1", shared},
		{quota.IP, "@", "", shared}, // no address
		{quota.Network, "192.0.2.1:1", "192.0.2.255:1", shared},
		{quota.Network, "192.0.2.1:1", "192.0.3.1:1", apart},
		{quota.Network, "[2001:db8:1:2::1]:1", "[2001:db8:1:ffff::1]:1", shared},
		{quota.Network, "[2001:db8:1::1]:1", "[2001:db8:2::1]:1", apart},
	} {
		rule := quota.Rule{Name: "one", Scope: c.scope, Limit: 1, Window: time.Minute}
		w := serve(t, Config{Policy: quota.Policy{Name: "one", Rules: []quota.Rule{rule}}})
		w.wants(http.StatusOK, "/stock", c.a)
		w.wants(c.status, "/stock", c.b)
	}
}

// A client can set X-Forwarded-For to anything; it is used only if the server has an IPExtractor.
func TestForgedAddresses(t *testing.T) {
	w := serve(t, Config{})
	w.spend("/stock", ann, 0)
	w.wants(http.StatusTooManyRequests, "/stock", ann, echo.HeaderXForwardedFor, "198.51.100.7")
	w.wants(http.StatusTooManyRequests, "/stock", ann, echo.HeaderXRealIP, "198.51.100.7")

	behind := serve(t, Config{})
	behind.IPExtractor = echo.ExtractIPFromXFFHeader(echo.TrustPrivateNet(true))
	const proxy = "10.0.0.1:99"
	for range 100 {
		behind.wants(http.StatusOK, "/stock", proxy, echo.HeaderXForwardedFor, "198.51.100.7")
	}
	behind.wants(http.StatusTooManyRequests, "/stock", proxy, echo.HeaderXForwardedFor, "1.1.1.1, 198.51.100.7")
	behind.wants(http.StatusOK, "/stock", proxy, echo.HeaderXForwardedFor, "198.51.100.8")
}
