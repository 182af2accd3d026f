package console

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	assets "sendcode/web/admin"
)

func TestOtherSitesCannotPost(t *testing.T) {
	b := newRig(t).loggedIn()
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
		{"Origin", "http://console.example.evil.example"}, {"Origin", "null"},
	} {
		rec := b.try(http.MethodPost, "/admin/login", header...)
		if rec.Code != http.StatusForbidden || len(rec.Result().Cookies()) != 0 {
			t.Errorf("with %v: %d, %d cookies", header, rec.Code, len(rec.Result().Cookies()))
		}
	}
	// A link from elsewhere only reads.
	want(t, b.Get("/admin", "Sec-Fetch-Site", "cross-site"), http.StatusOK)
	want(t, b.Post("/admin/search", url.Values{"q": {"ana@example.com"}}, "Sec-Fetch-Site", "same-origin", "Origin", "http://console.example"), http.StatusSeeOther)
}

func TestHeaders(t *testing.T) {
	h := newRig(t).loggedIn().Get("/admin").Header()
	policy := h.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", h)
	}
}

func TestOnlyAssetsAreServed(t *testing.T) {
	b := newRig(t).browser()
	want(t, b.Get("/admin/static/admin.css"), http.StatusOK)
	for _, name := range []string{"list.html", "embed.go", "..%2fembed.go", ""} {
		if rec := b.Get("/admin/static/" + name); rec.Code == http.StatusOK {
			t.Errorf("%q is served", name)
		}
	}
}

func TestToken(t *testing.T) {
	r, b := visited(t)
	for _, header := range []string{"Bearer " + consoletest.Token, "bearer " + consoletest.Token, "BEARER  " + consoletest.Token} {
		want(t, b.Get("/v1/admin/sends", "Authorization", header), http.StatusOK)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer x", "Bearer " + consoletest.Token + "x", consoletest.Token, "Basic " + consoletest.Token, "Bearer " + strings.ToUpper(consoletest.Token), "Bearer " + consoletest.Password} {
		rec := b.Get("/v1/admin/sends", "Authorization", header)
		want(t, rec, http.StatusUnauthorized)
		if !strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Bearer") || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%q: %v", header, rec.Header())
		}
		lacks(t, rec, consoletest.Token)
	}
	// The token is for the API alone, and a wrong one is not made good by a session.
	want(t, b.Get("/admin", "Authorization", "Bearer "+consoletest.Token), http.StatusSeeOther)
	in := r.loggedIn()
	want(t, in.Get("/v1/admin/sends"), http.StatusOK)
	want(t, in.Get("/v1/admin/sends", "Authorization", "Bearer x"), http.StatusUnauthorized)
	off := newRig(t, func(c *Config) { c.Auth.Tokens = nil }).browser()
	for _, header := range []string{"Bearer", "Bearer ", "Bearer x", " ", "Bearer \x00"} {
		want(t, off.Get("/v1/admin/sends", "Authorization", header), http.StatusUnauthorized)
	}
}

// The console answers every address and body, and never with a 500.
func FuzzConsole(f *testing.F) {
	for _, seed := range [][2]string{
		{"status=sent&limit=1", `{"channel":"email","to":"ana@example.com"}`}, {"cursor=AAAA&from=2026-01-01T00:00:00Z", `{"channel":"email"}`},
		{"recipient=00000000000000000000000000000000", `{`}, {"limit=-1&status=%00", "\xff"}, {"to=x%27%20OR%201=1", `{"channel":"sms","to":"+4915123456789"}`},
		{"from=9999-12-31T23:59:59Z&to=0001-01-01T00:00:00Z", `null`}, {"reference=%f0%9f%94%91&app=a&purpose=b&blocked_by=c&channel=d", `[]`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		r := newRig(t)
		r.sent("ana@example.com")
		for _, c := range []struct{ method, path string }{
			{http.MethodGet, "/v1/admin/sends"}, {http.MethodPost, "/v1/admin/search"}, {http.MethodGet, "/v1/admin/sends/x"}, {http.MethodGet, "/admin/login"},
		} {
			req := httptest.NewRequest(c.method, c.path, strings.NewReader(body))
			req.URL.RawQuery = query
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+consoletest.Token)
			w := httptest.NewRecorder()
			r.Handler.ServeHTTP(w, req)
			if w.Code >= 500 {
				t.Errorf("%s ?%q %q: %d %s", c.path, query, body, w.Code, w.Body)
			}
			if kind := w.Header().Get("Content-Type"); strings.Contains(kind, "json") && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s ?%q: no JSON: %s", c.path, query, w.Body)
			}
			if bytes.Contains(w.Body.Bytes(), []byte("ana@")) && !strings.Contains(query+body, "ana@") {
				t.Errorf("%s ?%q shows an address: %s", c.path, query, w.Body)
			}
		}
	})
}

// Every text that a page names exists, whichever branch of the template names it.
func TestPagesNameTextsThatExist(t *testing.T) {
	used := map[string]bool{}
	files, err := fs.Glob(assets.FS, "*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		body, err := fs.ReadFile(assets.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`W\.(?:T|Say) "([^"]*)"`).FindAllStringSubmatch(string(body), -1) {
			used[m[1]] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if _, err := texts.ForConsole("").T(key); err != nil {
			t.Error(err)
		}
	}
	if _, err := texts.ForConsole("").T("none"); err == nil {
		t.Error("a text that does not exist is no error")
	}
}

func TestEveryStateHasAWordAndASign(t *testing.T) {
	for _, s := range statuses {
		if texts.ForConsole("").Get("status."+string(s)) == "" || signs[s] == "" {
			t.Errorf("%s has no word or sign", s)
		}
	}
	r := row{Send: store.Send{Status: "new_state", Reason: "new_word"}, W: texts.ForConsole("")}
	if r.State().Word != "new_state" || r.Why() != "new_word" {
		t.Errorf("words of a later version are lost: %+v, %s", r.State(), r.Why())
	}
}
