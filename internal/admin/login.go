package admin

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
)

// loginView is what the login page shows.
type loginView struct {
	page
	Next    string // where to go afterwards
	Name    string // as typed
	Problem string // what went wrong, in words; empty: nothing yet
	Off     bool   // no password is configured
}

func (a *Admin) loginPage(c echo.Context) error {
	next := c.QueryParam("next")
	if !isOurs(next) {
		next = ""
	}
	if _, ok, err := a.current(c); ok && err == nil {
		return c.Redirect(http.StatusSeeOther, orStart(next))
	}
	return a.showLogin(c, http.StatusOK, next, "", "")
}

func (a *Admin) showLogin(c echo.Context, status int, next, name, problem string) error {
	w := wordsFor(c.Request())
	v := loginView{page: page{W: w, Title: w.say("login.title")}, Next: next, Name: name, Problem: problem, Off: !a.password.isSet()}
	return a.pages.show(c, status, "login", v)
}

// maxName is the longest name of an account.
const maxName = 32

// login counts the attempt before it looks at the password, so that guessing in parallel gains nothing. Without a name it is
// the account of the settings that logs in. What is answered does not tell whether there is an account of that name.
func (a *Admin) login(c echo.Context) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	w, next, name := wordsFor(c.Request()), form.Get("next"), strings.ToLower(strings.TrimSpace(form.Get("username")))
	if !isOurs(next) {
		next = ""
	}
	if form.Get("password") == "" || len(name) > maxName {
		return a.showLogin(c, http.StatusUnprocessableEntity, next, "", w.say("login.empty"))
	}
	name = or(name, bootstrap.name)
	ctx, address := c.Request().Context(), server.ClientIP(c)
	count, err := a.countLogin(ctx, name, address)
	if err != nil {
		a.logger.ErrorContext(ctx, "login attempts could not be counted", "error", err)
		return a.showLogin(c, http.StatusServiceUnavailable, next, name, w.say("login.unavailable"))
	}
	if !count.Admitted {
		a.logger.WarnContext(ctx, "login refused: too many attempts", "network", network(address))
		return a.tooMany(c, next, name, count.RetryAfter())
	}
	who, p, err := a.account(ctx, name)
	if err != nil {
		return err
	}
	right, err := a.isPassword(ctx, p, form.Get("password"))
	if err != nil {
		return err
	}
	if !right {
		a.logger.WarnContext(ctx, "login failed", "network", network(address))
		return a.showLogin(c, http.StatusUnauthorized, next, name, w.say("login.wrong")+" "+w.plural("login.left", left(count)))
	}
	if err := a.begin(c, who, p); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, orStart(next))
}

func (a *Admin) tooMany(c echo.Context, next, name string, wait time.Duration) error {
	w := wordsFor(c.Request())
	c.Response().Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
	return a.showLogin(c, http.StatusTooManyRequests, next, name, w.say("login.limited", "wait", w.wait(wait)))
}

// isPassword takes its turn: argon2id is slow and takes its memory on purpose. Where there is no password to compare with,
// it is slow as well.
func (a *Admin) isPassword(ctx context.Context, p password, typed string) (bool, error) {
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
		if !p.isSet() {
			nobodys.is(typed)
			return false, nil
		}
		return p.is(typed), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (a *Admin) logout(c echo.Context) error {
	ctx := c.Request().Context()
	v, ok, err := a.current(c)
	if err == nil && ok {
		err = a.log.EndSession(ctx, v.ID)
	}
	if err != nil {
		return a.unreadable(ctx, err)
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
