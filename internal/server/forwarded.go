package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// clientIPExtractor returns an extractor of the client's address: the last hop in X-Forwarded-For that is not a trusted proxy. If the
// header has an invalid entry before that, the result is the peer's address; "" for a peer without one, as on a Unix socket.
func clientIPExtractor(proxies []netip.Prefix) echo.IPExtractor {
	return func(r *http.Request) string {
		peer, _ := parseHop(r.RemoteAddr)
		client := peer
		hops := strings.Split(strings.Join(r.Header[echo.HeaderXForwardedFor], ","), ",")
		if len(r.Header[echo.HeaderXForwardedFor]) == 0 {
			hops = nil
		}
		for _, text := range slices.Backward(hops) {
			if !isTrusted(proxies, client) {
				break
			}
			next, ok := parseHop(text)
			if !ok {
				client = peer
				break
			}
			client = next
		}
		if !client.IsValid() {
			return ""
		}
		return client.String()
	}
}

// parseHop parses an address that may have a port or brackets: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1], [2001:db8::1]:443. It
// returns false for any other text.
func parseHop(text string) (netip.Addr, bool) {
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

func isTrusted(proxies []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// remindAfter is the shortest time between two warnings on forwarding headers from untrusted peers.
const remindAfter = time.Hour

// warnOfForwarding is middleware that warns if a peer that is not among the proxies sends forwarding headers: it may be a proxy whose
// address then stands for all its clients. The warning names the peer only if its address is private, since a public one may be a person's.
func warnOfForwarding(proxies []netip.Prefix, logger *slog.Logger, now func() time.Time) echo.MiddlewareFunc {
	lines := LogThrottle{Every: remindAfter}
	warn := func(c echo.Context) {
		peer, ok := parseHop(c.Request().RemoteAddr)
		if !ok || isTrusted(proxies, peer) {
			return
		}
		if _, due := lines.Add("", now()); !due {
			return
		}
		from := "a public address"
		if peer.IsPrivate() || peer.IsLoopback() || peer.IsLinkLocalUnicast() {
			from = peer.String()
		}
		logger.Warn("a peer that is not in trusted_proxies sends X-Forwarded-For or Forwarded, which are ignored: if it is your proxy, "+
			"name it in SENDCODE_TRUSTED_PROXIES, or all clients count as one address", "peer", from)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if h := c.Request().Header; h.Get(echo.HeaderXForwardedFor) != "" || h.Get("Forwarded") != "" {
				warn(c)
			}
			return next(c)
		}
	}
}

// ClientIP returns the client's address for the rules on addresses: the peer's, or the one that a trusted proxy tells. It is the zero Addr
// if there is none, as on a Unix socket.
func ClientIP(c echo.Context) netip.Addr {
	ip, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

func toIPNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
