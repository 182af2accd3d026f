package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// UseCORS adds CORS middleware. It lets a page read responses from /v1, except /v1/admin, if a key
// lists the page's origin (Fetch standard, section 3.3). Origins are compared byte by byte. Cookies
// are not used. If no key lists origins, responses have no CORS headers.
func (a *API) UseCORS(e *echo.Echo) {
	hasOrigins := func(k *Key) bool { return len(k.Origins) > 0 }
	e.Use(checkRequestedHeaders, middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper: func(c echo.Context) bool {
			path := c.Request().URL.Path
			return !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/admin/") ||
				!slices.ContainsFunc(a.Keys(), hasOrigins)
		},
		AllowOriginFunc: func(origin string) (bool, error) {
			return slices.ContainsFunc(a.Keys(), func(k *Key) bool { return slices.Contains(k.Origins, origin) }), nil
		},
		AllowMethods: []string{http.MethodGet, http.MethodPost},
		AllowHeaders: nil, // the headers that the preflight requests; see checkRequestedHeaders
		ExposeHeaders: []string{
			echo.HeaderLocation, echo.HeaderRetryAfter, "RateLimit", "RateLimit-Policy",
			"Idempotent-Replayed", "Date",
		},
		MaxAge: 600,
	}))
}

// ownHeaders are the names of the request headers that a page needs when it calls the service.
const ownHeaders = "authorization,content-type,idempotency-key"

// requestedHeaders matches a valid value of the header Access-Control-Request-Headers: a list of at
// most 32 field names (RFC 9110, sections 5.1 and 5.6.1), without "*".
var requestedHeaders = regexp.MustCompile(`^[\w!#$%&'+.^|~\x60-]+(?:[ \t]*,[ \t]*[\w!#$%&'+.^|~\x60-]+){0,31}$`)

// forwardingHeader matches a list of header names that contains a header in which proxies name the
// client.
var forwardingHeader = regexp.MustCompile(`(?i)(^|[ \t,])(x-forwarded|forwarded([ \t,]|$))`)

// checkRequestedHeaders lets the preflights of a page ask for any request headers, except those of
// proxies. Tools in a page, such as tracing, may add headers to each request. If the list in the
// preflight contains a proxy's header, is missing or malformed, or is longer than 4 KB, ownHeaders
// replaces the list.
func checkRequestedHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		requested := r.Header.Get(echo.HeaderAccessControlRequestHeaders)
		if r.Method == http.MethodOptions &&
			(len(requested) > 4<<10 || !requestedHeaders.MatchString(requested) || forwardingHeader.MatchString(requested)) {
			r.Header.Set(echo.HeaderAccessControlRequestHeaders, ownHeaders)
		}
		return next(c)
	}
}

// isFromOriginsOrSelf reports whether a request comes from a page of one of the origins or of this
// service. With a GET to the page's own origin, a browser does not send the header Origin. Over
// https, it sends Sec-Fetch-Site instead (Fetch metadata, section 2.3).
func isFromOriginsOrSelf(r *http.Request, origins []string) bool {
	if origin := r.Header.Get(echo.HeaderOrigin); origin != "" {
		return slices.Contains(origins, origin)
	}
	return r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

// isFromOwnPage reports whether a request comes from a page of this service. Over plain http to
// another machine, browsers send no Sec-Fetch-Site, and send Origin only with POST.
func isFromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	switch r.Header.Get(echo.HeaderOrigin) {
	case "":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	case "http://" + r.Host, "https://" + r.Host:
		return true
	}
	return false
}
