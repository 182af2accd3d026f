package page_test

import (
	"crypto/sha256"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/api"
	"sendcode/internal/brand"
	"sendcode/internal/code"
	"sendcode/internal/page"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/server"
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
	w := mailed(t)
	w.Also(page.AppPage{
		App: "news", Title: "The News", Sender: "codes@news.example", ReturnURLs: []string{"https://news.example"},
		Brand: brand.New("https://cdn.example/logo.svg", "#0b7a5c", "https://news.example/"),
	})
	first := get(t, w, "?app=news")
	shows(t, first, "ask", "The News")
	own := []string{`<a href="https://news.example/">`, `<img src="https://cdn.example/logo.svg" alt="">`, `href="/brand.css?app=news&amp;v=`}
	contains(t, first, own...)
	silent(t, get(t, w, ""), own...)
	csp := func(query string) string {
		return raw(t, w, http.MethodGet, query, nil, nil).Header.Get("Content-Security-Policy")
	}
	contains(t, csp("?app=news"), "img-src 'self' https://cdn.example/logo.svg;", "style-src 'self';")
	silent(t, csp(""), "cdn.example")
	if style := get(t, w, "brand.css?app=news"); !strings.HasPrefix(style, ":root{--accent:light-dark(#0b7a5c,") || get(t, w, "brand.css") != "" {
		t.Errorf("the colours are %s", style)
	}
	for _, wrong := range []string{"?app=nobody", "?app=News", "brand.css?app=nobody"} {
		if answer := raw(t, w, http.MethodGet, wrong, nil, nil); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", wrong, answer.StatusCode)
		}
	}
	_ = get(t, w, "?app=news&return_url=https://news.example/in")
	for _, query := range []string{"?app=news&return_url=https://app.example", "?app=another&return_url=https://app.example"} {
		if _, err := w.Get(query); err == nil || err.Error() != "status 422" {
			t.Errorf("%s: %v", query, err)
		}
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

// A reference in the address to return to can be redeemed for five minutes; the page, looked at again, leads back with another one. All of
// it over the service's handlers, on a clock that the test moves.
func TestAnExpiredReferenceIsRefusedOverHTTP(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		logger := slog.New(slog.DiscardHandler)
		proofs := proof.New(r.Settings.Vault.Ring)
		r.Svc.Prover = proofs
		references := &redemption.Service{Store: r.Store, Proofs: proofs, Vault: r.Settings.Vault, Policy: r.Svc.Policy, Now: time.Now, Logger: logger}
		e := server.New(server.Config{Logger: logger})
		back := api.New(r.Svc, api.Keys{{App: "shop", ID: "k", Kind: verification.Secret, SHA256: sha256.Sum256([]byte("sk_shop"))}})
		back.Proofs = references
		back.Register(e)
		page.New(page.Config{
			AppPage: page.AppPage{App: "shop", Title: "Shop", ReturnURLs: []string{"https://shop.example/signup"}}, Code: code.Shape{Alphabet: code.Digits, Length: 6},
			Codes: r.Svc, Cookies: r.Settings.Vault.Ring, Logger: logger, References: references,
		}).Register(e)
		v := pagetest.NewVisitorOf(e)
		reference := func(body string, err error) string {
			r.NoError(err)
			_, reference := leadsTo(r.T, body)
			return reference
		}
		redeem := func(when, reference string, status int, tells string) {
			ask := httptest.NewRequest(http.MethodPost, "/v1/proofs/redeem", strings.NewReader(`{"reference":"`+reference+`"}`))
			ask.Header.Set("Content-Type", "application/json")
			ask.Header.Set("Authorization", "Bearer sk_shop")
			w := httptest.NewRecorder()
			e.ServeHTTP(w, ask)
			if body := w.Body.String(); w.Code != status || !strings.Contains(body, tells) || strings.Contains(body, vtest.Ana) != (status == http.StatusOK) {
				r.Errorf("%s: %d %s", when, w.Code, body)
			}
		}
		reference(v.Get("?return_url=" + url.QueryEscape("https://shop.example/signup?state=s1")))
		reference(v.Post("", "send", "to", vtest.Ana))
		r.Sleep(time.Second)
		first := reference(v.Post("", "check", "code", r.Code(0)))
		r.Sleep(redemption.ReferenceLife)
		redeem("after five minutes", first, http.StatusUnprocessableEntity, `"reason":"expired"`)
		another := reference(v.Get(""))
		r.Sleep(redemption.ReferenceLife - 2*time.Second) // an end is a whole second
		redeem("within its five minutes", another, http.StatusOK, `"to":`)
		redeem("again", another, http.StatusConflict, "")
		redeem("the expired one, once the other was redeemed", first, http.StatusUnprocessableEntity, "")
	})
}
