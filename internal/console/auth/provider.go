package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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

// errands is how long a person may take at the provider.
const errands = 10 * time.Minute

// errand is what the browser keeps while the person is at the provider, sealed.
type errand struct {
	openid.Attempt
	Next string `json:"to"`
}

const (
	errandLabel  = "provider"
	errandCookie = cookieName + "-provider"
)

// startProvider sends the browser to the identity provider. It uses a page, since browsers apply form-action, which allows this
// site only, to the redirects of a form.
func (a *Auth) startProvider(c echo.Context, form url.Values) error {
	next := consolePageOr(form.Get("next"))
	address, attempt, err := a.Provider.Asked.Begin(c.Request().Context())
	if err != nil {
		return a.notVouchedFor(c, next, err)
	}
	if err := a.keepErrand(c, errand{attempt, next}); err != nil {
		return err
	}
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
	kept, ok := a.errandOf(c)
	c.SetCookie(errandWith(c, "", -1))
	w := layout.Words(c)
	if !ok {
		return a.showLogin(c, http.StatusBadRequest, "", "", w.Get("provider.late"))
	}
	ctx := c.Request().Context()
	count, err := a.attempts.provider(ctx, server.ClientIP(c))
	if answered, err := a.uncounted(c, count, err, kept.Next, ""); answered {
		return err
	}
	if fresh, err := a.attempts.firstUse(ctx, digest(kept.State), 2*errands); err != nil || !fresh {
		a.logger.WarnContext(ctx, "a login by the provider was brought twice", "network", networkOf(c), "error", err)
		return a.showLogin(c, http.StatusBadRequest, kept.Next, "", w.Get("provider.late"))
	}
	person, err := a.Provider.Asked.Finish(ctx, kept.Attempt, c.QueryParams())
	if err != nil {
		return a.notVouchedFor(c, kept.Next, err)
	}
	who, p, s, err := a.accountFor(ctx, person)
	if err != nil {
		return err
	}
	if !p.set {
		a.logger.WarnContext(ctx, "the provider vouches for a person without access", "network", networkOf(c))
		return a.showLogin(c, http.StatusForbidden, kept.Next, "", w.Get("provider.noaccess", "provider", a.Provider.Title))
	}
	if err := a.begin(c, who, p, s, ActionLogin); err != nil {
		return err
	}
	return a.redirectPage(c, orStart(kept.Next))
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

// accountFor returns the account of a person whom the provider identified, and a new session; without a proof they have no access.
func (a *Auth) accountFor(ctx context.Context, person openid.Person) (Actor, proof, store.Session, error) {
	s := store.Session{Via: viaProvider}
	known, err := a.Store.AccountOf(ctx, person.Name)
	switch {
	case err == nil:
		who, p := a.byIdentity(known)
		return who, p, s, nil
	case !errors.Is(err, store.ErrNotFound):
		return Actor{}, proof{}, s, err
	}
	who := Actor{Name: viaProvider + ":" + person.Name}
	for _, value := range person.Values {
		if role := a.Provider.Roles[value]; ranks[role] > ranks[who.Role] {
			who.Role, s.Granted = role, value
		}
	}
	if who.Role == "" {
		return Actor{}, proof{}, s, nil
	}
	return who, a.providerProof(person.Name), s, nil
}

// vouchedFor returns who a session by the provider stands for now. The proof is empty if the account was closed or got another
// identity, or if the person's claims give no role any more.
func (a *Auth) vouchedFor(ctx context.Context, s store.Session) (Actor, proof, error) {
	if a.Provider == nil {
		return Actor{}, proof{}, nil
	}
	name, mapped := strings.CutPrefix(s.Account, viaProvider+":")
	find := a.Store.Account
	if mapped {
		find = a.Store.AccountOf
	}
	known, err := find(ctx, name)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Actor{}, proof{}, err
	case mapped && err != nil && a.Provider.Roles[s.Granted] != "":
		return Actor{s.Account, a.Provider.Roles[s.Granted]}, a.providerProof(name), nil
	case mapped || err != nil:
		return Actor{}, proof{}, nil // a person who has an account by now logs in to that
	}
	who, p := a.byIdentity(known)
	return who, p, nil
}

// byIdentity returns who an account stands for that is logged in to by the provider.
func (a *Auth) byIdentity(known store.Account) (Actor, proof) {
	if !known.DisabledAt.IsZero() || known.Identity == "" {
		return Actor{}, proof{}
	}
	return Actor{known.Name, Role(known.Role)}, a.providerProof(known.Identity)
}

// providerProof returns the proof that the provider identified a person of this name.
func (a *Auth) providerProof(name string) proof {
	return proof{set: true, identity: sha256.Sum256([]byte("provider\x00" + a.Provider.About + "\x00" + name))}
}

func digest(state string) string {
	sum := sha256.Sum256([]byte(state))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// keepErrand stores the state of a login by the provider in a cookie of this browser.
func (a *Auth) keepErrand(c echo.Context, e errand) error {
	value, err := seal(a, errandLabel, nil, e, errands)
	if err == nil {
		c.SetCookie(errandWith(c, value, int(errands/time.Second)))
	}
	return err
}

// errandWith returns that cookie. It is Lax, since it must come with the provider's redirect.
func errandWith(c echo.Context, value string, maxAge int) *http.Cookie {
	cookie := cookieOf(c, errandCookie, value, maxAge)
	cookie.SameSite = http.SameSiteLaxMode
	return cookie
}

func (a *Auth) errandOf(c echo.Context) (e errand, ok bool) {
	e, ok = unseal[errand](a, errandLabel, nil, cookieValue(c, errandCookie))
	return e, ok && (e.Next == "" || isConsolePage(e.Next))
}
