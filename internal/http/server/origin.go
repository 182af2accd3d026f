package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
)

var crossOriginProtection = http.NewCrossOriginProtection()

// ErrOtherOrigin is the error for a request that another site may have made the browser send.
var ErrOtherOrigin = errors.New("server: the request came from another site, or does not say from which")

// RequireSameOrigin is middleware for requests that may change something, so it lets GET, HEAD and
// OPTIONS pass. For other methods, it returns ErrOtherOrigin, which is a 403, if another site made
// the browser send the request, or if the request has neither Origin nor Sec-Fetch-Site. Current
// browsers send Origin with every post and, over https, also Sec-Fetch-Site. A request with a
// bearer token needs no such header, since no other site can make a browser add the token.
func RequireSameOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		_, program := BearerToken(c)
		silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get(echo.HeaderOrigin) == ""
		if crossOriginProtection.Check(r) != nil || silent && !reads && !program {
			return ErrOtherOrigin
		}
		return next(c)
	}
}
