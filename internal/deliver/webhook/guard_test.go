package webhook

import (
	"net/netip"
	"testing"

	"sendcode/internal/kit/servertest"
)

// The table has public addresses, and the kinds of addresses that are not on the public internet,
// many of them in several forms.
func TestGuard(t *testing.T) {
	none, some := Guard{}, Guard{AlsoAllow: mustParsePrefixes("10.1.0.0/16", "127.0.0.0/8", "fd00::/8", "168.63.129.0/24",
		"169.254.0.0/16")}
	for _, c := range []struct {
		kind                string
		addresses           []string
		byDefault, whenSome bool
	}{
		{"public", []string{
			"93.184.215.14", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::1", "100.63.255.255",
			"100.128.0.0", "172.15.0.1", "172.32.0.1",
		}, true, true},
		{"public behind NAT64", []string{"64:ff9b::5db8:d70e"}, true, true},
		{"public, mapped", []string{"::ffff:93.184.215.14"}, true, true},
		{"this host", []string{"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"}, false, false},
		{"loopback", []string{"127.0.0.1", "127.8.9.10", "::ffff:127.0.0.1", "64:ff9b::7f00:1"}, false, true},
		{"loopback, IPv6 and compatible", []string{"::1", "::127.0.0.1"}, false, false},
		{"private", []string{
			"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "::ffff:192.168.0.1",
			"64:ff9b::a00:1", "::ffff:a00:1",
		}, false, false},
		{"private, allowed", []string{"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"}, false, true},
		{"unique local", []string{"fd12:3456::1"}, false, true},
		{"unique local, not allowed", []string{"fc00::1"}, false, false},
		{"link-local", []string{"fe80::1", "fe80::1%eth0", "febf::1"}, false, false},
		{"link-local, allowed", []string{"169.254.1.1"}, false, true},
		{"site-local", []string{"fec0::1"}, false, false},
		{"carriers' NAT", []string{"100.64.0.1", "100.127.255.255"}, false, false},
		{"multicast", []string{"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"}, false, false},
		{"broadcast and reserved", []string{"255.255.255.255", "240.0.0.1"}, false, false},
		{"documentation and benchmarks", []string{
			"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255", "2001:db8::1",
			"3fff::1",
		}, false, false},
		{"protocols", []string{"192.0.0.1", "192.88.99.1", "2001::1", "2001:1ff::1"}, false, false},
		{"tunnels to IPv4", []string{"2002:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"}, false, false},
		{"local NAT64", []string{"64:ff9b:1::7f00:1"}, false, false},
		{"discard and unassigned", []string{"100::1", "4000::1", "e000::1"}, false, false},
		{"metadata, whatever is allowed", []string{
			"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "169.254.170.2", "fd00:ec2::254",
			"100.100.100.200",
			"168.63.129.16", "192.0.0.192", "fd20:ce::254", "fd00:ec2::254%eth0",
		}, false, false},
	} {
		for _, text := range c.addresses {
			a := netip.MustParseAddr(text)
			servertest.Same(t, c.kind+": "+text+" by default", none.allows(a, false), c.byDefault)
			servertest.Same(t, c.kind+": "+text+" where networks are allowed", some.allows(a, false), c.whenSome)
			servertest.Same(t, c.kind+": "+text+" in the clear, which is allowed", Guard{AllowPlain: true}.allows(a, true), c.byDefault)
			// Without TLS, only the networks in AlsoAllow may be called.
			if none.allows(a, true) || some.allows(a, true) != (c.whenSome && !c.byDefault) {
				t.Errorf("%s: %s in the clear", c.kind, text)
			}
		}
	}
	if none.allows(netip.Addr{}, false) {
		t.Error("no address at all")
	}
}

func TestGuardCheckDialRefusesTheUnknown(t *testing.T) {
	control := Guard{}.checkDial(false)
	for _, c := range []struct {
		network, address string
		ok               bool
	}{
		{"tcp4", "93.184.215.14:443", true},
		{"tcp6", "[2606:4700::1111]:443", true},
		{"tcp4", "127.0.0.1:443", false},
		{"tcp6", "[::1]:443", false},
		{"tcp6", "[fe80::1%eth0]:443", false},
		{"unix", "/run/docker.sock", false},
		{"udp4", "93.184.215.14:443", false},
		{"tcp4", "hook.example:443", false},
		{"tcp4", "", false},
	} {
		if err := control(t.Context(), c.network, c.address, nil); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.network, c.address, err)
		}
	}
}
