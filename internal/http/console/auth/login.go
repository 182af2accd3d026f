package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/quota"
)

// loginView has the values of the login page.
type loginView struct {
	layout.Page
	Next     string // the page to show after the login
	Name     string // as typed
	Problem  string // what went wrong, in words; empty: nothing yet
	Off      bool   // see noLogin
	Provider string // the provider's title, for the button; empty: the settings have no provider
}

func (a *Auth) loginPage(c echo.Context) error {
	next := consolePageOrEmpty(c.QueryParam("next"))
	if v, ok, err := a.currentSession(c); ok && err == nil && v.lacks != lacksCode {
		return c.Redirect(http.StatusSeeOther, cmp.Or(next, startPagePath))
	}
	setLoginCookie(c)
	return a.showLogin(c, http.StatusOK, next, "", "")
}

// loginCookieName is the name of a cookie that shows whether the browser keeps cookies. The login
// page sets the cookie. A field of the page's form says that the cookie was set. If the form
// arrives with the field but without the cookie, the browser does not keep cookies. It would then
// lose the session's cookie, too.
const loginCookieName = sessionCookieName + "-login"

func setLoginCookie(c echo.Context) { c.SetCookie(newCookie(c, loginCookieName, "set", 0)) }

func (a *Auth) showLogin(c echo.Context, status int, next, name, problem string) error {
	v := loginView{
		Page: layout.NewPage(c, "login.title", ""), Next: next, Name: name, Problem: problem,
		Off: a.noLogin(c.Request().Context()),
	}
	if a.Provider != nil {
		v.Provider = a.Provider.Title
	}
	v.ReturnAddress = withReturnPage("/admin/login", next)
	return a.layout.Show(c, status, "login", v)
}

// noLogin reports whether a login is impossible: no password is configured, there is no login
// provider, and no open account has a password. If the accounts cannot be read, it returns false.
func (a *Auth) noLogin(ctx context.Context) bool {
	if a.adminPassword.isSet() || a.Provider != nil {
		return false
	}
	accounts, err := a.Accounts.Accounts(ctx)
	return err == nil && !slices.ContainsFunc(accounts, func(account store.Account) bool {
		return account.Password != "" && account.DisabledAt.IsZero()
	})
}

const maxNameLength = 32 // bytes

// login checks a name and a password. It counts the attempt before it compares the password, so
// that attempts in parallel cannot evade the limit. An empty name means the configured account. The
// answer does not reveal whether an account of this name exists.
func (a *Auth) login(c echo.Context, form url.Values) error {
	w, next, name := layout.Words(c), consolePageOrEmpty(form.Get("next")),
		strings.ToLower(strings.TrimSpace(form.Get("username")))
	if form.Get("password") == "" || len(name) > maxNameLength {
		return a.showLogin(c, http.StatusUnprocessableEntity, next, "", w.Get("login.empty"))
	}
	if form.Has("cookie") && cookieValue(c, loginCookieName) == "" {
		setLoginCookie(c)
		return a.showLogin(c, http.StatusUnprocessableEntity, next, name, w.Get("login.cookie"))
	}
	name = cmp.Or(name, configuredAccount.Name)
	ctx, address := c.Request().Context(), server.ClientIP(c)
	count, err := a.attempts.takeLogin(ctx, name, a.knownBrowserID(c, name), address)
	if answered, err := a.answerIfRefused(c, count.Decision, err, next, name); answered {
		return err
	}
	who, right, err := a.checkPassword(ctx, name, form.Get("password"))
	if err != nil {
		return err
	}
	if !right {
		a.logger.WarnContext(ctx, "login failed", "network", clientNetwork(c), logs.SeeConsole)
		return a.showLogin(c, http.StatusUnauthorized, next, name,
			w.Get("login.wrong")+" "+w.Plural("login.left", attemptsLeft(count.Decision)))
	}
	a.attempts.refund(ctx, count)
	action := actionLogin
	if _, half, err := a.secondFactorOf(ctx, name); err != nil {
		return err
	} else if half {
		action = actionLoginPassword
	}
	if err := a.beginSession(c, who, store.Session{}, action); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, cmp.Or(next, startPagePath))
}

// secondFactorOf returns the second factor of an account. An account without one is no error.
func (a *Auth) secondFactorOf(ctx context.Context, account string) (f store.SecondFactor, has bool, err error) {
	f, err = a.Factors.SecondFactor(ctx, account)
	if errors.Is(err, fault.NotFound) {
		return f, false, nil
	}
	return f, err == nil, err
}

// answerIfRefused shows the login page and returns true if the attempt was not admitted. The status
// is 429 if a rule refused the attempt, and 503 if the attempt could not be counted. For an
// admitted attempt, answerIfRefused does nothing and returns false.
func (a *Auth) answerIfRefused(c echo.Context, count quota.Decision, err error, next,
	name string,
) (answered bool, _ error) {
	switch {
	case err != nil:
		a.logUncountedLogin(c.Request().Context(), err)
		return true, a.showLogin(c, http.StatusServiceUnavailable, next, name, layout.Words(c).Get("login.unavailable"))
	case !count.Admitted:
		return true, a.showTooManyAttempts(c, next, name, count)
	}
	return false, nil
}

// logUncountedLogin logs that the limiter could not count an attempt to log in or to set up a
// second factor.
func (a *Auth) logUncountedLogin(ctx context.Context, err error) {
	a.logger.ErrorContext(ctx, "could not count login attempts", "error", err, logs.SeeConsole)
}

// showTooManyAttempts answers an attempt that a rule refused. For each rule, it logs at most one
// line a minute.
func (a *Auth) showTooManyAttempts(c echo.Context, next, name string, refusal quota.Decision) error {
	rule, _ := refusal.Blocking()
	attacked := rule.Name == accountRuleName || rule.Name == accountDayRuleName
	a.Refused("login", rule.Name)
	n, due := a.lines.Add("login."+rule.Name, a.now())
	ctx, where := c.Request().Context(), clientNetwork(c)
	switch {
	case due && attacked:
		a.logger.ErrorContext(ctx,
			"login refused to unknown browsers: too many attempts at one account; known browsers and OpenID "+
				"still log in", "rule", rule.Name, "count", n, "network", where, logs.SeeConsole)
	case due:
		a.logger.WarnContext(ctx, "login refused: too many attempts", "rule", rule.Name, "count", n, "network", where,
			logs.SeeConsole)
	}
	w, wait, text := layout.Words(c), refusal.RetryAfter(), "login.limited"
	if attacked {
		text = "login.attacked"
	}
	server.SetRetryAfter(c, wait)
	return a.showLogin(c, http.StatusTooManyRequests, next, name, w.Get(text, "wait", w.Wait(wait)))
}

// checkPassword compares a typed password with the password of an account. At most
// maxConcurrentPasswordChecks comparisons run at the same time, and further ones wait, because
// argon2id is slow and needs much memory by design.
func (a *Auth) checkPassword(ctx context.Context, account, typed string) (who principal, right bool, err error) {
	if who, err = a.passwordPrincipal(ctx, account); err != nil {
		return who, false, err
	}
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
		hashes := who.comparisons(a.adminPassword)
		for _, h := range hashes[1:] {
			_ = h.matches(typed) // only so that each login takes the same time
		}
		return who, hashes[0].matches(typed), nil
	case <-ctx.Done():
		return who, false, ctx.Err()
	}
}

func (a *Auth) logout(c echo.Context) error {
	ctx := c.Request().Context()
	v, ok, err := a.currentSession(c)
	if err == nil && ok {
		err = a.Sessions.EndSession(ctx, v.ID)
	}
	if err != nil {
		return err
	}
	return clearCookieAndRedirect(c)
}

// clearCookieAndRedirect deletes the session's cookie and leads to the login page.
func clearCookieAndRedirect(c echo.Context) error {
	c.Response().Header().Del(echo.HeaderSetCookie) // attachAndTouchSession may have set the renewed cookie
	c.SetCookie(newCookie(c, sessionCookieName, "", -1))
	return c.Redirect(http.StatusSeeOther, "/admin/login")
}

// withReturnPage returns the address of a page with the URL parameter next. This parameter has the
// address of the console's page that is shown after the login. If next is empty, withReturnPage
// adds no parameter.
func withReturnPage(page, next string) string {
	if next == "" {
		return page
	}
	return page + "?next=" + url.QueryEscape(next)
}
