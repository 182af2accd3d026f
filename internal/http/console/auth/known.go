package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"sendcode/internal/base/logs"

	"github.com/labstack/echo/v4"
)

// knownBrowserLife is how long a browser is known after a login.
const knownBrowserLife = 90 * 24 * time.Hour

const knownBrowserSealLabel = "known browser"

// knownBrowserCookieName returns the name of the cookie for an account. The name depends on the
// account, because a browser may be known for several accounts.
func knownBrowserCookieName(account string) string {
	sum := sha256.Sum256([]byte(account))
	return sessionCookieName + "-browser-" + hex.EncodeToString(sum[:4])
}

// rememberBrowser sets a cookie that marks the browser as known for the account. The attempts of a
// known browser are counted separately from those of unknown browsers. The cookie is not a login.
// Each login sets a new cookie, so that attempts with an older, stolen cookie do not count against
// this browser.
func (a *Auth) rememberBrowser(c echo.Context, account string) {
	id := make([]byte, 16)
	rand.Read(id) // never fails: the program stops when the system has no randomness
	value, err := seal(a, knownBrowserSealLabel, []byte(account), id, knownBrowserLife)
	if err != nil {
		a.logger.ErrorContext(c.Request().Context(), "could not make known-browser cookie", "error", err,
			logs.SeeDefect)
		return
	}
	c.SetCookie(newCookie(c, knownBrowserCookieName(account), value, int(knownBrowserLife/time.Second)))
}

// knownBrowserID returns the ID of a browser that logged in to the account before. If the browser
// is unknown, the result is "".
func (a *Auth) knownBrowserID(c echo.Context, account string) string {
	id, _ := unseal[[]byte](a, knownBrowserSealLabel, []byte(account), cookieValue(c, knownBrowserCookieName(account)))
	return hex.EncodeToString(id)
}
