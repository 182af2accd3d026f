package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/labstack/echo/v4"
)

// BearerToken returns the token of the Authorization header; false if the header is missing or of
// another scheme, whose case does not matter (RFC 9110 section 11.1).
func BearerToken(c echo.Context) (token string, ok bool) {
	scheme, token, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// RequireToken is middleware that admits only requests with this bearer token; others get 401. It
// compares in constant time.
func RequireToken(token string) echo.MiddlewareFunc {
	want := sha256.Sum256([]byte(token))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			given, ok := BearerToken(c)
			got := sha256.Sum256([]byte(given))
			if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				return &Problem{Kind: Unauthorized, Detail: "This address needs a token of its own."}
			}
			return next(c)
		}
	}
}
