package buckets_test

import (
	"net/netip"
	"testing"

	"sendcode/internal/limit/buckets"
)

// A subscriber of IPv6 usually has at least a /64. A /48 contains 65,536 of them.
func TestClientsAndNetworks(t *testing.T) {
	for _, c := range []struct{ ip, client, network string }{
		{"2001:db8:1:ffff::1", "2001:db8:1:ffff::/64", "2001:db8:1::/48"},
		{"2001:db8:2:0:ffff::9", "2001:db8:2::/64", "2001:db8:2::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"},
		{"192.0.2.255", "192.0.2.255/32", "192.0.2.0/24"},
		{"::ffff:192.0.2.1", "192.0.2.1/32", "192.0.2.0/24"},
	} {
		ip := netip.MustParseAddr(c.ip)
		if client, network := buckets.ClientPrefix(ip), buckets.WideNetworkPrefix(ip); client != c.client || network != c.network {
			t.Errorf("%s is of the client %s in %s, want %s in %s", c.ip, client, network, c.client, c.network)
		}
	}
}
