package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// Key is one API key of an app. The service stores the hash of the key, not the key itself.
type Key struct {
	App     string
	ID      string // unique within its app
	Kind    verification.CallerKind
	SHA256  [sha256.Size]byte
	Expires time.Time               // the key is refused from then on; zero: never
	Origins []string                // of a browser's key: the origins of the pages that may use it
	Own     *verification.PageOffer // for the key of our page: what the page offers; only pages of this service may use the key
	Scopes  []KeyScope              // rights of a secret key; none: everything
	Known   bool                    // requests with this secret key are for people whom the back end knows, unless a request says otherwise
	Local   bool                    // this process generated the key, and accepts it only from programs on this machine

	used atomic.Int64 // ms since 1970
}

// LastUsed returns when a request last used this key. The result is zero if no request has used the
// key since the process started.
func (k *Key) LastUsed() time.Time {
	if ms := k.used.Load(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// Keys are all keys of all apps.
type Keys []*Key

// keyFor returns the key that equals the presented text. If no key equals the text, it returns nil.
// It compares the text with every key in constant time, so that the duration does not reveal that a
// text is nearly right.
func (k Keys) keyFor(presented string) (found *Key) {
	sum := sha256.Sum256([]byte(presented))
	for _, key := range k {
		if subtle.ConstantTimeCompare(sum[:], key.SHA256[:]) == 1 {
			found = key
		}
	}
	return found
}

// authenticate finds the API key of a request, and then calls the handler of the route. In an
// overload, it refuses the request before it reads the key, because a cheap refusal leaves more
// time for admitted requests. It also returns an error in these cases:
//
//   - the key is missing, unknown or expired
//   - the key lacks the scope that the route needs, or the route is only for secret keys
//   - a public key comes from a page of an origin that the key does not allow, or the browser's
//     network sent too many requests
//   - a secret key comes from a page of another origin
//   - a key that this process generated comes from another machine, or through a proxy
func (a *API) authenticate(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r.overloadError != nil {
			if err := r.overloadError(a.services.Codes); err != nil {
				return err
			}
		}
		presented, ok := server.BearerToken(c)
		if !ok {
			return &server.Problem{
				Kind:   server.Unauthorized,
				Detail: "The request carries no API key: send Authorization: Bearer sk_…",
			}
		}
		key, now := a.Keys().keyFor(presented), time.Now()
		// only browsers send Sec-Fetch-Site; other programs also send Origin, or like Node's fetch,
		// Sec-Fetch-Mode
		site := c.Request().Header.Get("Sec-Fetch-Site")
		switch {
		case key == nil && (presented == "" || strings.ContainsAny(presented, `$%'"<{…`)):
			return &server.Problem{
				Kind:   server.Unauthorized,
				Detail: "The API key is empty, or a placeholder: the shell did not put the variable's value there.",
			}
		case key == nil:
			return &server.Problem{Kind: server.Unauthorized, Detail: "The API key is not known here."}
		case key.Local && !server.IsLocal(c.Request()):
			return &server.Problem{
				Kind: server.Forbidden,
				Detail: "This key is a generated one, which works for programs on this machine alone, and not through a proxy: " +
					"make one with `sendcode key`.",
			}
		case !key.Expires.IsZero() && !now.Before(key.Expires):
			return &server.Problem{Kind: server.Unauthorized, Detail: "The API key has expired."}
		case key.Kind == verification.BackEnd && (site == "cross-site" || site == "same-site"):
			return &server.Problem{Kind: server.SecretInPage}
		case key.Kind == verification.Browser && !key.mayBeUsedBy(c.Request()):
			return &server.Problem{
				Kind:   server.Forbidden,
				Detail: "A public key works on pages of its app's origins only; a back end needs a secret key.",
			}
		}
		if key.Kind == verification.BackEnd {
			server.AdoptRequestID(c)
		}
		logs.AddAttrs(c.Request().Context(), slog.String("app", key.App), slog.String("key", key.ID))
		who := verification.Caller{App: key.App, Kind: key.Kind, Page: key.Own}
		if key.Known {
			who.Trust = verification.ImpliedKnown
		}
		// The IP address of a back end is not that of the end user. The back end may send the end
		// user's address in client_ip.
		if key.Kind == verification.Browser {
			who.IP = server.ClientIP(c)
			if a.services.Requests != nil {
				if wait, ok := a.services.Requests.Admit(who.IP); !ok {
					return server.TooManyRequestsProblem(wait)
				}
			}
		}
		key.used.Store(now.UnixMilli())
		switch {
		case len(key.Scopes) > 0 && !slices.Contains(key.Scopes, r.scope): // a key without scopes has all
			return &server.Problem{
				Kind: server.ScopeMissing, Detail: "This request needs a key with the scope " + string(r.scope) + ".",
				Extra: map[string]any{"scope": r.scope},
			}
		case r.onlySecretKeysMay != "" && key.Kind != verification.BackEnd:
			return &server.Problem{Kind: server.Forbidden, Detail: "Only secret keys may " + r.onlySecretKeysMay + "."}
		}
		err := r.handler(c, who)
		if errors.Is(err, fault.NotFound) {
			return &server.Problem{Kind: server.NotFound, Detail: r.notFoundDetail}
		}
		return err
	}
}

// mayBeUsedBy reports whether the page that sends the request may use this key. The key must be a
// public key, which is for browsers.
func (k *Key) mayBeUsedBy(r *http.Request) bool {
	if k.Own != nil {
		return isFromOwnPage(r)
	}
	return isFromOriginsOrSelf(r, k.Origins)
}

// NewPageKey returns the key of an app's page. Like every public API key (pk_…), it is no secret,
// because every visitor of the page can read it. It identifies the app and limits what a visitor
// can request.
func NewPageKey(app string, offers verification.PageOffer) *Key {
	return &Key{App: app, ID: "page", Kind: verification.Browser, Own: &offers, SHA256: sha256.Sum256([]byte(PageKey(app)))}
}

// PageKey returns the text of the key that NewPageKey returns.
func PageKey(app string) string { return "pk_page_" + app }

// checkOffer returns an error if a request of our hosted page has labels such as a reference, or a
// channel or purpose that the page does not offer. The channel and purpose of a resend are not
// checked here. They are those of its verification, and Caller.Page limits them.
func checkOffer(ask verification.Request) error {
	switch p := ask.Page; {
	case p == nil:
	case ask.Labels != store.Labels{}: // the app would mistake the labels in its events for its own
		return fault.Invalid("reference", "not_allowed", "The page of the app takes no reference.")
	case ask.Resend != "":
	case !p.HasChannel(recipient.Channel(ask.Channel)):
		return fault.Invalid("channel", "not_allowed", "The page of the app does not offer this channel.")
	case !p.HasPurpose(ask.Purpose):
		return errNotOnPage
	}
	return nil
}

var errNotOnPage = fault.Invalid("purpose", "unknown", "The page of the app has no purpose of this name.")

// KeyScope is a right of a secret key.
type KeyScope string

// These are the values of a key's scopes in the settings.
const (
	KeyScopeSend  KeyScope = "send"  // request codes, and cancel verifications
	KeyScopeCheck KeyScope = "check" // check codes, report outcomes, and redeem proofs
	KeyScopeRead  KeyScope = "read"  // read verifications, quotas and channels
	KeyScopeLimit KeyScope = "limit" // take, peek and record under /v1/limits
)
