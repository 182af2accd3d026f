package server

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

var crossOrigin = http.NewCrossOriginProtection()

// RequireSameOrigin is middleware that answers 403 to a request that may change something and that
// another site makes a browser send, or that does not show where it came from: browsers send Origin
// with every post, and since 2023 all send Sec-Fetch-Site. A program with a bearer token, which no
// other site can have a browser add, needs neither.
func RequireSameOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		_, program := BearerToken(c)
		silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get(echo.HeaderOrigin) == ""
		if crossOrigin.Check(r) != nil || silent && !reads && !program {
			return &Problem{Kind: Forbidden, Detail: "The request came from another site, or does not say from which."}
		}
		return next(c)
	}
}
