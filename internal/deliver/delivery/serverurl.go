package delivery

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ParseServerURL parses the URL of a mail server with one of these schemes. Errors never quote the
// URL, which contains the password.
func ParseServerURL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // url.Error quotes its input
		return nil, SafeError("is malformed: write special characters in user and password as %XX")
	case !slices.Contains(schemes, u.Scheme):
		return nil, SafeError("the scheme must be " + strings.Join(schemes, " or "))
	case u.Opaque != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "":
		return nil, SafeError(
			"must be scheme://user:password@host:port?parameters (write special characters in user and password as %XX)")
	}
	return u, nil
}

// ParseParameters accepts each known parameter once. The parameter connections is another name of
// conns.
func ParseParameters(query string, known ...string) (url.Values, error) {
	all, err := url.ParseQuery(query)
	if err != nil {
		return nil, SafeError("malformed parameters")
	}
	if all.Has("connections") {
		all["conns"] = append(all["conns"], all["connections"]...)
		all.Del("connections")
	}
	for name, values := range all {
		switch {
		case !slices.Contains(known, name):
			return nil, SafeError("unknown parameter (known: " + strings.Join(known, ", ") + ")")
		case len(values) > 1:
			return nil, SafeError("a parameter is given twice")
		}
	}
	return all, nil
}

// ParseCount stores a whole number from 1 to limit in *into. For any other text it returns false,
// and the value of *into means nothing.
func ParseCount(into *int, text string, limit int) bool {
	n, err := strconv.Atoi(text)
	*into = n
	return err == nil && 1 <= n && n <= limit
}
