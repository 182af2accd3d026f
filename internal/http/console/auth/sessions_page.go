package auth

import (
	"net/url"

	"github.com/labstack/echo/v4"
)

const sessionsPath = "/admin/sessions"

// endSessions ends every session of the account, also the session of the request: a copy of its
// cookie would otherwise stay valid.
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
