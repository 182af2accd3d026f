// Package loopback tells which host names and addresses are this machine.
package loopback

import (
	"net/netip"
	"strings"
)

// IsHost reports whether a host, without a port, is a loopback address, localhost or a name below
// it (RFC 6761 section 6.3). It resolves no names.
func IsHost(host string) bool {
	host = strings.ToLower(host)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}
