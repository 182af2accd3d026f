package echoquota

import (
	"net/netip"

	"github.com/labstack/echo/v4"
)

// ClientIP returns the client's IPv4 address, or the /64 of its IPv6 address, since one client
// usually has a whole /64. It uses c.RealIP if the server has an IPExtractor, else the peer's
// address: without an extractor, echo trusts any X-Forwarded-For. Clients without an address, as on
// a Unix socket, get "" and are counted together.
func ClientIP(c echo.Context) string { return clientPrefix(c, 32, 64) }

// ClientNetwork returns the client's wider network: the /24 of an IPv4 address, the /48 of an IPv6
// address.
func ClientNetwork(c echo.Context) string { return clientPrefix(c, 24, 48) }

func oneNameForAll(echo.Context) string { return "" }

var directIP = echo.ExtractIPDirect()

func clientPrefix(c echo.Context, v4, v6 int) string {
	text := directIP(c.Request())
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
