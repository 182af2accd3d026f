package server

import (
	"net"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// ClientIP returns the client's address for the rules on addresses: the peer's, or the one that a trusted proxy tells. It is the zero Addr
// if there is none, as on a Unix socket.
func ClientIP(c echo.Context) netip.Addr {
	ip, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
