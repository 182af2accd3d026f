// Package page serves the page on which people request a code, watch the countdown to the next
// code, and enter the code. On a developer's machine the package also serves the mailbox, which
// shows the sent mails.
//
// The page is a small HTML document around the widget (web/widget). On this page, as on other
// sites, the widget calls the API. The server adds the app's name and brand, what the API offers to
// the browser, and the URL to which the person returns. The browser keeps the state, and the server
// keeps none.
//
//	GET /         app, purpose, return_url ─▶ HTML with <send-code>
//	POST /return  proof of a right code ─▶ 303 return_url?reference=…
package page

import (
	"cmp"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/code"
	"sendcode/internal/http/server"
	"sendcode/web"
)

// AppPage has the settings of the page of one app.
type AppPage struct {
	App        string // the app's name
	Key        string // the API key that the page uses
	Title      string // the app's name for people
	Brand      message.Brand
	Sender     string   // the sender's address of the mails, shown to help people find the mail
	ReturnURLs []string // origins and paths that a person may be returned to once the code was right
	Purposes   []Purpose
}

// Purpose is a purpose of an app's page. The first purpose is used if a visit names no purpose.
type Purpose struct {
	Name string
	Code code.Format // of new codes
	// Subject returns the subject of the mails. The page shows it to help people find the mail. If
	// Subject is nil or returns "", the page shows only the sender.
	Subject func(lang string) string
}

// Config has the settings and services of a page.
type Config struct {
	AppPage // for visits that name no app
	// Channels are the channels in the order in which the page offers them. The page omits a
	// channel that the service lacks or that is paused, but never all of them. If Channels is
	// empty, the page offers all channels, mail first.
	Channels []recipient.Channel
	// Country is the country of phone numbers if the browser names no served country. If Country is
	// empty, there is no such country.
	Country string
	Offer   func(app, purpose, languages string, channels []recipient.Channel) string // what the API offers a browser, as JSON
	Now     func() time.Time                                                          // nil: time.Now
	Logger  *slog.Logger
	// References makes the reference that a returning person brings to the app. The app uses the
	// reference to look up the verification. References is required if an app has ReturnURLs.
	References referenceIssuer
}

// referenceIssuer makes a reference to the approval that a proof names. Implementation:
// proof.Redeemer.
type referenceIssuer interface {
	ReferenceTo(app, proof string) (string, error)
}

// Page serves the hosted page. It is safe for concurrent use.
type Page struct {
	Config
	current *atomic.Pointer[[]AppPage] // the first one is for visits that name no app
	lines   *logs.Throttle             // throttles log lines that visitors can cause
}

// New returns the page with one app, c.AppPage.
func New(c Config) *Page {
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Page{Config: c, current: &atomic.Pointer[[]AppPage]{}, lines: &logs.Throttle{}}
	p.Configure(c.AppPage)
	return p
}

// Configure replaces the apps that have a page. The first app is for visits that name no app. A
// request under way keeps the old apps.
func (page *Page) Configure(apps ...AppPage) { page.current.Store(&apps) }

// Register adds the routes of the page to a server. Also call RegisterStatic.
func (page *Page) Register(e *echo.Echo) {
	e.GET("/", page.show)
	e.POST("/", page.show, server.RequireSameOrigin) // the form of a page that was rendered before an update
	e.POST(returnPath, page.returnToApp, server.RequireSameOrigin)
	e.GET(brandStylePath, func(c echo.Context) error {
		v, err := page.newVisit(c)
		if err != nil {
			return err
		}
		c.Response().Header().Set("Cache-Control", "public, max-age=3600")
		return c.Blob(http.StatusOK, "text/css; charset=utf-8", []byte(v.Brand.StyleSheet()))
	})
}

// RegisterStatic adds the icon, and the style sheets and scripts that pages and console load.
func RegisterStatic(e *echo.Echo) {
	e.GET(web.StaticPath+"*", echo.WrapHandler(http.HandlerFunc(web.ServeStatic)))
	e.GET("/favicon.ico", echo.WrapHandler(http.HandlerFunc(web.ServeIcon)))
}

// visit has the data of the page for one request, for the template.
type visit struct {
	AppPage
	T         map[string]string // the page's texts in the browser's language
	phone     map[string]string // the texts that are only for text messages
	Channels  []recipient.Channel
	Country   string
	Purpose   string
	Lead      string // of the first card
	Subject   string
	OfferJSON string // what the API offers the browser, for the widget's attribute offer
	Return    string // the return_url, normalized; "": no app sent the person
	BadLink   bool
	Outdated  bool     // the posted form is from a page of the release before an update
	Preload   []string // modules of the first card
}

var errNoPurpose = &server.Problem{Kind: server.NotFound, Detail: "The page has no purpose of this name."}

// newVisit returns a visit with the app and the purpose of the request. It returns errNoPurpose for
// an unknown purpose, and another error for an unknown app.
func (page *Page) newVisit(c echo.Context) (*visit, error) {
	words := texts.PageTextsFor(c.Request().Header.Get("Accept-Language"))
	v := &visit{T: words.Section(texts.PageSection), phone: words.Section(texts.PhoneSection), Country: page.Country}
	name, purpose := c.QueryParam("app"), c.QueryParam("purpose")
	apps := *page.current.Load()
	i := slices.IndexFunc(apps, func(a AppPage) bool { return name == "" || a.App == name })
	if i < 0 {
		return v, &server.Problem{Kind: server.NotFound, Detail: "There is no app of this name that has a page here."}
	}
	v.AppPage = apps[i]
	i = slices.IndexFunc(v.Purposes, func(p Purpose) bool { return purpose == "" || p.Name == purpose })
	if i < 0 {
		return v, errNoPurpose
	}
	if v.Purposes[i].Subject != nil {
		v.Subject = v.Purposes[i].Subject(words.Lang())
	}
	wanted := page.channels()
	v.Purpose, v.OfferJSON = v.Purposes[i].Name, page.Offer(v.App, v.Purposes[i].Name, words.Lang(), wanted)
	v.Channels = slices.DeleteFunc(slices.Clone(wanted), func(ch recipient.Channel) bool {
		return !strings.Contains(v.OfferJSON, `"channel":"`+string(ch)+`"`)
	})
	if len(v.Channels) == 0 {
		v.Channels = wanted[:1] // a send then fails, as in a widget on a site
	}
	v.Lead = v.lead(v.Purposes[i].Code)
	if c.QueryParam(endedParameter) != "" {
		v.Lead = v.T["ProofEnded"] + v.T["Separator"] + v.Lead
	}
	if v.Channels[0] == recipient.SMS { // only a first card for phone numbers needs the modules of Preload
		v.Preload = web.WidgetPhonePreloads(words.Lang())
	}
	return v, nil
}

// lead returns the sentence that says what will be sent.
func (v *visit) lead(format code.Format) string {
	key := "AskLead"
	if len(v.Channels) > 1 {
		key += "Either"
	}
	switch {
	case format.Length == 0:
	case format.Alphabet == code.Unambiguous:
		key += "Characters"
	default:
		key += "Digits"
	}
	words := v.T
	if slices.Equal(v.Channels, []recipient.Channel{recipient.SMS}) {
		words = v.phone
	}
	return strings.ReplaceAll(cmp.Or(words[key], v.T[key]), "{n}", strconv.Itoa(format.Length))
}

// channels returns the channels that the page offers, in their order.
func (page *Page) channels() []recipient.Channel {
	if len(page.Channels) == 0 {
		return []recipient.Channel{recipient.Email, recipient.SMS}
	}
	return page.Channels
}

// trustedTypes is a policy that forbids scripts made from texts, except the worker of
// web/static/work.js. https://www.w3.org/TR/trusted-types/
const trustedTypes = "; require-trusted-types-for 'script'; trusted-types sendcode-worker"

// show handles GET / and POST /.
func (page *Page) show(c echo.Context) error {
	return web.ComposePage(c, func(w io.Writer) (status int, err error) {
		v, status, err := page.visitWithReturn(c)
		if err != nil {
			return 0, err
		}
		page.setHeaders(c, v)
		return status, templates().ExecuteTemplate(w, "page", v)
	})
}

// visitWithReturn returns no error for a wrong link (see logBadLink), but a visit with BadLink and
// the status 422. The person then sees an explanation.
func (page *Page) visitWithReturn(c echo.Context) (v *visit, status int, err error) {
	v, err = page.newVisit(c)
	status = http.StatusOK
	if back := c.QueryParam("return_url"); c.QueryParams().Has("return_url") && err == nil {
		to, ok := allowedReturnURL(v.ReturnURLs, back)
		v.Return, v.BadLink = to, !ok
	} else if err != nil {
		v.BadLink = errors.Is(err, errNoPurpose) || c.QueryParams().Has("return_url")
	}
	switch {
	case v.BadLink:
		status = http.StatusUnprocessableEntity
		page.logBadLink(c)
	case err != nil:
		return nil, 0, err
	}
	v.Outdated = c.Request().Method == http.MethodPost
	return v, status, nil
}

func (page *Page) setHeaders(c echo.Context, v *visit) {
	h := c.Response().Header()
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Language", v.T["Lang"])
	h.Set("Cache-Control", "no-cache") // the page contains nothing about a person
	h.Set("Content-Security-Policy", h.Get("Content-Security-Policy")+trustedTypes)
	if v.Brand.Logo != "" {
		server.AllowCSPSource(c, "img-src", v.Brand.Logo)
	}
	if v.Return != "" {
		// browsers also check where the app's page redirects to, which may be another of its hosts
		server.AllowCSPSource(c, "form-action", "https: "+originOf(v.Return))
	}
}

// templates returns the templates of the page. The first call panics if a template can't be parsed.
var templates = sync.OnceValue(func() *template.Template { return parseTemplates("page/*.html") })

func parseTemplates(pattern string) *template.Template {
	t := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"static": web.StaticURL, "widget": web.WidgetURL})
	return template.Must(t.ParseFS(web.FS, "shared/*.html", pattern))
}

// brandStylePath is the path of the style sheets with brand colours; the query names the app.
const brandStylePath = "/brand.css"

// StyleSheetURL returns the URL of the style sheet with the brand's colours; "" if the brand has
// none.
func (v *visit) StyleSheetURL() string {
	if v.Brand.Light == (message.Palette{}) {
		return ""
	}
	return brandStylePath + "?" + url.Values{"app": {v.App}, "v": {v.Brand.StyleVersion()}}.Encode()
}

// GoOn returns the text of the link to the app's home.
func (v *visit) GoOn() string { return strings.ReplaceAll(v.T["GoOnApp"], "{app}", v.Title) }
