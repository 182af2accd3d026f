package app

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// Each route that answers GET answers HEAD with the same status and header fields, and no body (RFC
// 9110, section 9.3.2).
func TestHeadOfEveryRoute(t *testing.T) {
	a := newWithEveryRoute(t)
	a.serveUntilTheEnd(t)
	var cookies []*http.Cookie // of the login; one of a GET would spare its HEAD from setting another
	client := &http.Client{Timeout: servertest.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.Addr()+path, nil)
		must(t, err)
		if !strings.Contains(path, "/admin") {
			r.Header.Set("Authorization", "Bearer "+loneKey)
		}
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return answer
	}
	form := url.Values{"username": {"admin"}, "password": {ownersPassword}}.Encode()
	login, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Addr()+"/admin/login", strings.NewReader(form))
	must(t, err)
	login.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
	answer, err := client.Do(login)
	if err != nil || answer.StatusCode != http.StatusSeeOther || answer.Body.Close() != nil {
		t.Fatalf("%+v %v", answer, err)
	}
	cookies = answer.Cookies()
	good := 0
	paths := []string{}
	for _, r := range a.listeners[0].routes.Routes() {
		if r.Method == http.MethodGet {
			paths = append(paths, concretePath.Replace(r.Path))
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		get := ask(http.MethodGet, path)
		_, _ = io.Copy(io.Discard, get.Body)
		_ = get.Body.Close()
		head := ask(http.MethodHead, path)
		body, err := io.ReadAll(head.Body)
		_ = head.Body.Close()
		if err != nil || len(body) > 0 || head.StatusCode != get.StatusCode {
			t.Errorf("%s: HEAD %d, GET %d; %q %v", path, head.StatusCode, get.StatusCode, body, err)
		}
		for _, name := range slices.Sorted(maps.Keys(get.Header)) {
			switch name {
			case "Content-Length": // net/http tells none of an empty body; the export's is known at its end
				if head.Header.Get(name) == "" && get.ContentLength > 0 && path != "/v1/admin/sends.csv" {
					t.Errorf("%s: HEAD has no %s", path, name)
				}
			case "Date", "X-Request-Id", "Set-Cookie", "Etag":
				if head.Header.Get(name) == "" {
					t.Errorf("%s: HEAD has no %s", path, name)
				}
			default:
				servertest.Same(t, path+": "+name, head.Header.Get(name), get.Header.Get(name))
			}
		}
		if get.StatusCode == http.StatusOK {
			good++
		}
	}
	entries, err := a.db.AuditEntries(t.Context(), store.AuditFilter{Limit: 100})
	must(t, err)
	exports := 0
	for _, e := range entries {
		if e.What == string(auth.ActionExport) {
			exports++
		}
	}
	servertest.Same(t, "audit entries of exports", exports, 2) // the begin and the end of that of GET
	if good < 34 {
		t.Errorf("%d of %d routes were found", good, len(paths))
	}
}
