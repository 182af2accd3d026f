package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/api"
	"sendcode/internal/server"
	"sendcode/internal/servertest"
	"sendcode/internal/verification"
)

// scoped is the API with one secret key for each scope, named after it, and one without scopes, "all". A request that passes
// the check of its key panics in the use cases that are not there, and is a 500; one with a body that is not JSON is a 4xx.
func scoped(t *testing.T) *echo.Echo {
	t.Helper()
	keys := api.Keys{{App: "shop", ID: "all", Kind: verification.Secret, SHA256: sha256.Sum256([]byte("sk_all"))}}
	for _, s := range api.Scopes {
		keys = append(keys, &api.Key{App: "shop", ID: string(s), Kind: verification.Secret, SHA256: sha256.Sum256([]byte("sk_" + s)), Scopes: []api.Scope{s}})
	}
	e := server.New(server.Config{Logger: slog.New(slog.DiscardHandler)})
	api.New(nil, keys).Register(e)
	return e
}

func allowed(t *testing.T, e *echo.Echo, method, path, key string) bool {
	t.Helper()
	w := client{t, e, "192.0.2.1", key}.do(method, strings.ReplaceAll(path, ":id", "x"), "{", "")
	var p struct{ Type, Detail, Scope string }
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	if w.Code == http.StatusForbidden {
		if !strings.HasSuffix(p.Type, "/problems/insufficient-scope") || p.Scope == "" || !strings.HasSuffix(p.Detail, " "+p.Scope+".") || strings.Contains(w.Body.String(), "sk_") {
			t.Errorf("%s %s with %s: %s", method, path, key, w.Body)
		}
		return false
	}
	if w.Code == http.StatusUnauthorized || w.Code == http.StatusNotFound {
		t.Errorf("%s %s with %s: %d", method, path, key, w.Code)
	}
	return true
}

// A route that this table does not name, or that asks for no scope, fails the test.
func TestEveryRouteAsksForItsScope(t *testing.T) {
	want := map[string]api.Scope{
		"POST /v1/verifications":            api.ScopeSend,
		"POST /v1/verifications/:id/cancel": api.ScopeSend,
		"POST /v1/verifications/:id/check":  api.ScopeCheck,
		"POST /v1/verifications/check":      api.ScopeCheck,
		"GET /v1/verifications/:id":         api.ScopeRead,
		"POST /v1/proofs/redeem":            api.ScopeCheck,
		"POST /v1/quota":                    api.ScopeRead,
		"GET /v1/channels":                  api.ScopeRead,
		"POST /v1/limits/:limit/take":       api.ScopeLimit,
		"POST /v1/limits/:limit/peek":       api.ScopeLimit,
		"POST /v1/limits/:limit/record":     api.ScopeLimit,
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
		for _, s := range api.Scopes {
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
