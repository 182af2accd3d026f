package page_test

import (
	"crypto/sha256"
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/api"
	"sendcode/internal/code"
	"sendcode/internal/page"
	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
)

// caller is a browser, or a back end, of handlers that no network lies before.
type caller struct {
	*testing.T
	handlers *echo.Echo
	cookies  map[string]*http.Cookie
	shown    string // the page
}

// hidden is what a form carries besides its fields.
var hidden = regexp.MustCompile(`name="(of|intent)" value="([^"]*)"`)

func (c *caller) request(method, target, kind, body string, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for _, cookie := range c.cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	c.handlers.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		c.cookies[cookie.Name] = cookie
	}
	if to := w.Header().Get("Location"); w.Code == http.StatusSeeOther {
		return c.request(http.MethodGet, to, "", "")
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		c.shown = w.Body.String()
	}
	return w
}

// post fills in a form of the page.
func (c *caller) post(act string, fields ...string) string {
	c.Helper()
	form := url.Values{"act": {act}}
	for _, field := range hidden.FindAllStringSubmatch(c.shown, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return c.request(http.MethodPost, "/", "application/x-www-form-urlencoded", form.Encode()).Body.String()
}

func (c *caller) redeem(reference string) (status int, told struct{ Type, Field, Reason, To string }) {
	c.Helper()
	body, _ := json.Marshal(map[string]string{"reference": reference})
	w := c.request(http.MethodPost, "/v1/proofs/redeem", "application/json", string(body), "Authorization", "Bearer sk_shop")
	if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil {
		c.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Code, told
}

// A reference that the page put into the address to return to is good until its five minutes are over and not a moment longer; the page,
// looked at again, leads on with another one. All of it over the handlers that the service has, on a clock that the test moves.
func TestAnExpiredReferenceIsRefusedOverHTTP(t *testing.T) {
	rig.InBubble(t, func(r *rig.Rig) {
		logger := slog.New(slog.DiscardHandler)
		proofs := proof.New(r.Settings.Vault.Ring)
		r.Svc.Prover = proofs
		references := &redemption.Service{Store: r.Store, Proofs: proofs, Vault: r.Settings.Vault, Policy: r.Svc.Policy, Now: time.Now, Logger: logger}
		e := server.New(server.Config{Logger: logger})
		back := api.New(r.Svc, api.Keys{{App: "shop", ID: "k", Kind: verification.Secret, SHA256: sha256.Sum256([]byte("sk_shop"))}}, logger)
		back.Offer(nil, references)
		back.Register(e)
		page.New(page.Config{
			AppPage: page.AppPage{App: "shop", Title: "Shop", ReturnURLs: []string{"https://shop.example/signup"}}, Code: code.Shape{Alphabet: code.Digits, Length: 6},
			Codes: r.Svc, Cookies: r.Settings.Vault.Ring, Logger: logger, References: references,
		}).Register(e)
		c := &caller{T: r.T, handlers: e, cookies: map[string]*http.Cookie{}}

		c.request(http.MethodGet, "/?return_url="+url.QueryEscape("https://shop.example/signup?state=s1"), "", "")
		c.post("send", "to", rig.Ana)
		rig.Waited(time.Second)
		to, reference := leadsTo(r.T, c.post("check", "code", rig.CodeIn(r.Post.All()[0])))
		if to != "https://shop.example/signup?state=s1" || reference == "" {
			r.Fatalf("the page leads to %q", to)
		}
		rig.Waited(redemption.ReferenceLife)
		status, told := c.redeem(reference)
		if status != http.StatusUnprocessableEntity || told.Type != "/problems/invalid-field" || told.Field != "reference" || told.Reason != "expired" || told.To != "" {
			r.Errorf("after five minutes: %d %+v", status, told)
		}
		_, another := leadsTo(r.T, c.request(http.MethodGet, "/", "", "").Body.String())
		rig.Waited(redemption.ReferenceLife - 2*time.Second) // an end is a whole second
		if status, told := c.redeem(another); status != http.StatusOK || told.To != rig.Ana {
			r.Errorf("within its five minutes: %d %+v", status, told)
		}
		if status, told := c.redeem(another); status != http.StatusConflict || told.To != "" {
			r.Errorf("again: %d %+v", status, told)
		}
		if status, told := c.redeem(reference); status != http.StatusUnprocessableEntity || told.To != "" {
			r.Errorf("the expired one, once the other was redeemed: %d %+v", status, told)
		}
	})
}
