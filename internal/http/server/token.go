package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/labstack/echo/v4"
)

// BearerToken returns the token of the Authorization header. It returns false if the header is
// missing or has another scheme; the scheme's case does not matter (RFC 9110 section 11.1).
func BearerToken(c echo.Context) (token string, ok bool) {
	scheme, token, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// SameSecret reports whether two secrets are equal and not empty. It compares their hashes in
// constant time, so that neither contents nor length can be found by timing.
func SameSecret(given, want string) bool {
	got, expected := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(got[:], expected[:]) == 1 && want != ""
}

// RequireToken is middleware that admits only requests with this bearer token; any other request
// gets 401. See SameSecret.
func RequireToken(token string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if given, ok := BearerToken(c); !ok || !SameSecret(given, token) {
				return &Problem{Kind: Unauthorized, Detail: "This address needs a token of its own."}
			}
			return next(c)
		}
	}
}
