// Package address says what addresses and URLs of settings may be, and shows them without their secrets. It looks at the form only:
// internal/app connects.
package address

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"sendcode/internal/config/document"
	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/quota"
)

// Stars stand for a password. A URL that still has them was copied from the output of `sendcode config`.
const (
	Stars  = "***"
	Masked = "still has *** where `sendcode config` has masked a password"
)

// Unreadable is the message for a URL that does not parse; url.Error would quote the URL.
const Unreadable = "is not a URL that can be read (write special characters of user and password as %XX)"

// Parts are those of "scheme://user:password@hosts/path?query". net/url knows no lists of hosts.
type Parts struct {
	Scheme, Userinfo, Hosts, path, Query string
}

// cutURL splits a URL into its parts. False if it has a second @, or one outside the authority: then a password with / ? or # would
// be taken for another part and shown in messages about that part.
func cutURL(text string) (Parts, bool) {
	var p Parts
	scheme, rest, found := strings.Cut(text, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := rest[:end], rest[end:]
	if !found || strings.Contains(tail, "@") || strings.Count(authority, "@") > 1 || strings.Contains(tail, "#") {
		return p, false
	}
	p.Scheme = scheme
	if p.Userinfo, p.Hosts, found = strings.Cut(authority, "@"); !found {
		p.Userinfo, p.Hosts = "", authority
	}
	p.path, p.Query, _ = strings.Cut(tail, "?")
	return p, true
}

// CheckURL does the checks that all URLs share. It returns the URL's parts, or what is wrong with it.
func CheckURL(text string) (p Parts, problem string) {
	p, ok := cutURL(text)
	if !ok {
		return p, Unreadable
	}
	_, password, _ := strings.Cut(p.Userinfo, ":")
	if query, err := url.ParseQuery(p.Query); err != nil {
		return p, Unreadable
	} else if password == Stars || strings.Contains(query.Encode(), "="+url.QueryEscape(Stars)) {
		return p, Masked
	}
	if decoded, err := url.PathUnescape(p.Userinfo); err != nil || strings.ContainsRune(decoded, 0) { // Postgres knows no NUL
		return p, Unreadable
	}
	return p, ""
}

// CheckDatabase returns what is wrong with the URL of a Postgres database, or "".
func CheckDatabase(value string) string {
	p, problem := CheckURL(value)
	query, _ := url.ParseQuery(p.Query)
	switch {
	case problem != "":
		return problem
	case p.Scheme != "postgres" && p.Scheme != "postgresql":
		return "must begin with postgres://"
	case p.Hosts == "" && query.Get("host") == "":
		return "has no host: postgres://user:password@host:5432/database"
	case !validHosts(p.Hosts):
		return "the host or the port is not valid; the form is postgres://user:password@host:5432/database"
	}
	return ""
}

// CheckRedis returns what is wrong with the URL of a Redis, or "". The client in package quota parses it; nothing is connected.
func CheckRedis(value string) string {
	p, problem := CheckURL(value)
	if problem != "" {
		return problem
	}
	query, _ := url.ParseQuery(p.Query)
	if query.Has("min_idle_conns") {
		query.Del("min_idle_conns")
		before, _, _ := strings.Cut(value, "?")
		value = before + "?" + query.Encode()
	}
	client, err := quota.OpenRedis(value)
	if err != nil {
		return withoutQuotes(strings.TrimPrefix(err.Error(), "redis URL: "))
	}
	_ = client.Close()
	return ""
}

// CheckSMTP returns what is wrong with a list of mail servers' URLs, or "". Package delivery parses each.
func CheckSMTP(value string) string {
	for text := range strings.SplitSeq(value, ",") {
		if _, problem := CheckURL(strings.TrimSpace(text)); problem != "" {
			return problem
		}
	}
	if _, err := smtp.ParseURLs(value); err != nil {
		return withoutQuotes(strings.ReplaceAll(err.Error(), "smtp URL: ", ""))
	}
	return ""
}

// withoutQuotes returns the message, or a general one if the message repeats a piece of the URL, which may be part of a password.
func withoutQuotes(message string) string {
	if strings.ContainsAny(message, `"'`) || strings.HasPrefix(message, "redis: ") {
		return "has a path or a parameter that is not known or not valid; docs/configuration.md has the form"
	}
	return document.Plain(message)
}

// validHosts reports whether hosts is a comma-separated list of host[:port].
func validHosts(hosts string) bool {
	if hosts == "" {
		return true
	}
	for host := range strings.SplitSeq(hosts, ",") {
		one := url.URL{Host: host}
		if one.Port() == "" {
			host += ":0"
		}
		if CheckAddr(host) != "" || strings.HasPrefix(host, ":") {
			return false
		}
	}
	return true
}

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
