package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/store"
)

const sessionCookieName = "sendcode-admin"

// cookieNameFor returns the name of a cookie. Over https the name begins with "__Host-", so that no
// other host of the domain can set the cookie (RFC 6265bis section 4.1.3.2).
func cookieNameFor(c echo.Context, name string) string {
	if c.Scheme() == "https" {
		return "__Host-" + name
	}
	return name
}

// setSessionCookie writes the session's cookie, which expires with the session.
func (a *Auth) setSessionCookie(c echo.Context, key string, v session) {
	// The seconds are rounded up and are at least 1. If MaxAge were 0, net/http would leave out
	// Max-Age, and the cookie would not expire.
	seconds := int((v.expiry().Sub(v.now) + time.Second - 1) / time.Second)
	c.SetCookie(newCookie(c, sessionCookieName, key, max(seconds, 1)))
}

// newCookie returns a cookie that scripts cannot read. Browsers do not send the cookie with
// requests from other sites. maxAge is in seconds.
func newCookie(c echo.Context, name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: cookieNameFor(c, name), Value: value, Path: "/", MaxAge: maxAge,
		Secure: c.Scheme() == "https", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

const sessionContextKey = "sendcode.admin.session"

// sessionOf returns the session that attachAndTouchSession attached to the request.
func sessionOf(c echo.Context) session {
	v, _ := c.Get(sessionContextKey).(session)
	return v
}

// attachAndTouchSession attaches the session and its actor to the request. At most once a minute,
// it also stores the time of use and renews the cookie, so that a session in use does not expire as
// idle. Requests that a page's script makes by itself do not count as use
// (https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header). Otherwise a list that is left open
// in a browser, and reloads itself, would keep its session alive for hours.
func (a *Auth) attachAndTouchSession(c echo.Context, v session) error {
	v.who.attachTo(c)
	c.Set(sessionContextKey, v)
	if v.now.Sub(v.SeenAt) < renewalInterval || c.Request().Header.Get("Sec-Fetch-Dest") == "empty" {
		return nil
	}
	ctx := c.Request().Context()
	if err := a.Sessions.TouchSession(ctx, v.ID); err != nil {
		return err
	}
	v.SeenAt = v.now
	a.setSessionCookie(c, cookieValue(c, sessionCookieName), v)
	return nil
}

// These constants limit the life of a session.
const (
	idleTimeout     = 30 * time.Minute
	absoluteTimeout = 12 * time.Hour
	renewalInterval = time.Minute // the least time between two stored uses
)

// session is a stored session with its state at the time of the request. Sessions are in the
// database, so that a logout takes effect on every replica. The cookie has only a random key. The
// database has the hash of that key.
type session struct {
	store.Session
	who   Actor
	now   time.Time // on the database's clock, like a session's times
	lacks string    // what the person must do before any other page; empty: nothing
}

// After the right password, a session may still lack one of these.
const (
	lacksCode   = "code"   // the code of the second factor
	lacksFactor = "factor" // no second factor, but the settings demand one
)

// secondFactorTimeout is how much time a person has to enter the code of the second factor after
// the password.
const secondFactorTimeout = 10 * time.Minute

// missingLoginStep returns which step of the second factor a session lacks. If no step is missing,
// it returns "". If the factor was replaced after the session began, the session lacks the code
// again. A session that began with a login through the identity provider lacks no step.
func (s session) missingLoginStep(demanded bool) string {
	switch {
	case s.Via == viaProvider:
		return ""
	case s.FactorAt.IsZero() && demanded:
		return lacksFactor
	case s.FactorAt.IsZero() || s.FactorPassed && !s.StartedAt.Before(s.FactorAt):
		return ""
	}
	return lacksCode
}

// sessionKeySize is the number of random bytes in a session's cookie.
const sessionKeySize = 32

// principal is an account that may log in, or stay logged in, with its credential.
type principal struct {
	Actor
	credential
}

// sessionBinding returns a MAC of the principal's credential. A session stores the MAC, and ends
// when the credential changes and the MAC no longer matches. The MAC's key is the value of the
// cookie, so that a reader of the table can't use the MAC to try passwords.
func (p principal) sessionBinding(key []byte) [32]byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sendcode session 1\x00"))
	mac.Write(p.identity[:])
	return [32]byte(mac.Sum(nil))
}

// isLive reports whether the session has not expired. If the last use is more than maxClockSetback
// in the future, the clock was set back. Then the session counts as expired, because the clock
// change would prolong the session.
func (s session) isLive() bool {
	return s.now.Before(s.expiry()) && !s.SeenAt.After(s.now.Add(maxClockSetback))
}

// maxClockSetback is how far the database's clock may be set back before sessions end.
const maxClockSetback = 5 * time.Minute

// expiry returns when the session expires: idleTimeout after its last use, but at most
// absoluteTimeout after its start. While the session lacks the code, it expires at most
// secondFactorTimeout after its start.
func (s session) expiry() time.Time {
	end := s.StartedAt.Add(absoluteTimeout)
	if s.lacks == lacksCode {
		end = s.StartedAt.Add(secondFactorTimeout)
	}
	if last := s.SeenAt.Add(idleTimeout); last.Before(end) {
		return last
	}
	return end
}

// currentSession returns the session of a request. The session may still lack the second factor.
// The result is false if the request has no session, or if the session has ended. It is also false
// if the login that began the session is no longer possible, for example because the account was
// closed or its password was changed.
func (a *Auth) currentSession(c echo.Context) (session, bool, error) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(cookieValue(c, sessionCookieName))
	if err != nil || len(key) != sessionKeySize {
		return session{}, false, nil
	}
	// If the database stopped without closing its connections, the page must not wait longer than
	// store.CallTimeout.
	ctx, cancel := context.WithTimeout(c.Request().Context(), store.CallTimeout)
	defer cancel()
	s, now, err := a.Sessions.Session(ctx, sha256.Sum256(key))
	v := session{Session: s, now: now}
	v.lacks = v.missingLoginStep(a.DemandFactor)
	switch {
	case errors.Is(err, fault.NotFound):
		return v, false, nil
	case err != nil:
		return v, false, err
	case !v.isLive():
		return v, false, nil
	}
	h, err := a.principalOrNone(ctx, s)
	if err != nil || !h.isSet() {
		return v, false, err
	}
	if bound := h.sessionBinding(key); subtle.ConstantTimeCompare(bound[:], s.Bound[:]) != 1 {
		return v, false, nil
	}
	v.who = h.Actor
	return v, true, nil
}

// principalOrNone returns the session's account as it is now, with the credential of the login: the
// password or the identity provider. If the account may no longer log in this way, the principal is
// zero.
func (a *Auth) principalOrNone(ctx context.Context, s store.Session) (principal, error) {
	if s.Via == viaProvider {
		return a.providerPrincipal(ctx, s)
	}
	return a.passwordPrincipal(ctx, s.Account)
}

// passwordPrincipal returns an account with its password as the credential. If the account is
// unknown or closed, or if its hash cannot be parsed, the result is the zero principal. The zero
// principal cannot log in. A hash that cannot be parsed is logged.
func (a *Auth) passwordPrincipal(ctx context.Context, name string) (principal, error) {
	if name == configuredAccount.Name {
		return principal{configuredAccount, a.adminPassword}, nil
	}
	known, err := a.Accounts.Account(ctx, name)
	switch {
	case errors.Is(err, fault.NotFound):
		return principal{}, nil
	case err != nil || !known.DisabledAt.IsZero():
		return principal{}, err
	}
	p, err := newCredential("", known.Password)
	if err != nil {
		a.logger.ErrorContext(ctx, "could not read password hash of account", "account", name, "error", err,
			logs.SeeConsole)
		return principal{}, nil
	}
	return principal{Actor{known.Name, Role(known.Role)}, p}, nil
}

// beginSession completes a login: it writes a new session and the audit entry, and sets the cookie.
// The fields of s say how the person logged in.
func (a *Auth) beginSession(c echo.Context, who principal, s store.Session, action string) error {
	key := make([]byte, sessionKeySize)
	rand.Read(key) // never fails: the program stops when the system has no randomness
	who.attachTo(c)
	act, err := a.NewAuditEntry(c, action)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	s.ID, s.Account, s.Bound = sha256.Sum256(key), who.Name, who.sessionBinding(key)
	act.Detail = s.Via
	if s.Granted != "" {
		act.Detail = s.Granted
	}
	if s, err = a.Sessions.BeginSession(ctx, s, absoluteTimeout, act); err != nil {
		return err
	}
	a.logger.InfoContext(ctx, "session begun", "action", action, "account", who.Name, "network", act.Network)
	a.setSessionCookie(c, base64.RawURLEncoding.EncodeToString(key),
		session{Session: s, who: who.Actor, now: s.StartedAt})
	if action == actionLogin && s.Via != viaProvider {
		a.rememberBrowser(c, who.Name)
	}
	return nil
}
