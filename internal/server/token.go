package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/labstack/echo/v4"
)

// RequireToken lets requests with this bearer token pass; every other one is a 401. The time of an answer does not depend on how
// much of the token is right.
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
