// Package loopback decides which host names and addresses mean this machine, and to which URLs
// secrets may be sent.
package loopback

import (
	"net/netip"
	"net/url"
	"strings"
)

// IsHost reports whether a host, without a port, is a loopback address, localhost or a name below
// it (RFC 6761 section 6.3). Names aren't resolved.
func IsHost(host string) bool {
	host = strings.ToLower(host)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// URLProblem says why codes or secrets must not be sent to a URL, or returns "" for an https URL
// and for an http URL of this machine. Other http URLs would send them unencrypted over a network.
func URLProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"): // package url parses a bare host as a path or a scheme
		return "must begin with https:// (http:// is for loopback addresses only)"
	case err != nil || u.Host == "" || u.Opaque != "":
		return "is not a URL with a host, such as https://codes.example.com"
	case u.User != nil:
		return "holds a user name or a password; they have settings of their own"
	case u.Scheme == "https", u.Scheme == "http" && IsHost(u.Hostname()):
		return ""
	}
	return "must begin with https:// (http:// is for loopback addresses only)"
}
