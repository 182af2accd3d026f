package server

import (
	"strings"

	"github.com/labstack/echo/v4"
)

// maxHintedPath bounds the paths that addressHint looks at, in bytes.
const maxHintedPath = 200

// addressHint returns a hint if the request's address has no route but closely resembles a route of
// the API. Otherwise it returns "". Usually a client has joined a base address and a path wrongly.
// The service doesn't simply serve the resembling route, because a proxy in front may block some
// paths, and must see the same path as the service.
func addressHint(c echo.Context) string {
	path := c.Request().URL.Path
	if c.Path() != "" || len(path) > maxHintedPath {
		return ""
	}
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	clean := "/" + strings.Join(segments, "/")
	_, rest, versioned := strings.Cut(clean, "/v1/")
	for strings.HasPrefix(rest, "v1/") {
		rest = strings.TrimPrefix(rest, "v1/")
	}
	meant := "/v1/" + rest
	if !versioned {
		meant = "/v1" + clean
	}
	if strings.HasPrefix(meant, "/v1/admin") || !hasRoute(c.Echo(), meant) {
		return ""
	}
	switch {
	case strings.Contains(path, "//"):
		return "The address has two slashes in a row: write the base address without a slash at its end."
	case !versioned:
		return "The address lacks /v1 before its path."
	case strings.Contains(clean, "/v1/v1/"):
		return "The address has /v1 twice: write the base address without it."
	case !strings.HasPrefix(clean, "/v1/"):
		return "The address has a path before /v1: the API is at the root of its host."
	}
	return "The address ends with a slash: leave it out."
}

// hasRoute reports whether a path matches the template of a route.
func hasRoute(e *echo.Echo, path string) bool {
	want := strings.Split(path, "/")
	for _, r := range e.Routes() {
		have := strings.Split(r.Path, "/")
		same := len(have) == len(want)
		for i := 0; same && i < len(have); i++ {
			same = have[i] == want[i] || strings.HasPrefix(have[i], ":") && want[i] != ""
		}
		if same {
			return true
		}
	}
	return false
}
