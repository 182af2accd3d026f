package echoquota

import (
	"net/netip"

	"github.com/labstack/echo/v4"
)

// ClientIP is the client's address, of IPv6 its /64: that is what one client has. It is what c.RealIP says if the server
// has an IPExtractor, else the peer's: without one, echo believes any X-Forwarded-For, and anybody could be anybody.
// Clients without an address, as on a Unix socket, share a place.
func ClientIP(c echo.Context) string { return prefix(c, 32, 64) }

// ClientNetwork is the client's wider network: of IPv4 its /24, of IPv6 its /48.
func ClientNetwork(c echo.Context) string { return prefix(c, 24, 48) }

func noOne(echo.Context) string { return "" }

var direct = echo.ExtractIPDirect()

func prefix(c echo.Context, v4, v6 int) string {
	text := direct(c.Request())
	if c.Echo().IPExtractor != nil {
		text = c.RealIP()
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	bits := v6
	if ip.Is4() {
		bits = v4
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}
