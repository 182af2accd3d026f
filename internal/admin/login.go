package admin

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
)

// loginView is what the login page shows.
type loginView struct {
	page
	Next    string // where to go afterwards
	Problem string // what went wrong, in words; empty: nothing yet
	Off     bool   // no password is configured
}

func (a *Admin) loginPage(c echo.Context) error {
	next := c.QueryParam("next")
	if !isOurs(next) {
		next = ""
	}
	if _, ok := a.current(c); ok {
		return c.Redirect(http.StatusSeeOther, orStart(next))
	}
	return a.showLogin(c, http.StatusOK, next, "")
}

func (a *Admin) showLogin(c echo.Context, status int, next, problem string) error {
	w := wordsFor(c.Request())
	v := loginView{page: page{W: w, Title: w.say("login.title")}, Next: next, Problem: problem, Off: !a.password.isSet()}
	return a.pages.show(c, status, "login", v)
}

// login counts the attempt before it looks at the password, so that guessing in parallel gains nothing.
func (a *Admin) login(c echo.Context) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	w, next := wordsFor(c.Request()), form.Get("next")
	if !isOurs(next) {
		next = ""
	}
	if form.Get("password") == "" {
		return a.showLogin(c, http.StatusUnprocessableEntity, next, w.say("login.empty"))
	}
	ctx, address := c.Request().Context(), server.ClientIP(c)
	count, err := a.countLogin(ctx, address)
	if err != nil {
		a.logger.ErrorContext(ctx, "login attempts could not be counted", "error", err)
		return a.showLogin(c, http.StatusServiceUnavailable, next, w.say("login.unavailable"))
	}
	if !count.Admitted {
		a.logger.WarnContext(ctx, "login refused: too many attempts", "network", network(address))
		return a.tooMany(c, next, count.RetryAfter())
	}
	right, err := a.isPassword(ctx, form.Get("password"))
	if err != nil {
		return err
	}
	if !right {
		a.logger.WarnContext(ctx, "login failed", "network", network(address))
		return a.showLogin(c, http.StatusUnauthorized, next, w.say("login.wrong")+" "+w.plural("login.left", left(count)))
	}
	a.loggedIn(c, bootstrap)
	if err := a.keep(c, begin(a.now())); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, orStart(next))
}

// loggedIn records that somebody logged in. A log that is away keeps nobody out: then the process's own log has it alone.
func (a *Admin) loggedIn(c echo.Context, w actor) {
	w.is(c)
	ctx := c.Request().Context()
	a.logger.InfoContext(ctx, "logged in", "account", w.name, "network", network(server.ClientIP(c)))
	act, err := a.act(c, deedLogin)
	if err == nil {
		err = a.log.RecordAct(ctx, act)
	}
	if err != nil {
		a.logger.ErrorContext(ctx, "a login could not be recorded", "account", w.name, "error", err)
	}
}

func (a *Admin) tooMany(c echo.Context, next string, wait time.Duration) error {
	w := wordsFor(c.Request())
	c.Response().Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
	return a.showLogin(c, http.StatusTooManyRequests, next, w.say("login.limited", "wait", w.wait(wait)))
}

// isPassword takes its turn: argon2id is slow and takes its memory on purpose.
func (a *Admin) isPassword(ctx context.Context, typed string) (bool, error) {
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
		return a.password.is(typed), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (a *Admin) logout(c echo.Context) error {
	if v, ok := a.current(c); ok {
		a.sessions.revoke(v, a.now())
	}
	a.forget(c)
	return c.Redirect(http.StatusSeeOther, "/admin/login")
}

func orStart(next string) string {
	if next == "" {
		return "/admin"
	}
	return next
}

// network is what logs and limits call an address: a person's IPv6 addresses are a whole /64 (QUOTA-19).
func network(address netip.Addr) string {
	if !address.IsValid() {
		return "none"
	}
	bits := 64
	if address.Is4() {
		bits = 32
	}
	p, err := address.Prefix(bits)
	if err != nil {
		return "none"
	}
	return p.String()
}
