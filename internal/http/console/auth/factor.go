package auth

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/code"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// These are labels of seals (see keys.Ring). SecondFactorSealLabel is for the second factors in the
// database. enrolSealLabel is for a new secret. A page keeps the new secret until the first code
// confirms it.
const (
	SecondFactorSealLabel = "second factor"
	enrolSealLabel        = "second factor to be"
)

const (
	codePath   = "/admin/login/code"
	factorPath = "/admin/factor"
)

// codeView is the data of the page that asks for the code after the password.
type codeView struct {
	layout.Page
	Next    string
	Problem string
}

func (a *Auth) codePage(c echo.Context) error {
	next := consolePageOrEmpty(c.QueryParam("next"))
	switch _, ok, err := a.sessionAwaitingCode(c); {
	case err != nil:
		return err
	case !ok:
		return c.Redirect(http.StatusSeeOther, cmp.Or(next, startPagePath))
	}
	return a.showCodePage(c, http.StatusOK, next, "")
}

// sessionAwaitingCode returns the session of the request. It also returns true if the session lacks
// only the code of the second factor.
func (a *Auth) sessionAwaitingCode(c echo.Context) (session, bool, error) {
	v, ok, err := a.currentSession(c)
	return v, ok && v.lacks == lacksCode, err
}

func (a *Auth) showCodePage(c echo.Context, status int, next, problem string) error {
	v := codeView{Page: layout.NewPage(c, "code.title", ""), Next: next, Problem: problem}
	v.ReturnAddress = withReturnPage(codePath, next)
	return a.layout.Show(c, status, "code", v)
}

// submitCode checks the code of the second factor. If the code is right, submitCode replaces the
// session, so that a session cookie from before the code becomes worthless.
func (a *Auth) submitCode(c echo.Context, form url.Values) error {
	next := consolePageOrEmpty(form.Get("next"))
	v, ok, err := a.sessionAwaitingCode(c)
	switch {
	case err != nil:
		return err
	case !ok:
		return c.Redirect(http.StatusSeeOther, cmp.Or(next, startPagePath))
	}
	v.who.attachTo(c)
	problem, err := a.tryCode(c, v, form.Get("code"))
	switch {
	case err != nil:
		return err
	case problem != nil:
		return a.showCodePage(c, problem.status, next, problem.text)
	}
	if err := a.replaceSession(c, v); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, cmp.Or(next, startPagePath))
}

// replaceSession begins a new session that has passed the second factor. Then it ends the old
// session v, which had not passed it. If the account may no longer log in, replaceSession only ends
// v.
func (a *Auth) replaceSession(c echo.Context, v session) error {
	ctx := c.Request().Context()
	who, err := a.principalOrNone(ctx, v.Session)
	if err == nil && who.isSet() {
		err = a.beginSession(c, who, store.Session{FactorPassed: true}, actionLogin)
	}
	if err != nil {
		return err
	}
	return a.Sessions.EndSession(ctx, v.ID)
}

// codeRefusal is the status and the text of a refused code.
type codeRefusal struct {
	status int
	text   string
}

// codeFormat is the format of all authenticator apps' codes.
var codeFormat = code.Format{Alphabet: code.Digits, Length: int(totpOptions.Digits)}

// findCode returns the code in a typed text. It accepts the same forms as the pages on which people
// type verification codes. If there is no code, it returns the refusal to show.
func findCode(typed string, w texts.Words) (string, *codeRefusal) {
	found, err := codeFormat.Find(typed)
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok && bad.Reason == "required" {
		return "", &codeRefusal{http.StatusUnprocessableEntity, w.Get("code.empty")}
	}
	if err != nil {
		return "", &codeRefusal{http.StatusUnprocessableEntity, w.Get("code.form")}
	}
	return found, nil
}

// tryCode checks a code of the account's second factor. Each code is valid once. tryCode counts the
// attempt before it compares the code. It does not count a text that cannot be a code. If the code
// is right, the result is nil. Otherwise the result is the refusal to show.
func (a *Auth) tryCode(c echo.Context, v session, typed string) (*codeRefusal, error) {
	ctx, w := c.Request().Context(), layout.Words(c)
	code, refusal := findCode(typed, w)
	if refusal != nil {
		return refusal, nil
	}
	count, err := a.attempts.take(ctx, secondFactorRules, accountBucket("code", accountScope, v.Account))
	if err != nil {
		a.logger.ErrorContext(ctx, "could not count second-factor attempts", "error", err, logs.SeeConsole)
		return &codeRefusal{http.StatusServiceUnavailable, w.Get("login.unavailable")}, nil
	}
	if !count.Admitted {
		a.logger.WarnContext(ctx, "second factor refused: too many attempts", "account", v.Account, "network",
			clientNetwork(c),
			logs.SeeConsole)
		server.SetRetryAfter(c, count.RetryAfter())
		return &codeRefusal{http.StatusTooManyRequests, w.Get("login.limited", "wait", w.Wait(count.RetryAfter()))}, nil
	}
	right, err := a.consumeCode(c, v, code)
	if err != nil || right {
		return nil, err
	}
	a.logger.WarnContext(ctx, "second factor refused: code wrong or already used", "account", v.Account, "network",
		clientNetwork(c),
		logs.SeeConsole)
	return &codeRefusal{http.StatusUnauthorized, w.Get("code.wrong") + " " + w.Plural("login.left", attemptsLeft(count))},
		nil
}

// consumeCode reports whether a code is right for the account's second factor, and marks a right
// code as used.
func (a *Auth) consumeCode(c echo.Context, v session, code string) (bool, error) {
	ctx := c.Request().Context()
	f, has, err := a.secondFactorOf(ctx, v.Account)
	if err != nil || !has {
		return false, err
	}
	secret, err := a.Ring.Open(SecondFactorSealLabel, f.Sealed, []byte(v.Account))
	if err != nil {
		a.logger.ErrorContext(ctx, "could not decrypt second factor", "account", v.Account, "error", err,
			logs.SeeDefect)
		return false, fault.Unavailable // the code may be right, but the key that encrypted the secret was removed too early
	}
	step, right := matchTOTPStep(secret, code, a.now(), f.Step)
	if !right {
		return false, nil
	}
	// The secret is sealed again with the first key of the ring, so that older keys can leave the
	// ring.
	sealed, err := a.Ring.Seal(SecondFactorSealLabel, secret, []byte(v.Account))
	if err != nil {
		return false, err
	}
	return a.Factors.TakeTOTPStep(ctx, v.Account, step, f.Sealed, sealed)
}

// enrolTimeout is how long a person may take to set up an authenticator app.
const enrolTimeout = 15 * time.Minute
