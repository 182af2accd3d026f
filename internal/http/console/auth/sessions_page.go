package auth

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/frame"
)

const (
	sessionsPath     = "/admin/sessions"
	allSessionsValue = "all" // instead of a session's ID
)

// sessionView is one session in the list of an account's own.
type sessionView struct {
	ID       string // hexadecimal
	Browser  string
	Network  string
	Since    texts.DisplayTime
	Used     texts.DisplayTime // the last use; stored at most once a minute
	Here     bool              // the session of this request
	Provider bool              // began by the provider
	HalfIn   bool              // lacks the second factor's code
}

// listSessions returns the sessions of s's account, without expired ones.
func (a *Auth) listSessions(ctx context.Context, w texts.Words, s session) (list []sessionView, err error) {
	all, err := a.Sessions.SessionsOf(ctx, s.Account)
	for _, x := range all {
		v := session{Session: x, now: s.now}
		v.lacks = v.missingLoginStep(a.DemandFactor)
		if !v.isLive() {
			continue
		}
		name := w.Get("sessions.unknown")
		if browser, system, known := strings.Cut(x.Browser, "/"); known {
			name = w.Get("sessions.browser", "browser", browser, "system", system)
		}
		list = append(list, sessionView{
			ID: hex.EncodeToString(x.ID[:]), Browser: name, Network: x.Network,
			Since: w.Clock(x.StartedAt),
			Used:  w.Clock(x.SeenAt), Here: x.ID == s.ID, Provider: x.Via == viaProvider, HalfIn: v.lacks == lacksCode,
		})
	}
	return list, err
}

// endSessions ends the session that the form names, or every session of the account, also the
// request's own: a copy of its cookie would otherwise stay valid.
func (a *Auth) endSessions(c echo.Context, form url.Values) error {
	s, w := sessionOf(c), frame.Words(c)
	var one *[32]byte
	if text := form.Get("session"); text != allSessionsValue {
		id, err := hex.DecodeString(text)
		if err != nil || len(id) != len(s.ID) {
			return a.showFactorPage(c, s, http.StatusUnprocessableEntity, factorView{Problem: w.Get("factor.again")})
		}
		one = (*[32]byte)(id)
	}
	act, err := a.NewAuditEntry(c, actionSession+".end")
	if err != nil {
		return err
	}
	act.Target = s.Account
	if _, err := a.Sessions.EndSessions(c.Request().Context(), s.Account, one, act); err != nil {
		return err
	}
	if one == nil || *one == s.ID {
		return clearCookieAndRedirect(c)
	}
	return a.showFactorPage(c, s, http.StatusOK, factorView{Done: w.Get("sessions.ended")})
}

// The words in a User-Agent that identify browser and system, each with the name to show. The first
// of a list that occurs decides, since a browser also names the browsers that it resembles (RFC 9110
// section 10.1.5).
var (
	browserNames = [][2]string{
		{"Edg", "Edge"},
		{"OPR/", "Opera"},
		{"SamsungBrowser/", "Samsung Internet"},
		{"Firefox/", "Firefox"},
		{"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"},
		{"Chrome/", "Chrome"},
		{"Safari/", "Safari"},
	}
	systemNames = [][2]string{
		{"Android", "Android"},
		{"iPhone", "iOS"},
		{"iPad", "iPadOS"},
		{"CrOS", "ChromeOS"},
		{"Windows", "Windows"},
		{"Mac OS X", "macOS"},
		{"Linux", "Linux"},
	}
)

// browserOf returns the browser and the system of a User-Agent, such as "Firefox/Linux"; "" unless
// both are known.
func browserOf(userAgent string) string {
	browser, system := firstNameIn(userAgent, browserNames), firstNameIn(userAgent, systemNames)
	if browser == "" || system == "" {
		return ""
	}
	return browser + "/" + system
}

func firstNameIn(text string, words [][2]string) string {
	for _, w := range words {
		if strings.Contains(text, w[0]) {
			return w[1]
		}
	}
	return ""
}
