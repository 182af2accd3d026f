package auth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/layout"
	"sendcode/internal/server"
)

// pagesNeedSession sends who is not logged in to the login page, and back to this page afterwards.
func (a *Auth) pagesNeedSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, ok, err := a.current(c)
		if err != nil {
			return err
		}
		if !ok {
			return c.Redirect(http.StatusSeeOther, addressTo("/admin/login", c.Request()))
		}
		switch {
		case v.lacks == lacksCode:
			return c.Redirect(http.StatusSeeOther, addressTo(codePage, c.Request()))
		case v.lacks == lacksFactor && c.Path() != factorPage:
			return c.Redirect(http.StatusSeeOther, factorPage)
		}
		v.who.is(c)
		if err := a.renew(c, v); err != nil {
			return err
		}
		return next(c)
	}
}

// addressTo names the page to come back to, unless that is where logging in leads anyhow.
func addressTo(login string, r *http.Request) string {
	back := r.URL.RequestURI()
	if back == "/admin" || !isOurs(back) {
		return login
	}
	return withNext(login, back)
}

// isOurs admits addresses of console pages only, so that no link can lead elsewhere after logging in.
func isOurs(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.Contains(address, `\`) {
		return false
	}
	inMenu := slices.ContainsFunc(layout.Sections, func(s layout.Section) bool { return s.Path == u.Path })
	return inMenu || strings.HasPrefix(u.Path, "/admin/sends/") && !strings.Contains(u.Path, "..")
}

// oursOr is the address if it is a console page's, else none.
func oursOr(address string) string {
	if !isOurs(address) {
		return ""
	}
	return address
}

// programsNeedKey lets through a valid bearer token or session. If there is a token, the session does not matter.
func (a *Auth) programsNeedKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if header := c.Request().Header.Get(echo.HeaderAuthorization); header != "" {
			bearer, err := a.bearerOf(c, header)
			if err != nil {
				return err
			}
			bearer.is(c)
			return next(c)
		}
		v, ok, err := a.current(c)
		if err != nil {
			return err
		}
		if !ok || v.lacks != "" {
			return &server.Problem{Kind: server.Unauthorized, Detail: "Send the admin token as a bearer token, or log in at /admin."}
		}
		v.who.is(c)
		if err := a.renew(c, v); err != nil {
			return err
		}
		return next(c)
	}
}
