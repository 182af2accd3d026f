package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/loopback"
	"sendcode/quota/quotahttp"
)

// clientIPExtractor returns an extractor of the client's address. The extractor looks at the peer,
// and then at the hops in X-Forwarded-For from the last to the first. The first of these addresses
// that is not a trusted proxy is the client's address. If all are trusted proxies, the result is
// the first hop in the header, or the peer's address if there is no header. If the extractor meets
// an invalid entry, the result is the peer's address. If the peer has no address, as on a Unix
// socket, the result is "".
func clientIPExtractor(proxies []netip.Prefix) echo.IPExtractor {
	return func(r *http.Request) string {
		peer, _ := quotahttp.ParseHop(r.RemoteAddr)
		client := peer
		hops := strings.Split(strings.Join(r.Header[echo.HeaderXForwardedFor], ","), ",")
		if len(r.Header[echo.HeaderXForwardedFor]) == 0 {
			hops = nil
		}
		for _, text := range slices.Backward(hops) {
			if !isTrustedProxy(proxies, client) {
				break
			}
			next, ok := quotahttp.ParseHop(text)
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

func isTrustedProxy(proxies []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// These are the shortest times between two warnings of warnOfForwarding. The first is for a peer
// that may be any client. The second is for a trusted proxy.
const forwardingWarnInterval, trustedWarnInterval = time.Hour, time.Minute

// warnOfForwarding is middleware that warns of a proxy whose clients all count as one address. One
// case is a peer that sends X-Forwarded-For or Forwarded, but is not a trusted proxy. The other
// case is a trusted proxy that sends forwarding headers but not X-Forwarded-For. The warning names
// the peer only if its address is private, loopback or link-local, because a public address may
// belong to a person.
func warnOfForwarding(proxies []netip.Prefix, logger *slog.Logger, now func() time.Time) echo.MiddlewareFunc {
	lines, trustedLines := logs.Throttle{Every: forwardingWarnInterval}, logs.Throttle{Every: trustedWarnInterval}
	warn := func(lines *logs.Throttle, peer netip.Addr, header, text string) {
		if _, due := lines.Add("", now()); !due {
			return
		}
		from := "a public address"
		if peer.IsPrivate() || peer.IsLoopback() || peer.IsLinkLocalUnicast() {
			from = peer.String()
		}
		logger.Warn(text, "peer", from, "header", header, logs.SeeAttack)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			header := ForwardingHeader(c.Request().Header)
			if header == "" {
				return next(c)
			}
			peer, ok := quotahttp.ParseHop(c.Request().RemoteAddr)
			trusted := isTrustedProxy(proxies, peer)
			switch {
			case !ok:
			case !trusted && slices.Contains(forwardedHeaders[:2], header):
				warn(&lines, peer, header,
					"X-Forwarded-For or Forwarded ignored: the peer is not in trusted_proxies; if it is your proxy, name it in "+
						"SENDCODE_TRUSTED_PROXIES, or all clients count as one address")
			case trusted && header != echo.HeaderXForwardedFor:
				warn(&trustedLines, peer, header,
					"a trusted proxy sends no X-Forwarded-For, so all its clients count as one address: have it send that header")
			}
			return next(c)
		}
	}
}

// ClientIP returns the client's address for the rules on addresses. The result is the address in
// the header of a trusted proxy, or else the address of the peer. If there is no address, as on a
// Unix socket, the result is the zero Addr.
func ClientIP(c echo.Context) netip.Addr {
	ip, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

// forwardedHeaders are headers that proxies and content delivery networks add to requests. The
// prefix forwardedPrefix covers further headers. Of a peer that is not a trusted proxy,
// warnOfForwarding considers only the first two headers.
var forwardedHeaders = []string{
	echo.HeaderXForwardedFor, "Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"Fastly-Client-Ip", "X-Envoy-External-Address", "Via", "Cdn-Loop", "X-Amzn-Trace-Id",
}

const forwardedPrefix = "X-Forwarded-"

// ForwardingHeader returns the name of a header that shows that a proxy passed the request on. It
// prefers X-Forwarded-For. If the request has no such header, ForwardingHeader returns "".
func ForwardingHeader(h http.Header) string {
	for _, name := range forwardedHeaders {
		if _, ok := h[name]; ok {
			return name
		}
	}
	for name := range h {
		if strings.HasPrefix(name, forwardedPrefix) {
			return name
		}
	}
	return ""
}

// isForwarded reports whether a request came through a proxy. It returns true if the request has a
// forwarding header or uses HTTP/1.0. Old versions of nginx use HTTP/1.0 for the servers behind
// them. isForwarded does not recognize a proxy that uses HTTP/1.1 and adds no header.
func isForwarded(r *http.Request) bool {
	return ForwardingHeader(r.Header) != "" || !r.ProtoAtLeast(1, 1)
}

// IsLocal reports whether a request came directly from a program on this machine. The peer must be
// loopback, and isForwarded must not recognize a proxy. The Host must be loopback, too.
// Otherwise a foreign web site could make its own name resolve to this machine, and its page in a
// browser here could send requests that count as local.
//
// The result is a guess. A proxy on this machine that adds no header may pass on a client's
// loopback Host, so IsLocal must never be the only protection.
func IsLocal(r *http.Request) bool {
	peer, ok := quotahttp.ParseHop(r.RemoteAddr)
	return ok && peer.IsLoopback() && loopback.IsHost((&url.URL{Host: r.Host}).Hostname()) && !isForwarded(r)
}

// RequireLocal is middleware that answers 403 to requests that do not come directly from a program
// on this machine.
func RequireLocal(next echo.HandlerFunc) echo.HandlerFunc { return refuseUnless(IsLocal, next) }

// RequireDirect is middleware that answers 403 to requests that a proxy passed on.
func RequireDirect(next echo.HandlerFunc) echo.HandlerFunc {
	return refuseUnless(func(r *http.Request) bool { return !isForwarded(r) }, next)
}

func refuseUnless(admits func(*http.Request) bool, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !admits(c.Request()) {
			return &Problem{
				Kind: Forbidden,
				Detail: "What is here is for programs on this machine: it is closed to requests that came through a " +
					"proxy, or for another host than this machine.",
			}
		}
		return next(c)
	}
}
