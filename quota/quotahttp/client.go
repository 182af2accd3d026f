package quotahttp

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Peer returns the address of the connection, without its port. All connections without an address,
// as on a Unix socket, are counted together.
func Peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // from a Unix socket, or set by a middleware without a port
	}
	return host
}

// Forwarded names the client behind proxies that add to X-Forwarded-For: the last address there
// that is outside the proxies' networks. A peer outside them is the client itself, whatever header
// it sends. A peer without an address, as on a Unix socket, is a proxy.
func Forwarded(proxies ...netip.Prefix) Namer {
	return func(r *http.Request) string {
		hops := append(strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ","), Peer(r))
		client := ""
		for i, hop := range slices.Backward(hops) {
			ip, ok := ParseHop(hop)
			if !ok && i == len(hops)-1 {
				continue
			}
			if !ok {
				break // this entry is no address: the proxy that sent it is counted
			}
			client = ip.String()
			if !slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				break
			}
		}
		return client
	}
}

// ParseHop parses an address that may have a port or brackets: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:443. Proxies add such addresses to X-Forwarded-For.
// ParseHop returns false for any other text.
func ParseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone(""), true
	}
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed && strings.HasSuffix(inner, "]") {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}

// network returns the network of an address: its first v4 or v6 bits.
func network(address string, v4, v6 int) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	bits := v6
	if ip.Is4() {
		bits = v4
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
