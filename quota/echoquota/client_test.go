package echoquota

import (
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
)

func TestWhoIsOneClient(t *testing.T) {
	const shared, apart = false, true
	for _, c := range []struct {
		name, a, b string
		apart      bool
	}{
		{"a port", "192.0.2.1:1", "192.0.2.1:2", shared},
		{"an address", "192.0.2.1:1", "192.0.2.2:1", apart},
		{"a /64", "[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", shared},
		{"another /64", "[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", apart},
		{"IPv4 as IPv6", "[::ffff:192.0.2.1]:1", "192.0.2.1:1", shared},
		{"a zone", "[fe80::1%eth0]:1", "[fe80::1%eth1]:1", shared},
		{"no address", "@", "", shared},
	} {
		w := serve(t, Config{})
		w.spend("/stock", c.a, 0)
		w.wants(http.StatusTooManyRequests, "/stock", c.a)
		if got := w.get("/stock", c.b).Code == http.StatusOK; got != c.apart {
			t.Errorf("%s: apart %v", c.name, got)
		}
	}
}

// A client may write what it likes into X-Forwarded-For; it counts only where the server has said whose word does.
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

func TestNetworks(t *testing.T) {
	wide := quota.Policy{Name: "wide", Rules: []quota.Rule{{Name: "visits", Scope: quota.Network, Limit: 100, Window: time.Minute}}}
	for _, c := range []struct {
		a, b   string
		status int
	}{
		{"192.0.2.1:1", "192.0.2.255:1", 429}, {"192.0.2.1:1", "192.0.3.1:1", 200},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:ffff::1]:1", 429}, {"[2001:db8:1::1]:1", "[2001:db8:2::1]:1", 200},
	} {
		w := serve(t, Config{Policy: wide})
		w.spend("/stock", c.a, 0)
		w.wants(c.status, "/stock", c.b)
	}
}
