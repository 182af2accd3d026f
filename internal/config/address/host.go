package address

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"

	"sendcode/internal/delivery"
)

// HostName is a name of a host.
var HostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,252})$`)

// CheckAddr returns what is wrong with a host:port, or "". An empty host means every interface; port 0 means any free port.
func CheckAddr(value string) string {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return "must be host:port, as in 127.0.0.1:8080"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(number, 10) {
		return "the port must be a number from 0 to 65535"
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !HostName.MatchString(host) {
		return "the host must be an IP address or a host name"
	}
	return ""
}

// Loopback reports whether only this machine reaches a host:port.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && delivery.Loopback(host)
}
