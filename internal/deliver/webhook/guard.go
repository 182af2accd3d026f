package webhook

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"
)

// Guard decides which addresses may be dialled. The zero Guard allows only public addresses, and
// only over TLS.
//
// The owner of a DNS zone can answer each query with another address. The guard therefore checks
// each address when it is dialled, not when the name is configured.
type Guard struct {
	AlsoAllow  []netip.Prefix // networks that may be dialled although they are not public, also without TLS
	AllowPlain bool           // allows public addresses without TLS; the caller must verify answers in another way
}

// errAddressForbidden means that no event may go to the address. The text does not contain the
// address, because answers with this error must not reveal a network.
var errAddressForbidden = errors.New("webhook: the address is not allowed")

// nonPublicNetworks lists the networks that are not public: those of RFC 6890 and of the two
// registries that it created (https://www.iana.org/assignments/iana-ipv4-special-registry and
// iana-ipv6-special-registry), and multicast. It has no IPv6 networks outside of routedIPv6.
var nonPublicNetworks = mustParsePrefixes(
	"0.0.0.0/8",       // this host
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // carriers' NAT
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, and the metadata of most clouds
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // IETF protocol assignments; Oracle's metadata
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast
	"2001::/23",       // IETF protocol assignments; Teredo, which leads to an IPv4 address
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4, which leads to an IPv4 address
	"3fff::/20",       // documentation
)

// routedIPv6 has all publicly routed IPv6 addresses. Loopback, mapped, private, link-local and
// multicast addresses are outside of it.
var routedIPv6 = netip.MustParsePrefix("2000::/3")

// nat64Prefix has IPv6 addresses whose last four bytes are an IPv4 address (RFC 6052). Machines
// with only IPv6 reach IPv4 addresses through them.
var nat64Prefix = netip.MustParsePrefix("64:ff9b::/96")

// metadataAddresses are the addresses of the metadata services of clouds. Such a service gives a
// machine's secrets to any caller. No setting allows these addresses.
var metadataAddresses = mustParsePrefixes(
	"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", // most clouds; AWS's containers
	"fd00:ec2::254/128", "fd00:ec2::23/128", // AWS
	"100.100.100.200/32", // Alibaba
	"168.63.129.16/32",   // Azure
	"192.0.0.192/32",     // Oracle
	"fd20:ce::254/128",   // Google
)

func mustParsePrefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func anyContains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// unmapIPv4 returns the address without its zone. If the address is an IPv6 address that stands for
// an IPv4 address (mapped or NAT64), it returns that IPv4 address.
func unmapIPv4(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64Prefix.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// allows reports whether a may be dialled; plain means without TLS.
func (g Guard) allows(a netip.Addr, plain bool) bool {
	a = unmapIPv4(a)
	switch {
	case anyContains(metadataAddresses, a):
		return false
	case anyContains(g.AlsoAllow, a):
		return true
	}
	// At a public address, an event reaches nothing that others on the internet could not reach.
	public := a.IsValid() && (a.Is4() || routedIPv6.Contains(a)) && !anyContains(nonPublicNetworks, a)
	return public && (!plain || g.AllowPlain)
}

// checkDial returns a function for net.Dialer.ControlContext. The dialer calls the function for
// each resolved address before it connects. If plain is true, the connection does not use TLS.
func (g Guard) checkDial(plain bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" || !g.allows(to.Addr(), plain) {
			return errAddressForbidden
		}
		return nil
	}
}
