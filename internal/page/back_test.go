package page_test

import (
	"crypto/sha256"
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/api"
	"sendcode/internal/brand"
	"sendcode/internal/code"
	"sendcode/internal/page"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

var button = regexp.MustCompile(`<a class="button" href="([^"]*)"`)

// leadsTo is where the button of an approved card leads, without its reference; empty: there is no button.
func leadsTo(t *testing.T, page string) (to, reference string) {
	t.Helper()
	m := button.FindStringSubmatch(page)
	if m == nil {
		return "", ""
	}
	u, err := url.Parse(html.UnescapeString(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	reference = query.Get("reference")
	query.Del("reference")
	u.RawQuery = query.Encode()
	return u.String(), reference
}

// verify goes through the page, which was just reached.
func verify(t *testing.T, w *pagetest.World) string {
	t.Helper()
	post(t, w, "", "send", "to", pagetest.Address)
	return post(t, w, "", "check", "code", pagetest.Code)
}

// A person whom an app sent goes back there with a reference, and its own query; its address is not in the page's.
func TestAPersonIsReturnedWithAReference(t *testing.T) {
	w := world(t)
	shows(t, get(t, w, "?app=shop&return_url="+url.QueryEscape("https://shop.example/welcome/to?state=a%26b&reference=old")), "ask")
	approved := verify(t, w)
	shows(t, approved, "approved", "Continue")
	to, reference := leadsTo(t, approved)
	if to != "https://shop.example/welcome/to?state=a%26b" || !strings.HasPrefix(reference, "shop&") || strings.Contains(text(approved), "Continue to") {
		t.Errorf("%s with %q: %s", to, reference, text(approved))
	}
	if again, _ := leadsTo(t, get(t, w, "")); again != to {
		t.Errorf("reloaded: %s", again)
	}
	shows(t, get(t, w, "?return_url=https://app.example"), "ask") // another visit is not the old approval
}

// An app that the address names has its own name, brand, cookie and return addresses, over every post and link, and nothing of the other's.
func TestThePageOfAnAppThatIsNamed(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	w.Also(page.AppPage{
		App: "news", Title: "The News", Sender: "codes@news.example", ReturnURLs: []string{"https://news.example"},
		Brand: brand.New("https://cdn.example/logo.svg", "#0b7a5c", "https://news.example/"),
	})
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "code", "a•••@example.com")
	first := get(t, w, "?app=news")
	shows(t, first, "ask", "The News")
	for _, part := range []string{`<a href="https://news.example/">`, `<img src="https://cdn.example/logo.svg" alt="">`, `href="/brand.css?app=news&amp;v=`} {
		if !strings.Contains(first, part) {
			t.Errorf("no %s in %s", part, first)
		}
		if strings.Contains(get(t, w, ""), part) {
			t.Errorf("%s on the page of the other app", part)
		}
	}
	csp := raw(t, w, http.MethodGet, "?app=news", nil, nil).Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "img-src 'self' https://cdn.example/logo.svg;") || !strings.Contains(csp, "style-src 'self';") {
		t.Errorf("the policy is %s", csp)
	}
	if other := raw(t, w, http.MethodGet, "", nil, nil).Header.Get("Content-Security-Policy"); strings.Contains(other, "cdn.example") {
		t.Errorf("the policy of the other app is %s", other)
	}
	if style := get(t, w, "brand.css?app=news"); !strings.HasPrefix(style, ":root{--accent:light-dark(#0b7a5c,") || get(t, w, "brand.css") != "" {
		t.Errorf("the colours are %s", style)
	}
	for _, wrong := range []string{"?app=nobody", "?app=News", "brand.css?app=nobody"} {
		if answer := raw(t, w, http.MethodGet, wrong, nil, nil); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", wrong, answer.StatusCode)
		}
	}
	_ = get(t, w, "?app=news&return_url=https://news.example/in")
	if _, err := w.Get("?app=news&return_url=https://app.example"); err == nil || err.Error() != "status 422" {
		t.Errorf("returned to the other app's address: %v", err)
	}
	const other = "bea@example.com"
	sent := post(t, w, "?app=news", "send", "to", other)
	shows(t, sent, "code", "b•••@example.com", "codes@news.example")
	for _, link := range regexp.MustCompile(`(?:href|action)="(/[^"]*)"`).FindAllStringSubmatch(sent, -1) {
		if !strings.HasPrefix(link[1], "/static/") && !strings.HasPrefix(link[1], "/brand.css?app=news&amp;v=") && !strings.HasPrefix(link[1], "/?app=news") {
			t.Errorf("%s leads to the other app", link[1])
		}
	}
	approved := post(t, w, "?app=news", "check", "code", pagetest.Code)
	if to, reference := leadsTo(t, approved); to != "https://news.example/in" || !strings.HasPrefix(reference, "news&") {
		t.Errorf("%s with %s", to, reference)
	}
	shows(t, get(t, w, ""), "code", "a•••@example.com") // the other app's page is where it was
	shows(t, get(t, w, "?app=shop"), "code", "a•••@example.com")
}

func TestOnlyAllowedAddressesAreReturnedTo(t *testing.T) {
	for text, want := range map[string]string{
		"https://shop.example/welcome":                     "https://shop.example/welcome",
		"https://shop.example/welcome/":                    "https://shop.example/welcome/",
		"HTTPS://Shop.Example:443/welcome":                 "https://shop.example/welcome",
		"https://shop.example/x/../welcome//a":             "https://shop.example/welcome/a",
		"https://app.example":                              "https://app.example/",
		"https://app.example/any/where?x=1":                "https://app.example/any/where?x=1",
		"https://shop.example/welcomes":                    "",
		"https://shop.example/":                            "",
		"https://shop.example/welcome/../admin":            "",
		"https://shop.example/welcome/..%2fa":              "",
		"https://shop.example/welcome%2f..%2fa":            "",
		"https://shop.example/welcome/\\..\\a":             "",
		"https://shop.example:8443/welcome":                "",
		"http://shop.example/welcome":                      "",
		"https://shop.example@evil.example/":               "",
		"https://user@shop.example/welcome":                "",
		"https://shop.example.evil/welcome":                "",
		"https://shop.example/welcome#fragment":            "",
		"//shop.example/welcome":                           "",
		"/welcome":                                         "",
		"javascript:alert(1)":                              "",
		"https:shop.example/welcome":                       "",
		"":                                                 "",
		"https://app.example/" + strings.Repeat("a", 1024): "",
	} {
		w := world(t)
		_, err := w.Get("?return_url=" + url.QueryEscape(text))
		if want == "" {
			if err == nil || err.Error() != "status 422" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if to, _ := leadsTo(t, verify(t, w)); to != want {
			t.Errorf("%s leads to %q, want %s", text, to, want)
		}
	}
	if _, err := world(t).Get("?app=another&return_url=https://app.example"); err == nil || err.Error() != "status 422" {
		t.Errorf("an app without a page: %v", err)
	}
}

// A sign-up over the program itself: the shop sends a person, and its back end is told the address for the reference, once.
func TestASignUpWithThePage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("apps: [{name: default, return_urls: ['https://shop.example/signup']}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "sk_0123456789abcdefghijABCDEFGHIJ"
	base, _ := service(t, filepath.Join(t.TempDir(), "data"), "SENDCODE_CONFIG="+file, "SENDCODE_API_KEY="+key)
	visitor := pagetest.NewVisitor("en")
	visitor.URL = base + "/"
	visits := func(body string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	visits(visitor.Get("?return_url=" + url.QueryEscape("https://shop.example/signup?state=s1")))
	visits(visitor.Post("", "send", "to", pagetest.Address))
	to, reference := leadsTo(t, visits(visitor.Post("", "check", "code", codeIn(t, base))))
	if to != "https://shop.example/signup?state=s1" {
		t.Fatalf("the page leads to %q", to)
	}
	redeem := func(reference string) (status int, address string) {
		r, err := http.NewRequest(http.MethodPost, base+"/v1/proofs/redeem", strings.NewReader(`{"reference":"`+reference+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var told struct{ To string }
		if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, told.To
	}
	if status, address := redeem(reference[1:]); status != http.StatusUnprocessableEntity || address != "" {
		t.Errorf("forged: %d %s", status, address)
	}
	if status, address := redeem(reference); status != http.StatusOK || address != pagetest.Address {
		t.Errorf("%d %s", status, address)
	}
	if status, address := redeem(reference); status != http.StatusConflict || address != "" {
		t.Errorf("again: %d %s", status, address)
	}
}

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
	vtest.InBubble(t, func(r *vtest.Rig) {
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
		c.post("send", "to", vtest.Ana)
		r.Sleep(time.Second)
		to, reference := leadsTo(r.T, c.post("check", "code", r.Code(0)))
		if to != "https://shop.example/signup?state=s1" || reference == "" {
			r.Fatalf("the page leads to %q", to)
		}
		r.Sleep(redemption.ReferenceLife)
		status, told := c.redeem(reference)
		if status != http.StatusUnprocessableEntity || told.Type != "/problems/invalid-field" || told.Field != "reference" || told.Reason != "expired" || told.To != "" {
			r.Errorf("after five minutes: %d %+v", status, told)
		}
		_, another := leadsTo(r.T, c.request(http.MethodGet, "/", "", "").Body.String())
		r.Sleep(redemption.ReferenceLife - 2*time.Second) // an end is a whole second
		if status, told := c.redeem(another); status != http.StatusOK || told.To != vtest.Ana {
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
