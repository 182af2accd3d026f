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

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/store"
	"sendcode/web"
)

// A post from another site is refused, even if only the header Origin, or a missing header, shows
// where it comes from. TestEveryRouteWithEveryRole tries every route with Sec-Fetch-Site.
func TestOtherSitesCannotPost(t *testing.T) {
	b := newRig(t).LoggedIn()
	form := url.Values{"q": {"ana@example.com"}}
	for _, origin := range []string{"https://evil.example", "http://console.example.evil.example", "null"} {
		want(t, b.Post("/admin/search", form, "Sec-Fetch-Site", "", "Origin", origin), http.StatusForbidden)
	}
	// a current browser sends at least one of the two headers
	want(t, b.Post("/admin/search", form, "Sec-Fetch-Site", ""), http.StatusForbidden)
	// a link from another site only reads
	want(t, b.Get("/admin", "Sec-Fetch-Site", "cross-site"), http.StatusOK)
	// some browsers before 2023 send Origin alone
	for _, site := range []string{"", "same-origin"} {
		want(t, b.Post("/admin/search", form, "Sec-Fetch-Site", site, "Origin", "https://console.example"), http.StatusSeeOther)
	}
	// a program sends no site, but has a token
	suppress := `{"channel":"email","to":"ana@example.com","reason":"asked for it"}`
	asProgram := []string{"Content-Type", "application/json", "Sec-Fetch-Site", ""}
	want(t, b.Do(http.MethodPost, "/v1/admin/suppressions", suppress, asProgram...), http.StatusForbidden)
	want(t, b.Do(http.MethodPost, "/v1/admin/suppressions", suppress,
		append(asProgram, "Authorization", "Bearer "+consoletest.Token)...), http.StatusCreated)
}

// Over http a browser sends Origin alone, and a proxy may have changed the host with which it is
// compared. The answer says so, in the reader's language, for the login and for each other form.
func TestFormsOverHTTP(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	overHTTP := []string{"Sec-Fetch-Site", "", "Origin", "http://codes.internal", "Accept", "text/html"}
	for name := range routes {
		path, posted := strings.CutPrefix(name, "POST /admin/")
		if !posted || path == "oidc/start" { // the rig has no provider
			continue
		}
		for language, words := range map[string][]string{
			"en": {"<h1>Open the console with https</h1>", `href="/admin"`}, "zh-CN": {"<h1>请用 https 打开控制台</h1>", "https://"},
		} {
			got := b.Post("/admin/"+strings.ReplaceAll(path, ":id", r.id().String()), url.Values{}, append(overHTTP, "Accept-Language", language)...)
			contains(t, want(t, got, http.StatusForbidden), words...)
		}
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Origin", "http://console.example"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
	} {
		got := want(t, b.Post("/admin/login", url.Values{}, append(header, "Accept-Language", "zh")...), http.StatusForbidden)
		contains(t, got, "未执行：请求来自其他网站")
		lacks(t, got, "https://")
	}
}

func TestOnlyAssetsAreServed(t *testing.T) {
	b := newRig(t).Browser()
	want(t, b.Get("/admin/static/admin.css"), http.StatusOK)
	for _, name := range []string{"list.html", "embed.go", "..%2fembed.go", ""} {
		if rec := b.Get("/admin/static/" + name); rec.Code == http.StatusOK {
			t.Errorf("%q is served", name)
		}
	}
}

// The console answers every query and body, and never with a 500.
func FuzzConsole(f *testing.F) {
	f.Add("status=sent&limit=1", `{"channel":"email","to":"ana@example.com"}`) // testdata/fuzz has others
	f.Fuzz(func(t *testing.T, query, body string) {
		r := newRig(t)
		r.writeSent("ana@example.com")
		for _, c := range []struct{ method, path string }{
			{http.MethodGet, "/v1/admin/sends"},
			{http.MethodPost, "/v1/admin/search"},
			{http.MethodGet, "/v1/admin/sends/x"},
			{http.MethodGet, "/admin/login"},
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

// Every text that a page uses exists, in every branch of the template.
func TestPagesNameTextsThatExist(t *testing.T) {
	used := map[string]bool{}
	files, err := fs.Glob(web.FS, "admin/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		body, err := fs.ReadFile(web.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`W\.(?:T|Say) "([^"]*)"`).FindAllStringSubmatch(string(body), -1) {
			used[m[1]] = true
		}
	}
	for _, label := range store.LabelNames() {
		used["label."+label] = true
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if _, err := texts.ConsoleTextsFor("").T(key); err != nil {
			t.Error(err)
		}
	}
	if _, err := texts.ConsoleTextsFor("").T("none"); err == nil {
		t.Error("a text that does not exist is no error")
	}
}

func TestEveryStateHasAWordAndASign(t *testing.T) {
	for _, s := range statusChoices {
		if texts.ConsoleTextsFor("").Get("status."+string(s)) == "" || statusSigns[s] == "" {
			t.Errorf("%s has no word or sign", s)
		}
	}
	for _, state := range codeStateChoices {
		word := string(state)
		if state == store.CodeEntered { // the word of verifications and the time line
			word = "approved"
		}
		if state == store.CodeOfCaller {
			word = "checked by the app"
		}
		if l := codeLabel(state, texts.ConsoleTextsFor("")); l.Word != word || l.Sign == "" || l.Tone == "" {
			t.Errorf("%s: %+v", state, l)
		}
	}
	for _, reason := range append(recipient.Reasons(), "not_configured", "unsupported") {
		if texts.ConsoleTextsFor("zh").Get("search.reason."+reason) == "" {
			t.Errorf("no text for %q", reason)
		}
	}
	r := sendRow{SendOrRefusal: store.SendOrRefusal{Send: store.Send{Status: "new_state", Reason: "new_word"}}, W: texts.ConsoleTextsFor("")}
	if r.State().Word != "new_state" || r.Why() != "new_word" {
		t.Errorf("words of a later version are lost: %+v, %s", r.State(), r.Why())
	}
}
