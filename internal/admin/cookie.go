package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// The cookie's names. With "__Host-" a browser takes it only over https, for this host alone and with path "/" (RFC
// 6265bis section 4.1.3.2), so no neighbour under the same domain can plant one.
const (
	cookieName       = "sendcode-admin"
	secureCookieName = "__Host-" + cookieName
)

func isHTTPS(c echo.Context) bool { return c.Scheme() == "https" }

func nameOf(c echo.Context) string {
	if isHTTPS(c) {
		return secureCookieName
	}
	return cookieName
}

// current finds the session of a request.
func (a *Auth) current(c echo.Context) (session, bool, error) {
	cookie, err := c.Cookie(nameOf(c))
	if err != nil {
		return session{}, false, nil
	}
	key, ok := readKey(cookie.Value)
	if !ok {
		return session{}, false, nil
	}
	return a.sessionOf(c.Request().Context(), key)
}

// keep writes the session's cookie, which goes when the session would.
func (a *Auth) keep(c echo.Context, key string, v session) {
	// Rounded up, and at least 1: 0 would mean no limit at all.
	seconds := int((v.ends().Sub(v.now) + time.Second - 1) / time.Second)
	c.SetCookie(a.cookie(c, key, max(seconds, 1)))
}

// forget takes the cookie back, also one that this very answer was to renew.
func (a *Auth) forget(c echo.Context) {
	c.Response().Header().Del(echo.HeaderSetCookie)
	c.SetCookie(a.cookie(c, "", -1))
}

func (a *Auth) cookie(c echo.Context, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: nameOf(c), Value: value, Path: "/", MaxAge: maxAge,
		Secure: isHTTPS(c), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// renew says that a session is in use, at most once a minute, so that it does not go idle.
func (a *Auth) renew(c echo.Context, v session) error {
	if v.now.Sub(v.SeenAt) < renewal {
		return nil
	}
	ctx := c.Request().Context()
	if err := a.log.SeeSession(ctx, v.ID); err != nil {
		return err
	}
	cookie, err := c.Cookie(nameOf(c))
	if err != nil {
		return nil // there was one a moment ago
	}
	v.SeenAt = v.now
	a.keep(c, cookie.Value, v)
	return nil
}
