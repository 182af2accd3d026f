package uitest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"sendcode/internal/api"
	"sendcode/internal/keyring"
	"sendcode/internal/server"
	"sendcode/internal/ui"
	"sendcode/quota"
)

// World is a page with its stand-ins, listening on loopback, and a visitor without scripts.
type World struct {
	Codes *Codes
	URL   string
	Lang  string // Accept-Language of the visitor
	Log   *lockedBuffer

	server *httptest.Server
	page   *ui.UI
	api    *api.API
	logger *slog.Logger
	client *http.Client
	clock  *clock
}

// newRing makes a ring that nothing else has.
func newRing() (*keyring.Ring, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	return keyring.Parse("k1:" + base64.StdEncoding.EncodeToString(secret))
}

// clock stands still until it is let run, and is moved by hand: afternoons pass at once.
type clock struct {
	mu      sync.Mutex
	at      time.Time
	running time.Time // since when; zero: it stands
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.IsZero() {
		return c.at
	}
	return c.at.Add(time.Since(c.running))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// NewWorld starts a page under the rules given; Close it.
func NewWorld(rules []quota.Rule) (*World, error) {
	ring, err := newRing()
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	w := &World{clock: &clock{at: time.Now().UTC()}, Lang: "en", Log: &lockedBuffer{}, client: &http.Client{Jar: jar}}
	w.Codes = NewCodes(w.clock.now, rules)
	logger := slog.New(slog.NewJSONHandler(w.Log, nil))
	w.logger = logger
	e := server.New(server.Config{Logger: logger, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	ui.RegisterStatic(e)
	ui.RegisterWidget(e)
	w.api = api.New(w.Codes, nil, logger)
	w.api.Register(e)
	w.page = ui.New(ui.Config{
		App: "shop", Title: "Shop", Code: ofDigits, Sender: "no-reply@shop.example",
		Subject: subject, Codes: w.Codes, Cookies: ring, Now: w.clock.now, Logger: logger,
	})
	w.page.Register(e)
	w.server = httptest.NewServer(e)
	w.URL = w.server.URL + "/"
	return w, nil
}

func subject(lang string) string {
	if lang == "en" {
		return "Your code for Shop"
	}
	return "Shop 验证码"
}

// SendLetters has the codes that are sent from now on made of letters, as after a change of the configuration.
func (w *World) SendLetters() {
	w.Codes.mu.Lock()
	w.Codes.shape = ofLetters
	w.Codes.mu.Unlock()
	w.page.Say("Shop", ofLetters, subject)
}

// Close ends the server.
func (w *World) Close() { w.server.Close() }

// Advance moves the server's clock.
func (w *World) Advance(d time.Duration) {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.clock.at = w.clock.at.Add(d)
}

// Run lets the server's clock go, for countdowns that a browser shows.
func (w *World) Run() {
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.clock.running = time.Now()
}

// Cookies are what the visitor's browser keeps.
func (w *World) Cookies() []*http.Cookie {
	u, _ := url.Parse(w.URL)
	return w.client.Jar.Cookies(u)
}

// Forget loses the visitor's cookies: they come with another browser.
func (w *World) Forget() error {
	jar, err := cookiejar.New(nil)
	w.client.Jar = jar
	return err
}

// Logger writes to Log.
func (w *World) Logger() *slog.Logger { return w.logger }

// Keep gives the visitor these cookies and no others.
func (w *World) Keep(cookies []*http.Cookie) {
	w.client.Jar, _ = cookiejar.New(nil) // fails for no options
	u, _ := url.Parse(w.URL)
	w.client.Jar.SetCookies(u, cookies)
}

// Client is the visitor's, with its cookies; it follows redirects.
func (w *World) Client() *http.Client { return w.client }

// Now is the server's clock.
func (w *World) Now() time.Time { return w.clock.now() }

// Form is what a browser would post of a form that the page shows now, without what a person types.
func (w *World) Form(query, act string) (url.Values, error) {
	body, err := w.Get(query)
	if err != nil {
		return nil, err
	}
	return hidden(body, act)
}

// Get looks at the page.
func (w *World) Get(query string) (string, error) {
	r, err := http.NewRequest(http.MethodGet, w.URL+query, nil)
	if err != nil {
		return "", err
	}
	return w.do(r)
}

// Post fills in a form that the page shows now, as a browser without scripts would: only a form that is there can be
// posted, with the hidden fields that it has.
func (w *World) Post(query, act string, fields ...string) (string, error) {
	values, err := w.Form(query, act)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	r, err := http.NewRequest(http.MethodPost, w.URL, strings.NewReader(values.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(r)
}

func (w *World) do(r *http.Request) (string, error) {
	r.Header.Set("Accept-Language", w.Lang)
	r.Header.Set("Accept", "text/html")
	answer, err := w.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), err
}

// hidden reads the hidden fields of the form for act.
func hidden(page, act string) (url.Values, error) {
	for form := range strings.SplitSeq(page, "<form ") {
		form, _, _ = strings.Cut(form, "</form>")
		if !strings.Contains(form, `name="act" value="`+act+`"`) {
			continue
		}
		values := url.Values{}
		for input := range strings.SplitSeq(form, "<input ") {
			if strings.Contains(input, `type="hidden"`) {
				values.Set(attribute(input, "name"), attribute(input, "value"))
			}
		}
		return values, nil
	}
	return nil, fmt.Errorf("the page shows no form for %q", act)
}

func attribute(tag, name string) string {
	_, rest, _ := strings.Cut(tag, " "+name+`="`)
	if after, ok := strings.CutPrefix(tag, name+`="`); ok {
		rest = after
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
