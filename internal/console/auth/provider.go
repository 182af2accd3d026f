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

	"sendcode/internal/console/layout"
	"sendcode/internal/openid"
	"sendcode/internal/server"
	"sendcode/internal/store"
)

// Provider is a provider of OpenID Connect that people may log in by, and what its word is worth here. A person whom it names
// has the account of that identity. Without one they have the highest role that one of their values gives, and without
// such a value no access.
type Provider struct {
	Asked *openid.Provider
	Title string          // what people call it
	About string          // names provider, client and claim: sessions end when one of them changes
	Roles map[string]Role // by value of the claim for roles
}

// The addresses of a login by the provider. ProviderCallback is where it sends browsers back to.
const (
	providerStart    = "/admin/oidc/start"
	ProviderCallback = "/admin/oidc/callback"
)

// viaProvider says in a session how a person logged in, and begins the name of a person without an account.
const viaProvider = "oidc"

// stateLife is how long a person may take at the provider.
const stateLife = 10 * time.Minute

// oauthState is what the browser keeps while the person is at the provider, sealed.
type oauthState struct {
	openid.Attempt
	Next string `json:"to"`
}

const (
	stateLabel  = "provider"
	stateCookie = cookieName + "-provider"
)

// startProvider sends the browser to the identity provider. It uses a page, since browsers apply form-action, which allows this
// site only, to the redirects of a form.
func (a *Auth) startProvider(c echo.Context, form url.Values) error {
	next := consolePageOr(form.Get("next"))
	address, attempt, err := a.Provider.Asked.Begin(c.Request().Context())
	if err != nil {
		return a.notVouchedFor(c, next, err)
	}
	value, err := seal(a, stateLabel, nil, oauthState{attempt, next}, stateLife)
	if err != nil {
		return err
	}
	c.SetCookie(stateCookieWith(c, value, int(stateLife/time.Second)))
	return a.redirectPage(c, address)
}

// redirectPage answers with a page that leads to the address by itself.
func (a *Auth) redirectPage(c echo.Context, address string) error {
	page := layout.NewPage(c, "onward.title", "")
	page.Onward = address
	return a.layout.Show(c, http.StatusOK, "onward", page)
}

// finishProvider handles the provider's redirect back. It ends with a page that leads to the console, since a redirect chain from
// another site does not carry the new cookie (SameSite=Strict).
func (a *Auth) finishProvider(c echo.Context) error {
	kept, ok := unseal[oauthState](a, stateLabel, nil, cookieValue(c, stateCookie))
	c.SetCookie(stateCookieWith(c, "", -1))
	w := layout.Words(c)
	if !ok {
		return a.showLogin(c, http.StatusBadRequest, "", "", w.Get("provider.late"))
	}
	ctx := c.Request().Context()
	count, err := a.attempts.provider(ctx, server.ClientIP(c))
	if answered, err := a.uncounted(c, count, err, kept.Next, ""); answered {
		return err
	}
	if fresh, err := a.attempts.firstUse(ctx, kept.State, 2*stateLife); err != nil || !fresh {
		a.logger.WarnContext(ctx, "a login by the provider was brought twice", "network", networkOf(c), "error", err)
		return a.showLogin(c, http.StatusBadRequest, kept.Next, "", w.Get("provider.late"))
	}
	person, err := a.Provider.Asked.Finish(ctx, kept.Attempt, c.QueryParams())
	if err != nil {
		return a.notVouchedFor(c, kept.Next, err)
	}
	who, s, err := a.accountFor(ctx, person)
	if err != nil {
		return err
	}
	if !who.isSet() {
		a.logger.WarnContext(ctx, "the provider vouches for a person without access", "network", networkOf(c))
		return a.showLogin(c, http.StatusForbidden, kept.Next, "", w.Get("provider.noaccess", "provider", a.Provider.Title))
	}
	if err := a.begin(c, who, s, ActionLogin); err != nil {
		return err
	}
	return a.redirectPage(c, cmp.Or(kept.Next, startPage))
}

// notVouchedFor shows the login page with the reason why the login by the provider failed.
func (a *Auth) notVouchedFor(c echo.Context, next string, err error) error {
	ctx := c.Request().Context()
	known, ok := errors.AsType[*openid.Error](err)
	if !ok {
		return err
	}
	a.logger.WarnContext(ctx, "login by the provider failed", "kind", string(known.Kind), "why", known.Why,
		"network", networkOf(c))
	status := map[openid.Kind]int{openid.Unavailable: http.StatusServiceUnavailable, openid.Untrusted: http.StatusUnauthorized}[known.Kind]
	if status == 0 {
		status = http.StatusForbidden
	}
	return a.showLogin(c, status, next, "", layout.Words(c).Get("provider."+string(known.Kind), "provider", a.Provider.Title))
}

// accountFor returns who a person is here whom the provider identified, and a new session; refused if they have no access.
func (a *Auth) accountFor(ctx context.Context, person openid.Person) (holder, store.Session, error) {
	s := store.Session{Via: viaProvider}
	known, err := a.Store.AccountByIdentity(ctx, person.Name)
	switch {
	case err == nil:
		return a.byIdentity(known), s, nil
	case !errors.Is(err, store.ErrNotFound):
		return holder{}, s, err
	}
	who := Actor{Name: viaProvider + ":" + person.Name}
	for _, value := range person.Values {
		if role := a.Provider.Roles[value]; ranks[role] > ranks[who.Role] {
			who.Role, s.Granted = role, value
		}
	}
	if who.Role == "" {
		return holder{}, s, nil
	}
	return a.vouched(who, person.Name), s, nil
}

// vouchedFor returns who a session by the provider stands for now; refused if the account was closed or got another identity, or if the
// person's claims give no role any more.
func (a *Auth) vouchedFor(ctx context.Context, s store.Session) (holder, error) {
	if a.Provider == nil {
		return holder{}, nil
	}
	name, mapped := strings.CutPrefix(s.Account, viaProvider+":")
	find := a.Store.Account
	if mapped {
		find = a.Store.AccountByIdentity
	}
	known, err := find(ctx, name)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return holder{}, err
	case mapped && err != nil && a.Provider.Roles[s.Granted] != "":
		return a.vouched(Actor{s.Account, a.Provider.Roles[s.Granted]}, name), nil
	case mapped || err != nil:
		return holder{}, nil // the provider gives no role, or the person got an account meanwhile and must log in to it
	}
	return a.byIdentity(known), nil
}

// byIdentity returns who logs in to an account by the provider; refused if it is closed or has no identity.
func (a *Auth) byIdentity(known store.Account) holder {
	if !known.DisabledAt.IsZero() || known.Identity == "" {
		return holder{}
	}
	return a.vouched(Actor{known.Name, Role(known.Role)}, known.Identity)
}

// vouched returns the actor as one whom the provider identified by this name.
func (a *Auth) vouched(who Actor, name string) holder {
	return holder{who, credential{identity: sha256.Sum256([]byte("provider\x00" + a.Provider.About + "\x00" + name))}}
}

// stateCookieWith returns the cookie of a login by the provider. It is Lax, since it must come with the provider's redirect.
func stateCookieWith(c echo.Context, value string, maxAge int) *http.Cookie {
	cookie := cookieOf(c, stateCookie, value, maxAge)
	cookie.SameSite = http.SameSiteLaxMode
	return cookie
}
