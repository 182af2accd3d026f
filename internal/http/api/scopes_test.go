package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/api"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/admission"
)

// scoped returns the API with one secret key for each scope, named after the scope, and one key
// without scopes, "all". A request that passes the check of its key panics in the missing use
// cases, and gets a 500; a request whose body is not JSON gets a 4xx.
func scoped(t *testing.T) *echo.Echo {
	t.Helper()
	keys := api.Keys{keyOf("shop", "sk_all")}
	for _, s := range keyScopes {
		key := keyOf("shop", "sk_"+string(s))
		key.Scopes = []api.KeyScope{s}
		keys = append(keys, key)
	}
	return serve(full{}, keys...)
}

// serve returns the API with these keys and only these use cases.
func serve(codes full, keys ...*api.Key) *echo.Echo {
	e := server.New(server.Config{Logger: slog.New(slog.DiscardHandler)})
	api.New(api.Services{Codes: codes}, keys).Register(e)
	return e
}

// full implements only the two use cases that report an overload. They return its fields.
type full struct {
	api.CodeService
	sends, checks error
}

func (f full) SendsOverloadError() error  { return f.sends }
func (f full) ChecksOverloadError() error { return f.checks }

// unread is a body that fails the test if it is read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) { u.Error("the body was read"); return 0, io.EOF }

// In an overload, sends and checks are refused before their key is looked up and their body is
// read. No other requests are refused.
func TestAnOverloadIsRefusedUnread(t *testing.T) {
	over := &admission.OverloadedError{RetryAfter: 3 * time.Second}
	for name, c := range map[string]struct {
		codes   full
		refused []string
	}{
		"sends":  {full{sends: over}, []string{"/v1/verifications"}},
		"checks": {full{checks: over}, []string{"/v1/verifications/x/check", "/v1/verifications/check"}},
	} {
		e := serve(c.codes)
		for _, path := range []string{
			"/v1/verifications", "/v1/verifications/x/check", "/v1/verifications/check",
			"/v1/verifications/x/cancel", "/v1/proofs/redeem", "/v1/quota", "/v1/limits/x/take",
		} {
			r, w := httptest.NewRequest(http.MethodPost, path, unread{t}), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer sk_unknown")
			e.ServeHTTP(w, r)
			want := http.StatusUnauthorized
			if slices.Contains(c.refused, path) {
				want = http.StatusServiceUnavailable
				if got := w.Header(); got.Get("Retry-After") != "3" || got.Get("X-Request-Id") == "" ||
					got.Get("Cache-Control") != "no-store" || !strings.Contains(w.Body.String(), `"may_have_counted":false`) {
					t.Errorf("%s: %v %s", path, got, w.Body)
				}
			}
			servertest.Same(t, name+" full: "+path, w.Code, want)
		}
	}
}

func allowed(t *testing.T, e *echo.Echo, method, path, key string) bool {
	t.Helper()
	w := client{t, e, "192.0.2.1", key}.do(method, strings.ReplaceAll(path, ":id", "x"), "{")
	var p struct{ Type, Detail, Scope string }
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	if w.Code == http.StatusForbidden {
		if !strings.HasSuffix(p.Type, "/problems/insufficient-scope") || p.Scope == "" ||
			!strings.HasSuffix(p.Detail, " "+p.Scope+".") || strings.Contains(w.Body.String(), "sk_") {
			t.Errorf("%s %s with %s: %s", method, path, key, w.Body)
		}
		return false
	}
	if w.Code == http.StatusUnauthorized || w.Code == http.StatusNotFound {
		t.Errorf("%s %s with %s: %d", method, path, key, w.Code)
	}
	return true
}

// A route that is missing in this table, or that needs no scope, fails the test.
func TestEveryRouteAsksForItsScope(t *testing.T) {
	want := map[string]api.KeyScope{
		"POST /v1/verifications":             api.KeyScopeSend,
		"POST /v1/verifications/:id/cancel":  api.KeyScopeSend,
		"POST /v1/verifications/:id/check":   api.KeyScopeCheck,
		"POST /v1/verifications/check":       api.KeyScopeCheck,
		"POST /v1/verifications/:id/outcome": api.KeyScopeCheck,
		"POST /v1/verifications/outcome":     api.KeyScopeCheck,
		"GET /v1/verifications/:id":          api.KeyScopeRead,
		"POST /v1/proofs/redeem":             api.KeyScopeCheck,
		"POST /v1/quota":                     api.KeyScopeRead,
		"GET /v1/channels":                   api.KeyScopeRead,
		"POST /v1/limits/:limit/take":        api.KeyScopeLimit,
		"POST /v1/limits/:limit/peek":        api.KeyScopeLimit,
		"POST /v1/limits/:limit/record":      api.KeyScopeLimit,
	}
	e, missing := scoped(t), maps.Clone(want)
	for _, route := range e.Routes() {
		if !strings.HasPrefix(route.Path, "/v1/") {
			continue
		}
		name := route.Method + " " + route.Path
		needed, listed := want[strings.Replace(name, http.MethodHead, http.MethodGet, 1)]
		if !listed {
			t.Errorf("%s is not in the table", name)
		}
		delete(missing, name)
		for _, s := range keyScopes {
			servertest.Same(t, name+" with a key for "+string(s), allowed(t, e, route.Method, route.Path, "sk_"+string(s)), s == needed)
		}
		if !allowed(t, e, route.Method, route.Path, "sk_all") {
			t.Errorf("%s refuses a key without scopes", name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("there are no such routes: %v", missing)
	}
}

// A request with a secret key from a page of another origin gets a 403, because the key was
// published. Requests of back ends are not taken for such requests: Node's fetch, which Next uses
// and extends, sends Sec-Fetch-Mode and no Sec-Fetch-Site.
func TestASecretKeyDoesNotWorkInAPage(t *testing.T) {
	e := scoped(t)
	for name, c := range map[string]struct {
		headers []string
		refused bool
	}{
		"a page of another site":       {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", shop}, true},
		"a page of the site":           {[]string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", shop}, true},
		"a page of the same origin":    {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, false},
		"curl with an Origin":          {[]string{"User-Agent", "curl/8.14.1", "Accept", "*/*", "Origin", shop}, false},
		"Node's fetch":                 {[]string{"Accept-Language", "*", "Sec-Fetch-Mode", "cors", "User-Agent", "node"}, false},
		"a tool that a person started": {[]string{"Sec-Fetch-Site", "none"}, false},
	} {
		for _, path := range []string{"/v1/verifications", "/v1/quota", "/v1/proofs/redeem"} {
			w := client{t, e, "192.0.2.1", "sk_all"}.do(http.MethodPost, path, "{", c.headers...)
			want := http.StatusBadRequest // the key is accepted, and the body is not JSON
			if c.refused {
				want = http.StatusForbidden
			}
			if w.Code != want || strings.Contains(w.Body.String(), "/problems/secret-key-in-page") != c.refused ||
				strings.Contains(w.Body.String(), "sk_all") {
				t.Errorf("%s, %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
}

// A key is refused as soon as it expires. The app's next key is accepted before and after that.
func TestAuthenticateRefusesAKeyFromItsEndOn(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		older := keyOf("shop", "sk_older")
		older.Expires = time.Now().Add(time.Hour)
		e := serve(full{}, older, keyOf("shop", "sk_newer"))
		asked := func() (answers string) {
			for _, key := range []string{"sk_older", "sk_newer"} {
				answers += fmt.Sprint(" ", client{t, e, "192.0.2.1", key}.do(http.MethodPost, "/v1/quota", "{").Code)
			}
			return answers
		}
		time.Sleep(time.Hour - time.Nanosecond)
		servertest.Same(t, "before its end", asked(), " 400 400") // the body is not JSON
		time.Sleep(time.Nanosecond)
		servertest.Same(t, "at its end", asked(), " 401 400")
	})
}

// A generated key works only for programs on this machine, and not through a proxy on it.
// TestRequireDirectAndLocal tests which requests count as requests of such programs.
func TestAGeneratedKeyIsClosedToOthers(t *testing.T) {
	keys := api.Keys{keyOf("default", secret), keyOf("default", public)}
	keys[0].Local, keys[1].Local = true, true
	e := serve(full{}, keys...)
	for proxy, want := range map[string]int{"": http.StatusBadRequest, "203.0.113.9": http.StatusForbidden} { // the body is not JSON
		for _, key := range []string{secret, public} {
			header := []string{"X-Forwarded-For", proxy}
			if proxy == "" {
				header = nil
			}
			w := client{t, e, "127.0.0.1", key}.do(http.MethodPost, "http://127.0.0.1:8080/v1/verifications", "{", header...)
			servertest.Same(t, proxy+", "+key, w.Code, want)
			servertest.Same(t, proxy+", "+key+" says why", strings.Contains(w.Body.String(), "generated"), proxy != "")
		}
	}
}

// An unknown key is refused, and only a caller with a secret key chooses the request's ID.
func TestRequestIDOfACaller(t *testing.T) {
	e := serve(full{}, keyOf("shop", secret), keyOf("shop", public))
	const own = "order-7f3a9c2e41b0"
	for key, want := range map[string]int{secret: http.StatusBadRequest, public: http.StatusBadRequest, // the body is not JSON
		secret + "x": http.StatusUnauthorized, secret[:10]: http.StatusUnauthorized, "": http.StatusUnauthorized} {
		w := client{t, e, "192.0.2.1", key}.do(http.MethodPost, "/v1/verifications", "x", "X-Request-Id", own)
		id := w.Header().Get("X-Request-Id")
		if w.Code != want || (id == own) != (key == secret) || !strings.Contains(w.Body.String(), `"request_id":"`+id+`"`) {
			t.Errorf("%q: %d %s %s", key, w.Code, id, w.Body)
		}
	}
}

// If a shell did not insert the key, the request's key is empty or contains the name of a variable.
// The refusal then says so.
func TestAuthenticateNamesAKeyThatTheShellLeftOut(t *testing.T) {
	e := serve(full{}, keyOf("shop", secret))
	for _, key := range []string{" ", "$CODES_KEY", "%CODES_KEY%", "${CODES_KEY}", "$env:CODES_KEY", "'" + secret + "'", "sk_…"} {
		w := client{t, e, "192.0.2.1", ""}.do(http.MethodPost, "/v1/verifications", "{}", "Authorization", "Bearer "+key)
		servertest.Same(t, key, strings.Contains(w.Body.String(), "the shell did not put the variable's value there"), true)
	}
}

var keyScopes = []api.KeyScope{api.KeyScopeSend, api.KeyScopeCheck, api.KeyScopeRead, api.KeyScopeLimit}
