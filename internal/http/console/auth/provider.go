package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/openid"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// Provider is an OpenID Connect provider through which people may log in. A person gets the account
// whose identity equals the person's name at the provider. A person without such an account gets a
// role from the role claim. The map Roles gives a role for some values of this claim, and the
// person gets the highest of these roles. A person without an account and without a role has no
// access.
type Provider struct {
	Client      *openid.Provider
	Title       string          // title that people read
	Fingerprint string          // identifies the provider, client, name claim and role claim; when one changes, sessions end
	Roles       map[string]Role // by the value of the claim for roles
}

// These are the paths of a login through the provider, which sends browsers back to
// ProviderCallbackPath.
const (
	providerStartPath    = "/admin/oidc/start"
	ProviderCallbackPath = "/admin/oidc/callback"
)

// viaProvider marks the sessions that began with a login through the provider. If a person has no
// account, viaProvider is also the prefix of the person's name.
const viaProvider = "oidc"

// oauthStateLife is how long a person may take at the provider.
const oauthStateLife = 10 * time.Minute

// oauthState is the state of a login. The browser keeps the state in sealed form while the person
// is at the provider.
type oauthState struct {
	openid.LoginAttempt
	Next string `json:"to"`
}

// Each login has its own cookie, since a browser may log in at the provider in several tabs at
// once. The cookie's name is oauthStateCookie followed by the login's state. A browser keeps at
// most maxOAuthStates such cookies.
const (
	oauthStateSealLabel = "provider"
	oauthStateCookie    = sessionCookieName + "-provider-"
	maxOAuthStates      = 8
)

// startProviderLogin answers with a page that sends the browser to the identity provider. A
// redirect would fail, because this request is a posted form. Browsers apply the
// Content-Security-Policy form-action also to the redirect after a form, and this policy allows
// only our own site.
func (a *Auth) startProviderLogin(c echo.Context, form url.Values) error {
	next := consolePageOrEmpty(form.Get("next"))
	address, attempt, err := a.Provider.Client.Begin(c.Request().Context())
	if err != nil {
		return a.showProviderError(c, next, err)
	}
	value, err := seal(a, oauthStateSealLabel, nil, oauthState{attempt, next}, oauthStateLife)
	if err != nil {
		return err
	}
	var kept []string
	for _, cookie := range c.Cookies() { // the oldest first (RFC 6265 section 5.4)
		if state, is := strings.CutPrefix(cookie.Name, cookieNameFor(c, oauthStateCookie)); is {
			kept = append(kept, state)
		}
	}
	for len(kept) >= maxOAuthStates {
		c.SetCookie(newStateCookie(c, kept[0], "", -1))
		kept = kept[1:]
	}
	c.SetCookie(newStateCookie(c, attempt.State, value, int(oauthStateLife/time.Second)))
	return a.showRedirectPage(c, address)
}

// showRedirectPage answers with a page that opens the address without a click.
func (a *Auth) showRedirectPage(c echo.Context, address string) error {
	page := layout.NewPage(c, "onward.title", "")
	page.RedirectAddress = address
	return a.layout.Show(c, http.StatusOK, "onward", page)
}

// finishProviderLogin handles the redirect from the provider. It answers with a page that leads to
// the console. A redirect would fail: the new cookie is SameSite=Strict, and browsers do not send
// such a cookie in a chain of redirects that began at another site.
func (a *Auth) finishProviderLogin(c echo.Context) error {
	state := c.QueryParam("state")
	sealed, ok := unseal[oauthState](a, oauthStateSealLabel, nil, cookieValue(c, oauthStateCookie+state))
	w := layout.Words(c)
	if ok {
		c.SetCookie(newStateCookie(c, state, "", -1))
	} else if _, in, err := a.currentSession(c); in && err == nil { // the person reloaded the page
		return a.showRedirectPage(c, startPagePath)
	} else {
		return a.showLogin(c, http.StatusBadRequest, "", "", w.Get("provider.late"))
	}
	ctx := c.Request().Context()
	count, err := a.attempts.take(ctx, providerLoginRules, networkBuckets(viaProvider, server.ClientIP(c)))
	if answered, err := a.answerIfRefused(c, count, err, sealed.Next, ""); answered {
		return err
	}
	if fresh, err := a.attempts.useOnce(ctx, sealed.State, 2*oauthStateLife); err != nil || !fresh {
		a.logger.WarnContext(ctx, "OpenID login response replayed", "network", clientNetwork(c), "error", err,
			logs.SeeConsole)
		return a.showLogin(c, http.StatusBadRequest, sealed.Next, "", w.Get("provider.late"))
	}
	person, err := a.Provider.Client.Finish(ctx, sealed.LoginAttempt, c.QueryParams())
	if err != nil {
		return a.showProviderError(c, sealed.Next, err)
	}
	who, s, err := a.principalOfPerson(ctx, person)
	if err != nil {
		return err
	}
	if !who.isSet() {
		a.logger.WarnContext(ctx, "OpenID login refused: no account or role", "network", clientNetwork(c),
			logs.SeeConsole)
		return a.showLogin(c, http.StatusForbidden, sealed.Next, "",
			w.Get("provider.noaccess", "provider", a.Provider.Title))
	}
	if err := a.beginSession(c, who, s, actionLogin); err != nil {
		return err
	}
	return a.showRedirectPage(c, cmp.Or(sealed.Next, startPagePath))
}

// showProviderError shows the login page with the reason why the login through the provider failed.
// An error of another type than *openid.Error is returned instead.
func (a *Auth) showProviderError(c echo.Context, next string, err error) error {
	ctx := c.Request().Context()
	known, ok := errors.AsType[*openid.Error](err)
	if !ok {
		return err
	}
	a.logger.WarnContext(ctx, "OpenID login failed", "kind", string(known.Kind), "reason", known.Why,
		"network", clientNetwork(c), logs.SeeConsole)
	status := map[openid.ErrorKind]int{
		openid.Unavailable: http.StatusServiceUnavailable,
		openid.Untrusted:   http.StatusUnauthorized,
	}[known.Kind]
	if status == 0 {
		status = http.StatusForbidden
	}
	return a.showLogin(c, status, next, "",
		layout.Words(c).Get("provider."+string(known.Kind), "provider", a.Provider.Title))
}

// principalOfPerson returns the principal of a person whom the provider identified, and the fields
// of a new session. If the person has an account, the principal is that account. Otherwise the
// principal is an actor with the role that the claims give. If the person has no access, the
// principal is zero and the error is nil.
func (a *Auth) principalOfPerson(ctx context.Context, person openid.Identity) (principal, store.Session, error) {
	s := store.Session{Via: viaProvider}
	known, err := a.Accounts.AccountByIdentity(ctx, person.Name)
	switch {
	case err == nil:
		return a.principalByIdentity(known), s, nil
	case !errors.Is(err, fault.NotFound):
		return principal{}, s, err
	}
	who := Actor{Name: viaProvider + ":" + person.Name}
	for _, value := range person.RoleValues {
		if role := a.Provider.Roles[value]; roleRanks[role] > roleRanks[who.Role] {
			who.Role, s.Granted = role, value
		}
	}
	if who.Role == "" {
		return principal{}, s, nil
	}
	return a.newProviderPrincipal(who, person.Name), s, nil
}

// providerPrincipal returns the present principal of a session that began with a login through the
// provider. It returns the zero principal if the settings no longer have a provider, or if the
// session's account is closed or has no identity. For a person who logged in without an account, it
// returns the zero principal if the person now has an account, or if the settings no longer give
// the person's role.
func (a *Auth) providerPrincipal(ctx context.Context, s store.Session) (principal, error) {
	if a.Provider == nil {
		return principal{}, nil
	}
	name, mapped := strings.CutPrefix(s.Account, viaProvider+":")
	find := a.Accounts.Account
	if mapped {
		find = a.Accounts.AccountByIdentity
	}
	known, err := find(ctx, name)
	switch {
	case err != nil && !errors.Is(err, fault.NotFound):
		return principal{}, err
	case mapped && err != nil && a.Provider.Roles[s.Granted] != "":
		return a.newProviderPrincipal(Actor{s.Account, a.Provider.Roles[s.Granted]}, name), nil
	case mapped || err != nil:
		return principal{}, nil // the role is lost, or the person now has an account and must log in again
	}
	return a.principalByIdentity(known), nil
}

// principalByIdentity returns the principal of an account to which people log in through the
// provider. If the account is closed or has no identity, the principal is zero.
func (a *Auth) principalByIdentity(known store.Account) principal {
	if !known.DisabledAt.IsZero() || known.Identity == "" {
		return principal{}
	}
	return a.newProviderPrincipal(Actor{known.Name, Role(known.Role)}, known.Identity)
}

// newProviderPrincipal returns the actor with a credential. The credential is made from the
// provider's fingerprint and from name, the person's name at the provider.
func (a *Auth) newProviderPrincipal(who Actor, name string) principal {
	return principal{
		who,
		credential{identity: sha256.Sum256([]byte("provider\x00" + a.Provider.Fingerprint + "\x00" + name))},
	}
}

// newStateCookie returns the cookie of a login through the provider. The cookie is SameSite=Lax,
// because browsers must send it with the redirect from the provider.
func newStateCookie(c echo.Context, state, value string, maxAge int) *http.Cookie {
	cookie := newCookie(c, oauthStateCookie+state, value, maxAge)
	cookie.SameSite = http.SameSiteLaxMode
	return cookie
}
