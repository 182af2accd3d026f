package auth

import (
	"net/url"

	"github.com/labstack/echo/v4"
)

const sessionsPath = "/admin/sessions"

// endSessions ends every session of the account, including the session of the request. If that
// session stayed, a stolen copy of its cookie would stay valid.
func (a *Auth) endSessions(c echo.Context, _ url.Values) error {
	act, err := a.NewAuditEntry(c, actionSession+".end")
	if err != nil {
		return err
	}
	act.Target = sessionOf(c).Account
	if _, err := a.Sessions.EndSessions(c.Request().Context(), act.Target, act); err != nil {
		return err
	}
	return clearCookieAndRedirect(c)
}
