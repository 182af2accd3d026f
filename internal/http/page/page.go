// Package page serves the page on which people ask for a code, watch the countdown to the next one,
// and enter the code. On a developer's machine it also serves the mailbox with the mails.
//
// Like package api, it calls the use cases of package verification and knows nothing of Redis,
// Postgres or SMTP. Only the server has the state: each answer is one card, rendered from what the
// use cases return. A sealed cookie has the ID of the browser's verification. Forms are plain
// posts, answered with a redirect to the page; static/page.js sends them without leaving the page,
// and counts waits down.
//
//	GET /   cookie ─▶ Codes.Get ─▶ card ─▶ HTML
//	POST /  form ─▶ Codes.Send or Codes.Check ─▶ cookie ─▶ 303 /
package page

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/http/server"
	"sendcode/internal/verify/verification"
	"sendcode/web"
)

// codeService has the use cases that the page needs. Implementation: *verification.Service.
type codeService interface {
	Send(ctx context.Context, ask verification.Request) (verification.Answer, error)
	Get(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Check(ctx context.Context, c verification.Caller, id, code string) (verification.CheckResult, error)
	Channels(purpose string) ([]verification.ChannelInfo, error)
}

// AppPage has the settings of the page of one app.
type AppPage struct {
	App        string // its name
	Title      string // its name for people
	Brand      message.Brand
	Sender     string   // address that the mails come from, shown as a hint where to look
	ReturnURLs []string // origins and paths that a person may be returned to once the code was right
	Purposes   []Purpose
}

// Purpose is a purpose of an app's page. The first one is for visits that name none.
type Purpose struct {
	Name    string
	Code    code.Shape               // of new codes; each verification has its own
	Title   func(lang string) string // what the codes are for, in words; nil, or "" for a language: nothing is said
	Subject func(lang string) string // of the mails, to look for; nil, or "" for a language: only the sender is named
}

// Config has the settings and services of a page. App, Codes, Cookies and Logger are required.
type Config struct {
	AppPage // for visits that name no app
	// Channels are the channels that the page offers, in this order, if the service has them;
	// empty: all, mail first.
	Channels []recipient.Channel
	Country  string // country of phone numbers if the browser names none that is served; empty: none
	Codes    codeService
	Cookies  *keys.Ring       // seals what cookies hold
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger
	Requests requestLimiter // nil: no limit
	// References makes the reference that a returning person brings, by which the app looks the
	// verification up. Required if an app has ReturnURLs.
	References referenceIssuer
}

// requestLimiter bounds the requests of a network. Implementation: *server.RequestLimiter.
type requestLimiter interface {
	Admit(ip netip.Addr) (wait time.Duration, ok bool)
}

// Page serves the page. It is safe for concurrent use.
type Page struct {
	Config
	purpose Purpose
	// inURL: the page's address names the app, since the app is not the one for visits that name
	// none
	inURL        bool
	purposeInURL bool                       // the page's address names the purpose, likewise
	current      *atomic.Pointer[[]AppPage] // the first one is for visits that name no app
	clicks       *sync.Map                  // functions by clickID; see checkOnce
	lines        *logs.Throttle             // of log lines that visitors can cause
}

// New returns the page.
func New(c Config) *Page {
	if c.Now == nil {
		c.Now = time.Now
	}
	u := &Page{
		Config: c, current: &atomic.Pointer[[]AppPage]{}, clicks: &sync.Map{},
		lines: &logs.Throttle{Every: time.Minute},
	}
	u.Configure(c.AppPage)
	return u
}

// Configure replaces the apps that have a page. The first one is for visits that name none.
// Requests under way keep the old ones.
func (u *Page) Configure(apps ...AppPage) { u.current.Store(&apps) }

// errNoPurpose is the error of a request that names a purpose which the app's page does not have.
var errNoPurpose = &server.Problem{Kind: server.NotFound, Detail: "The page has no purpose of this name."}

// forRequest returns a copy of the page for the app and the purpose that the request names; later
// calls of Configure do not change it. It returns errNoPurpose for an unknown purpose, and another
// error for an unknown app.
func (u *Page) forRequest(c echo.Context) (*Page, error) {
	now, name, purpose := *u, c.QueryParam("app"), c.QueryParam("purpose")
	apps := *u.current.Load()
	i := slices.IndexFunc(apps, func(a AppPage) bool { return name == "" || a.App == name })
	if i < 0 {
		return nil, &server.Problem{Kind: server.NotFound, Detail: "There is no app of this name that has a page here."}
	}
	now.AppPage, now.inURL = apps[i], i > 0
	i = slices.IndexFunc(now.Purposes, func(p Purpose) bool { return purpose == "" || p.Name == purpose })
	if i < 0 {
		return nil, errNoPurpose
	}
	now.purpose, now.purposeInURL = now.Purposes[i], i > 0
	return &now, nil
}

// AppInURL returns the app that the page's address names; "" if none. A template calls it.
func (u *Page) AppInURL() string {
	if u.inURL {
		return u.App
	}
	return ""
}

// PurposeInURL returns the purpose that the page's address names; "" if none. A template calls it.
func (u *Page) PurposeInURL() string {
	if u.purposeInURL {
		return u.purpose.Name
	}
	return ""
}

// viewURL returns the URL of a view of the page.
func (u *Page) viewURL(v requestedView) string {
	query := url.Values{}
	if app := u.AppInURL(); app != "" {
		query.Set("app", app)
	}
	if purpose := u.PurposeInURL(); purpose != "" {
		query.Set("purpose", purpose)
	}
	if v != "" {
		query.Set("view", string(v))
	}
	if len(query) == 0 {
		return "/"
	}
	return "/?" + query.Encode()
}

// brandStylePath is the path of the style sheets with brand colours; the query names the app.
const brandStylePath = "/brand.css"

// Register adds the page's routes to a server. Call RegisterStatic too.
func (u *Page) Register(e *echo.Echo) {
	e.GET("/", u.limitedHandler((*Page).showCard))
	e.POST("/", u.limitedHandler((*Page).handlePost), server.RequireSameOrigin)
	e.GET(brandStylePath, func(c echo.Context) error {
		now, err := u.forRequest(c)
		if err != nil {
			return err
		}
		return now.serveBrandStyle(c)
	})
}

// RegisterStatic adds the style sheets and scripts that the pages and the console load.
func RegisterStatic(e *echo.Echo) {
	e.GET(web.StaticPath+"*", echo.WrapHandler(http.HandlerFunc(web.ServeStatic)))
}

// templates are the page's templates. The first call panics if they do not parse.
var templates = sync.OnceValue(func() *template.Template { return parseTemplates("page/*.html") })

func parseTemplates(pattern string) *template.Template {
	t := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"static": web.StaticURL})
	return template.Must(t.ParseFS(web.FS, "shared/*.html", pattern))
}

// limitedHandler returns a handler that calls f with the page of the app and the purpose that the
// request names. If the client's network made too many requests, it answers with a card that tells
// the wait, and does not call f.
func (u *Page) limitedHandler(f func(*Page, echo.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		now, err := u.forRequest(c)
		switch {
		case err == nil:
		case errors.Is(err, errNoPurpose), c.QueryParams().Has("return_url"):
			return u.refuseLink(c)
		default:
			return err
		}
		if now.Requests != nil {
			if wait, ok := now.Requests.Admit(now.callerOf(c).IP); !ok {
				l := now.newVisit(c)
				return l.writeCard(c, l.tooManyRequestsCard(wait))
			}
		}
		return f(now, c)
	}
}

func (u *Page) callerOf(c echo.Context) verification.Caller {
	return verification.Caller{App: u.App, Kind: verification.Browser, IP: server.ClientIP(c)}
}
