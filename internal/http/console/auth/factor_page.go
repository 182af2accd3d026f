package auth

import (
	"crypto/rand"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// factorView is the data of the page for a person's own login. There the person sets up or removes
// the second factor, and can end all sessions.
type factorView struct {
	layout.Page
	Account    string
	Demanded   bool // the settings demand a second factor
	ByProvider bool // the person logged in through the identity provider, so the console asks for no second factor
	Has        bool
	Since      texts.DisplayTime
	Problem    string
	Done       string
	Next       string // the console page that was asked for before a second factor was demanded; may be empty

	Key          string       // the secret that is not yet confirmed
	Secret       string       // Key in groups of four
	Link         template.URL // opens an authenticator app on this device with the secret
	Picture      qrCode
	SealedSecret string // the secret, sealed for this session
}

func (a *Auth) factorPage(c echo.Context) error {
	return a.showFactorPage(c, sessionOf(c), http.StatusOK, factorView{})
}

func (a *Auth) showFactorPage(c echo.Context, s session, status int, v factorView) error {
	ctx, w := c.Request().Context(), layout.Words(c)
	v.Page, v.Demanded, v.ByProvider = layout.NewPage(c, "factor.title", "factor"), a.DemandFactor, s.Via == viaProvider
	v.Account, v.Next = s.Account, consolePageOrEmpty(c.FormValue("next"))
	v.ReturnAddress = withReturnPage(factorPath, v.Next)
	f, has, err := a.secondFactorOf(ctx, s.Account)
	if err != nil {
		return err
	}
	if has {
		v.Has, v.Since = true, w.Clock(f.MadeAt)
	}
	return a.layout.Show(c, status, "factor", v)
}

// changeFactor handles the forms of the second factor. The first form takes the password and begins
// a new factor. The second form takes a code of the new factor and confirms the factor. The third
// form takes a code of the confirmed factor and removes the factor.
func (a *Auth) changeFactor(c echo.Context, form url.Values) error {
	s, w := sessionOf(c), layout.Words(c)
	if s.Account == "" || s.Via == viaProvider {
		return a.showFactorPage(c, s, http.StatusForbidden, factorView{})
	}
	switch form.Get("do") {
	case "begin":
		return a.showSecretAfterPassword(c, s, form)
	case "confirm":
		return a.confirmFactor(c, s, form)
	case "remove":
		switch problem, err := a.tryCode(c, s, form.Get("code")); {
		case err != nil:
			return err
		case problem != nil:
			return a.showFactorPage(c, s, problem.status, factorView{Problem: problem.text})
		}
		return a.removeFactor(c, s)
	}
	return a.showFactorPage(c, s, http.StatusUnprocessableEntity, factorView{Problem: w.Get("factor.again")})
}

// showSecretAfterPassword shows a new secret if the typed password is right. Without the password,
// a thief of the session could add a factor and lock the owner out of the account.
func (a *Auth) showSecretAfterPassword(c echo.Context, s session, form url.Values) error {
	ctx, w := c.Request().Context(), layout.Words(c)
	count, err := a.attempts.takeLogin(ctx, s.Account, a.knownBrowserID(c, s.Account), server.ClientIP(c))
	if err != nil {
		a.logUncountedLogin(ctx, err)
		return a.showFactorPage(c, s, http.StatusServiceUnavailable, factorView{Problem: w.Get("login.unavailable")})
	}
	if !count.Admitted {
		server.SetRetryAfter(c, count.RetryAfter())
		return a.showFactorPage(c, s, http.StatusTooManyRequests,
			factorView{Problem: w.Get("login.limited", "wait", w.Wait(count.RetryAfter()))})
	}
	_, right, err := a.checkPassword(ctx, s.Account, form.Get("password"))
	if err != nil {
		return err
	}
	if !right {
		problem := w.Get("login.wrong") + " " + w.Plural("login.left", attemptsLeft(count.Decision))
		return a.showFactorPage(c, s, http.StatusUnauthorized, factorView{Problem: problem})
	}
	a.attempts.refund(ctx, count)
	secret := make([]byte, totpSecretSize)
	rand.Read(secret) // never fails: the program stops when the system has no randomness
	return a.showSecret(c, http.StatusOK, s, secret, "")
}

func (a *Auth) showSecret(c echo.Context, status int, s session, secret []byte, problem string) error {
	address, err := otpauthURL(c.Request().Host, s.Account, secret)
	if err != nil {
		return err
	}
	v := factorView{Problem: problem, Link: template.URL(address), Key: encodeSecret(secret)}
	v.Secret = groupByFour(v.Key)
	if v.Picture, err = drawQRCode(address); err != nil {
		return err
	}
	if v.SealedSecret, err = seal(a, enrolSealLabel, s.ID[:], secret, enrolTimeout); err != nil {
		return err
	}
	return a.showFactorPage(c, s, status, v)
}

// groupByFour puts a space between groups of four characters.
func groupByFour(s string) string {
	var groups []string
	for group := range slices.Chunk([]byte(s), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, " ")
}

// confirmFactor stores the new secret if the typed code is right. A right code proves that the
// authenticator app has the secret. The code is then marked as used.
func (a *Auth) confirmFactor(c echo.Context, s session, form url.Values) error {
	ctx, w := c.Request().Context(), layout.Words(c)
	secret, ok := unseal[[]byte](a, enrolSealLabel, s.ID[:], form.Get("kept"))
	if !ok {
		return a.showFactorPage(c, s, http.StatusUnprocessableEntity, factorView{Problem: w.Get("factor.again")})
	}
	code, refusal := findCode(form.Get("code"), w)
	if refusal != nil {
		return a.showSecret(c, refusal.status, s, secret, refusal.text)
	}
	step, right := matchTOTPStep(secret, code, a.now(), 0)
	if !right {
		return a.showSecret(c, http.StatusUnprocessableEntity, s, secret, w.Get("factor.unconfirmed"))
	}
	sealed, err := a.Ring.Seal(SecondFactorSealLabel, secret, []byte(s.Account))
	if err != nil {
		return err
	}
	act, err := a.NewAuditEntry(c, actionFactor+".add")
	if err != nil {
		return err
	}
	act.Target = s.Account
	added, err := a.Factors.AddSecondFactor(ctx, store.SecondFactor{Account: s.Account, Sealed: sealed, Step: step}, act)
	switch {
	case err != nil:
		return err
	case !added:
		return a.showFactorPage(c, s, http.StatusConflict, factorView{Problem: w.Get("factor.again")})
	}
	if err := a.replaceSession(c, s); err != nil {
		return err
	}
	return a.showFactorPage(c, s, http.StatusOK, factorView{Done: w.Get("factor.added")})
}

// removeFactor removes the second factor. The caller has checked a code of it.
func (a *Auth) removeFactor(c echo.Context, s session) error {
	act, err := a.NewAuditEntry(c, actionFactor+".remove")
	if err != nil {
		return err
	}
	act.Target = s.Account
	if _, err = a.Factors.DropSecondFactor(c.Request().Context(), s.Account, act); err != nil {
		return err
	}
	return a.showFactorPage(c, s, http.StatusOK, factorView{Done: layout.Words(c).Get("factor.removed")})
}
