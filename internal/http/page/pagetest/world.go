package pagetest

import (
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/keys"
	"sendcode/internal/http/api"
	"sendcode/internal/http/page"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
	"sendcode/web"
)

// World is the page with fakes of other systems, listening on loopback for browsers, and a person.
type World struct {
	*Person
	URL    string // of the page
	Codes  *Codes
	Log    *servertest.Text
	Logger *slog.Logger // writes to Log

	server *httptest.Server
	page   *page.Page
	api    *api.API
	clock  *clock

	exhausted atomic.Bool
	updated   atomic.Bool
	held      atomic.Pointer[chan struct{}] // closed when the widget's further modules may load; nil: at once
}

// clock stands still until a test starts it. A test can also move the clock.
type clock struct {
	mu      sync.Mutex
	at      time.Time
	running time.Time // when the clock was started; zero: the clock stands still
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.IsZero() {
		return c.at
	}
	return c.at.Add(time.Since(c.running))
}

// NewWorld starts a page with fakes, with the given rules or, without rules, the default policy.
// The caller must Close it.
func NewWorld(rules ...quota.Rule) *World {
	if rules == nil {
		rules = verificationtest.DefaultRules()
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	ring, err := keys.Parse("k1:" + base64.StdEncoding.EncodeToString(secret))
	if err != nil {
		panic(err)
	}
	w := &World{clock: &clock{at: time.Now().UTC()}, Log: &servertest.Text{}}
	logger := slog.New(slog.NewJSONHandler(w.Log, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	w.Logger = logger
	if w.Codes, err = newCodes(w.clock.now, rules, ring, logger); err != nil {
		panic(err)
	}
	e := server.New(server.Config{Logger: logger, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	w.Person = &Person{Header: http.Header{}, handler: e}
	page.RegisterStatic(e)
	web.RegisterWidget(e)
	w.api = w.Codes.NewAPI(api.Services{Codes: w.Codes, Requests: requests{&w.exhausted}}, nil)
	w.api.Register(e)
	w.Allow()
	w.page = page.New(page.Config{AppPage: theShop, References: references{}, Offer: w.api.Offer, Now: w.clock.now, Logger: logger})
	w.page.Register(e)
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if held := w.held.Load(); held != nil && strings.HasPrefix(r.URL.Path, "/static/widget/") {
			<-*held
		}
		if query := r.URL.Query(); w.updated.Load() && query.Has("v") {
			query.Set("v", "of-another-release")
			r.URL.RawQuery = query.Encode()
		}
		rw.Header().Set("Date", w.clock.now().Format(http.TimeFormat))
		e.ServeHTTP(rw, r)
	}))
	w.URL = w.server.URL + "/"
	return w
}

// withoutTime removes the time from a log line, since its digits could look like a code that must
// not be in the log.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Update makes the service a newer release than that of the open pages, so its modules are
// different.
func (w *World) Update() { w.updated.Store(true) }

// HoldModules holds back the widget's further modules until the test calls letGo, which it must
// call only once.
func (w *World) HoldModules() (letGo func()) {
	held := make(chan struct{})
	w.held.Store(&held)
	return func() { close(held) }
}

// theShop is the page of an app with two return URLs.
var theShop = page.AppPage{
	App: "shop", Key: api.PageKey("shop"), Title: "Shop", Sender: "no-reply@shop.example",
	Purposes:   []page.Purpose{{Name: "default", Code: sixDigits, Subject: subject}, {Name: "confirm", Code: letterFormat, Subject: subject}},
	ReturnURLs: []string{"https://shop.example/welcome", "https://app.example"},
}

// AddApp makes the page serve a second app.
func (w *World) AddApp(other page.AppPage) {
	other.Key = api.PageKey(other.App)
	w.api.SetKeys(append(w.api.Keys(), api.NewPageKey(other.App, verification.PageOffer{Purposes: []string{"default"}})))
	if other.Purposes == nil {
		other.Purposes = theShop.Purposes[:1]
	}
	w.page.Configure(theShop, other)
}

// references returns references from which a test can read the proof.
type references struct{}

func (references) ReferenceTo(app, proof string) (string, error) {
	if proof == "" {
		return "", fault.Invalid("proof", "missing", "")
	}
	return app + "&" + proof, nil
}

// confirmTitles are the titles of the purpose confirm.
var confirmTitles = map[string]string{
	"en": "to confirm your address", "zh-Hans": "用于确认您的地址", "es": "para confirmar tu dirección", "ar": "لتأكيد عنوانك",
}

func subject(lang string) string {
	if lang == "en" {
		return "Your code for Shop"
	}
	return "Shop 验证码"
}

// SendLetters makes later codes consist of letters, as after a change of the configuration.
func (w *World) SendLetters() {
	w.Codes.formatAs(letterFormat)
}

// Exhaust makes the API refuse all further requests, as if their network had made too many.
func (w *World) Exhaust() { w.exhausted.Store(true) }

// requests refuses all requests while the world is exhausted.
type requests struct{ *atomic.Bool }

// Admit implements the API's requestLimiter.
func (r requests) Admit(netip.Addr) (time.Duration, bool) { return 42 * time.Second, !r.Load() }

// ServeHTTP answers a request as the server does.
func (w *World) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.server.Config.Handler.ServeHTTP(to, r)
}

// Close ends the server.
func (w *World) Close() {
	w.server.Close()
	_ = w.Codes.db.Close()
}

// Advance moves the server's clock forward by d or, if d is negative, back.
func (w *World) Advance(d time.Duration) {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.clock.at = w.clock.at.Add(d)
}

// Run lets the server's clock run, for countdowns in a browser.
func (w *World) Run() {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.clock.running = time.Now()
}

// Now returns the time of the server's clock.
func (w *World) Now() time.Time { return w.clock.now() }
