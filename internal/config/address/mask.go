package address

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// openParameters of URLs hold no secret and may be shown. Of others the name shows at most, and that only if it cannot be
// the end of a password with an & in it.
var openParameters = []string{
	"tls", "hello", "ca", "sslmode", "sslrootcert", "host", "port", "dbname", "user", "application_name", "connect_timeout",
	"pool_max_conns", "pool_min_conns", "target_session_attrs", "search_path", "db", "protocol", "dial_timeout",
	"read_timeout", "write_timeout", "pool_size", "max_retries", "min_idle_conns",
}

// MaskAll masks the secrets of a comma-separated list of URLs.
func MaskAll(list string) string {
	var shown []string
	for text := range strings.SplitSeq(list, ",") {
		shown = append(shown, Mask(strings.TrimSpace(text)))
	}
	return strings.Join(shown, ",")
}

// Mask returns a URL without its secrets, or stars only if it can't be parsed.
func Mask(text string) string {
	p, ok := cutURL(text)
	switch {
	case text == "":
		return ""
	case !ok:
		return Stars
	}
	shown := p.Scheme + "://"
	if p.Userinfo != "" {
		shown += maskUserinfo(p.Userinfo) + "@"
	}
	shown += p.Hosts + p.path
	if p.Query != "" {
		shown += "?" + maskQuery(p.Query)
	}
	return shown
}

// maskUserinfo masks the user information of a URL. It keeps the user name only if there is a password and neither contains the
// other: some mail services take the same token as both.
func maskUserinfo(userinfo string) string {
	user, password, _ := strings.Cut(userinfo, ":")
	plainUser, _ := url.PathUnescape(user)
	plainPassword, _ := url.PathUnescape(password)
	if strings.Contains(plainUser, plainPassword) || plainUser != "" && strings.Contains(plainPassword, plainUser) {
		user = Stars
	}
	return user + ":" + Stars
}

var parameterName = regexp.MustCompile(`^[a-z_]{1,40}$`)

func maskQuery(query string) string {
	var shown []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, assigned := strings.Cut(pair, "=")
		switch {
		case slices.Contains(openParameters, name):
			shown = append(shown, pair)
		case assigned && parameterName.MatchString(name):
			shown = append(shown, name+"="+Stars)
		default:
			shown = append(shown, Stars)
		}
	}
	return strings.Join(shown, "&")
}
