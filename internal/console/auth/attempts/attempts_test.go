package attempts

import (
	"net/netip"
	"testing"
)

func TestNetwork(t *testing.T) {
	for address, is := range map[string]string{"192.0.2.7": "192.0.2.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64"} {
		if got := Network(netip.MustParseAddr(address)); got != is {
			t.Errorf("%s: %s", address, got)
		}
	}
	if got := Network(netip.Addr{}); got != "none" {
		t.Errorf("no address: %s", got)
	}
}
