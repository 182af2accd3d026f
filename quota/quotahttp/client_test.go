package quotahttp

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

func TestGuardCountsByClient(t *testing.T) {
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
		{quota.IP, "@", "", shared}, // "@" is no address
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

// A client can set X-Forwarded-For to any text, so only Forwarded reads the header, and only the
// part that the proxies added.
func TestForwardedIgnoresForgedAddresses(t *testing.T) {
	w := serve(t, Config{})
	w.spend("/stock", ann, 0)
	w.wants(http.StatusTooManyRequests, "/stock", ann, "X-Forwarded-For", "198.51.100.7")
	w.wants(http.StatusTooManyRequests, "/stock", ann, "X-Real-IP", "198.51.100.7")

	of := Forwarded(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"))
	for _, c := range []struct{ peer, forwarded, want string }{
		{"10.0.0.1:99", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:99", "1.1.1.1, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:99", "198.51.100.7,10.0.0.2", "198.51.100.7"},
		{"[fd00::1]:99", "2001:db8::1, ::ffff:10.0.0.2", "2001:db8::1"},
		{"@", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:99", "198.51.100.7:4711", "198.51.100.7"},
		{"10.0.0.1:99", "1.1.1.1:80, [2001:db8::1]:4711, [fd00::2]", "2001:db8::1"},
		{"10.0.0.1:99", "", "10.0.0.1"},
		{"10.0.0.1:99", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"10.0.0.1:99", "1.1.1.1, unknown, 10.0.0.2", "10.0.0.2"},
		{"192.0.2.1:4711", "198.51.100.7", "192.0.2.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		for hop := range strings.SplitSeq(c.forwarded, ",") {
			r.Header.Add("X-Forwarded-For", hop)
		}
		servertest.Same(t, c.peer+" of "+c.forwarded, of(r), c.want)
	}

	behind := serve(t, Config{Address: of})
	for range 100 {
		behind.wants(http.StatusOK, "/stock", "10.0.0.1:99", "X-Forwarded-For", "198.51.100.7")
	}
	behind.wants(http.StatusTooManyRequests, "/stock", "10.0.0.2:99", "X-Forwarded-For", "198.51.100.7")
	behind.wants(http.StatusOK, "/stock", "10.0.0.1:99", "X-Forwarded-For", "198.51.100.8")
}
