package config

import (
	"net/url"
	"strings"

	"sendcode/internal/config/document"
	"sendcode/internal/delivery/smtp"
	"sendcode/quota"
)

// mask stands for a password. A URL that still has it was copied from the output of `sendcode config`.
const (
	mask   = "***"
	masked = "still has *** where `sendcode config` has masked a password"
)

// unreadable is all that may be said of a URL that does not parse: url.Error quotes it.
const unreadable = "is not a URL that can be read (write special characters of user and password as %XX)"

// parts of "scheme://user:password@hosts/path?query". net/url knows no lists of hosts.
type urlParts struct {
	scheme, userinfo, hosts, path, query string
}

// cutURL refuses a second @, and one outside the authority: there a password with / ? or # begins in the wrong part,
// and would turn up in messages about that part.
func cutURL(text string) (urlParts, bool) {
	var p urlParts
	scheme, rest, found := strings.Cut(text, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := rest[:end], rest[end:]
	if !found || strings.Contains(tail, "@") || strings.Count(authority, "@") > 1 || strings.Contains(tail, "#") {
		return p, false
	}
	p.scheme = scheme
	if p.userinfo, p.hosts, found = strings.Cut(authority, "@"); !found {
		p.userinfo, p.hosts = "", authority
	}
	p.path, p.query, _ = strings.Cut(tail, "?")
	return p, true
}

// checkURL is what all URLs have in common; it returns the parts when there is no problem.
func checkURL(text string) (p urlParts, problem string) {
	p, ok := cutURL(text)
	if !ok {
		return p, unreadable
	}
	_, password, _ := strings.Cut(p.userinfo, ":")
	if query, err := url.ParseQuery(p.query); err != nil {
		return p, unreadable
	} else if password == mask || strings.Contains(query.Encode(), "="+url.QueryEscape(mask)) {
		return p, masked
	}
	if decoded, err := url.PathUnescape(p.userinfo); err != nil || strings.ContainsRune(decoded, 0) { // Postgres knows no NUL
		return p, unreadable
	}
	return p, ""
}

// checkDatabaseURL looks at the form only; package app connects.
func checkDatabaseURL(value string) string {
	p, problem := checkURL(value)
	query, _ := url.ParseQuery(p.query)
	switch {
	case problem != "":
		return problem
	case p.scheme != "postgres" && p.scheme != "postgresql":
		return "must begin with postgres://"
	case p.hosts == "" && query.Get("host") == "":
		return "has no host: postgres://user:password@host:5432/database"
	case !validHosts(p.hosts):
		return "the host or the port is not valid; the form is postgres://user:password@host:5432/database"
	}
	return ""
}

// checkRedisURL lets quota judge. Its client connects when first used, but for connections kept in reserve.
func checkRedisURL(value string) string {
	p, problem := checkURL(value)
	if problem != "" {
		return problem
	}
	query, _ := url.ParseQuery(p.query)
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

// checkSMTPURL lets delivery judge each server.
func checkSMTPURL(value string) string {
	for text := range strings.SplitSeq(value, ",") {
		if _, problem := checkURL(strings.TrimSpace(text)); problem != "" {
			return problem
		}
	}
	if _, err := smtp.ParseURLs(value); err != nil {
		return withoutQuotes(strings.ReplaceAll(err.Error(), "smtp URL: ", ""))
	}
	return ""
}

// withoutQuotes passes a message on unless it repeats a piece of the URL: behind an & that should be %26 that may be one
// of a password.
func withoutQuotes(message string) string {
	if strings.ContainsAny(message, `"'`) || strings.HasPrefix(message, "redis: ") {
		return "has a path or a parameter that is not known or not valid; docs/configuration.md has the form"
	}
	return document.Plain(message)
}

// validHosts checks host[:port], several by commas.
func validHosts(hosts string) bool {
	if hosts == "" {
		return true
	}
	for host := range strings.SplitSeq(hosts, ",") {
		one := url.URL{Host: host}
		if one.Port() == "" {
			host += ":0"
		}
		if checkAddr(host) != "" || strings.HasPrefix(host, ":") {
			return false
		}
	}
	return true
}
