// Package page is the page that people see: ask for a code, watch the cooldown count down, enter the code; and, on a
// developer's machine, the mailbox that the codes arrive in.
//
// It stands at the edge, beside package api: it calls the use cases of package verification and knows nothing of
// Redis, Postgres or SMTP. The server is the only one who knows the state: every answer is one card, rendered from what
// the use cases say now. A sealed cookie remembers which verification a browser is at. Forms are plain posts that end in
// a redirect to the page; static/page.js only makes that smoother, and counts down.
//
//	GET /   cookie ─▶ Codes.Get ─▶ card ─▶ HTML
//	POST /  form ─▶ Codes.Send or Codes.Check ─▶ cookie ─▶ 303 /
package page

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/code"
	"sendcode/internal/recipient"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/web"
)

// Codes are the use cases that the page needs. Implementation: *verification.Service.
type Codes interface {
	Send(ctx context.Context, ask verification.Ask) (verification.Answer, error)
	Get(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
	Check(ctx context.Context, c verification.Caller, id, code string) (verification.Checked, error)
	Offers(purpose string) []verification.Offer
}

// Sealer encrypts what a cookie holds. Implementation: *keyring.Ring.
type Sealer interface {
	Seal(label string, plaintext, additional []byte) ([]byte, error)
	Open(label string, sealed, additional []byte) ([]byte, error)
}

// Config is what a page is made of. App, Codes, Cookies and Logger are required.
type Config struct {
	App     string // the app that the page speaks for
	Title   string // what people call it
	Purpose string // empty: the default purpose
	// Channels are those that the page offers of what there is, the first one first; empty: all, mail first.
	Channels []recipient.Channel
	Country  string                   // that phone numbers are dialled in where the reader's browser names none that is served; empty: none
	Origin   string                   // host that text messages say their code is for; empty: they say none
	Code     code.Shape               // of the codes that are sent now; each verification tells its own
	Sender   string                   // address that the mails come from, for people who look for them
	Subject  func(lang string) string // subject to look for; nil, or "" for a language: only the sender is named
	Codes    Codes
	Cookies  Sealer
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger
	Requests Requests // nil: no limit
	// ReturnURLs are the origins and paths that a person may be returned to once the code was right; References names the approval to
	// the app there. nil: no one is returned.
	ReturnURLs []string
	References References
}

// Requests bounds the requests of a network. Implementation: *server.Requests.
type Requests interface {
	Admit(ip netip.Addr) (wait time.Duration, ok bool)
}

// Page is the page. Safe for concurrent use.
type Page struct {
	Config
	said      *atomic.Pointer[Config]
	templates *template.Template
	once      *once
	misnamed  *sync.Once           // told when the page is not where text messages say
	countries map[string][]country // by Lang of the texts
}

// New prepares the page. It panics when the embedded templates do not parse, which a test rules out.
func New(c Config) *Page {
	if c.Now == nil {
		c.Now = time.Now
	}
	u := &Page{Config: c, said: &atomic.Pointer[Config]{}, templates: parse("page/*.html"), once: newOnce(),
		misnamed: &sync.Once{}}
	u.countries = map[string][]country{}
	for _, l := range catalogues() {
		u.countries[l.mails.Lang] = countriesOf(&l.mails)
	}
	u.Say(c.Title, c.Code, c.Subject, c.ReturnURLs)
	return u
}

// Say changes what the page tells from now on. Requests under way end as they began.
func (u *Page) Say(title string, shape code.Shape, subject func(lang string) string, returnURLs []string) {
	c := u.Config
	c.Title, c.Code, c.Subject, c.ReturnURLs = title, shape, subject, returnURLs
	u.said.Store(&c)
}

// current is the page for one request, which sees nothing change.
func (u *Page) current() *Page {
	now := *u
	now.Config = *u.said.Load()
	return &now
}

// Register adds the page to a server. RegisterStatic must be called on it too.
func (u *Page) Register(e *echo.Echo) {
	protected := echo.WrapMiddleware(http.NewCrossOriginProtection().Handler)
	e.GET("/", func(c echo.Context) error { return u.current().admitted(c, (*Page).show) })
	e.POST("/", func(c echo.Context) error { return u.current().admitted(c, (*Page).act) }, protected)
}

// RegisterStatic adds what the pages and the console load: style sheets and scripts.
func RegisterStatic(e *echo.Echo) {
	e.Match([]string{http.MethodGet, http.MethodHead}, web.StaticPath+"*", echo.WrapHandler(http.HandlerFunc(web.Static)))
}

func parse(pattern string) *template.Template {
	t := template.New("").Funcs(template.FuncMap{"static": web.Path})
	return template.Must(t.ParseFS(web.FS, "shared/*.html", pattern))
}

func (u *Page) caller(c echo.Context) verification.Caller {
	return verification.Caller{App: u.App, Kind: verification.Browser, IP: server.ClientIP(c)}
}
