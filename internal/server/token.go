package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/labstack/echo/v4"
)

// RequireToken is middleware that admits only requests with this bearer token; others get 401. It compares in constant time.
func RequireToken(token string) echo.MiddlewareFunc {
	want := sha256.Sum256([]byte(token))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			scheme, given, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
			got := sha256.Sum256([]byte(strings.TrimSpace(given)))
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				return &Problem{Kind: Unauthorized, Detail: "This address needs a token of its own."}
			}
			return next(c)
		}
	}
}
