package console

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/openid"
	"sendcode/internal/http/openid/openidtest"
)

// routes has the least role of each route: none, a reader or more. A route missing here fails the
// test, so that each new route gets a role.
var routes = map[string]auth.Role{
	"GET /admin/login": "", "POST /admin/login": "", "POST /admin/oidc/start": "", "GET /admin/oidc/callback": "",
	"GET /admin/static/:name": "", "GET /admin/": "", "POST /admin/logout": "", "POST /admin/prefer": "", "GET /admin/login/code": "",
	"POST /admin/login/code": "", "GET /admin/factor": auth.Reader, "POST /admin/factor": auth.Reader, "POST /admin/sessions": auth.Reader,

	"GET /admin": auth.Reader, "GET /admin/sends/:id": auth.Reader, "GET /admin/acts": auth.Reader,
	"POST /admin/filter": auth.Reader, "POST /admin/search": auth.Reader, "GET /admin/policies": auth.Reader,
	"GET /v1/admin/sends": auth.Reader, "GET /v1/admin/sends/:id": auth.Reader, "GET /v1/admin/acts": auth.Reader,
	"POST /v1/admin/search":   auth.Reader,
	"GET /admin/suppressions": auth.Reader, "GET /v1/admin/suppressions": auth.Reader,
	"GET /admin/webhooks": auth.Reader, "POST /admin/webhooks": auth.Operator, "GET /v1/admin/webhooks": auth.Reader,

	"POST /admin/sends/:id/reset": auth.Operator, "POST /admin/sends/:id/resend": auth.Operator,
	"POST /admin/sends/:id/cancel": auth.Operator,
	"POST /admin/sends/:id/reveal": auth.Operator, "POST /admin/sends/:id/erase": auth.Owner,
	"POST /v1/admin/sends/:id/resend": auth.Operator, "POST /v1/admin/sends/:id/cancel": auth.Operator,
	"POST /v1/admin/sends/:id/reveal": auth.Operator,
	"POST /admin/sends/:id/export":    auth.Operator, "POST /v1/admin/export": auth.Operator,
	"POST /v1/admin/quota/reset": auth.Operator, "POST /v1/admin/erase": auth.Owner,
	"POST /admin/messages": auth.Owner, "GET /admin/messages": auth.Reader, "GET /admin/messages/html": auth.Reader, "GET /v1/admin/messages": auth.Reader,
	"GET /v1/admin/client": auth.Reader, "GET /v1/admin/stats": auth.Reader, "GET /admin/overview": auth.Reader,
	"GET /admin/prefixes": auth.Reader, "POST /admin/prefixes/lift": auth.Operator,
	"GET /v1/admin/prefixes": auth.Reader, "POST /v1/admin/prefixes/lift": auth.Operator,
	"GET /v1/admin/sends.csv": auth.Operator, "POST /admin/acts/subscription": auth.Operator, "POST /v1/admin/subscriptions": auth.Operator,
	"POST /admin/suppressions": auth.Operator, "POST /admin/suppressions/lift": auth.Operator,
	"POST /v1/admin/suppressions": auth.Operator, "POST /v1/admin/suppressions/lift": auth.Operator,
	echo.RouteNotFound + " /admin/*": auth.Reader, "GET /admin/accounts": auth.Owner,
	"POST /admin/accounts": auth.Owner,
}

// image returns the bytes of the database. Every write changes them.
func (r *rig) image() string {
	r.Helper()
	image, err := r.Store.Image()
	r.Must(err)
	return string(image)
}

// try makes a request as a form or a script would, with the fields that most routes need.
func try(b *consoletest.Browser, method, path string, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	switch {
	case method == http.MethodGet:
		return b.Get(path, header...)
	case strings.HasPrefix(path, "/v1/"):
		body := `{"channel":"email","to":"ana@example.com","purpose":"login","reason":"ticket 7"}`
		if strings.Contains(path, "/sends/") {
			body = `{"reason":"ticket 7"}`
		}
		switch {
		case strings.HasSuffix(path, "/subscriptions"):
			body = `{"provider":"ses","reason":"ticket 7"}`
		case strings.HasSuffix(path, "/search"):
			body = `{"channel":"email","to":"ana@example.com"}`
		case strings.Contains(path, "/suppressions"):
			body = strings.Replace(body, `,"purpose":"login"`, "", 1)
		}
		return b.Do(method, path, body, append([]string{"Content-Type", "application/json"}, header...)...)
	}
	return b.Post(path, url.Values{
		"provider": {"ses"}, "reason": {"ticket 7"}, "sure": {"yes"}, "q": {"ana@example.com"}, "channel": {"email"},
		"to": {"ana@example.com"}, "address": {strings.Repeat("ab", 16)}, "name": {"eve"}, "role": {"owner"}, "do": {"add"},
	}, header...)
}

// Every route is tried with every role. A page or a script that the role does not allow is refused
// and changes nothing, whatever the request contains. A page of another site can change nothing,
// even with an owner's session.
func TestEveryRouteWithEveryRole(t *testing.T) {
	shared, server := newRigWithProvider(t) // for requests that change nothing
	var registered []string
	for _, route := range shared.Handler.(*echo.Echo).Routes() {
		if route.Method == http.MethodHead { // HEAD has the handler and the middleware of GET
			continue
		}
		if strings.HasPrefix(route.Path, "/admin") || strings.HasPrefix(route.Path, "/v1/admin") {
			registered = append(registered, route.Method+" "+route.Path)
		}
	}
	slices.Sort(registered)
	if stated := slices.Sorted(maps.Keys(routes)); !slices.Equal(registered, stated) {
		t.Errorf("there are %v, and roles are stated for %v", registered, stated)
	}
	roles := []auth.Role{"", auth.Reader, auth.Operator, auth.Owner}
	visitor := func(r *rig, role auth.Role) *consoletest.Browser {
		if role == "" {
			return r.Browser()
		}
		return r.As(string(role))
	}
	readers := map[auth.Role]*consoletest.Browser{}
	for _, role := range roles {
		readers[role] = visitor(shared, role)
	}
	id := shared.writeSent("ana@example.com").ID
	for name, least := range routes {
		for rank, role := range roles {
			r, b, id := shared, readers[role], id
			allowed, posts := rank >= slices.Index(roles, least), strings.HasPrefix(name, http.MethodPost)
			if allowed && posts {
				r = newRig(t, func(c *Config) { c.Auth.Provider = providerAt(server, c.Now) })
				b, id = visitor(r, role), r.writeSent("ana@example.com").ID
			}
			method, path, _ := strings.Cut(strings.NewReplacer(":id", id.String(), ":name", "admin.css").Replace(name), " ")
			before := r.image()
			if posts {
				got := try(b, method, path, "Sec-Fetch-Site", "cross-site").Code
				if changed := r.image() != before; changed || got != http.StatusForbidden {
					t.Errorf("%s from another site, as %q: %d, changed: %v", name, role, got, changed)
				}
			}
			got := try(b, method, path)
			unchanged := r.image() == before
			switch {
			case allowed:
				if got.Code == http.StatusForbidden || got.Code == http.StatusUnauthorized && path != "/admin/login" || got.Code >= 500 {
					t.Errorf("%s as %q: %d %s", name, role, got.Code, got.Body)
				}
				if slices.Index(roles, least) > 1 && posts && strings.HasPrefix(path, "/v1/") &&
					!strings.HasSuffix(path, "/resend") && !strings.HasSuffix(path, "/lift") && unchanged {
					t.Errorf("%s as %q did nothing: %d %s", name, role, got.Code, got.Body)
				}
				continue
			case role == "" && got.Code != http.StatusUnauthorized &&
				(got.Code != http.StatusSeeOther || !strings.HasPrefix(got.Header().Get("Location"), "/admin/login")):
				t.Errorf("%s without a login: %d", name, got.Code)
			case role != "" && got.Code != http.StatusForbidden:
				t.Errorf("%s as %q: %d", name, role, got.Code)
			}
			lacks(t, got, "ana@example.com")
			if !unchanged {
				t.Errorf("%s as %q changed something: %d %s", name, role, got.Code, got.Body)
			}
		}
	}
}

// newRigWithProvider returns a rig in which people may also log in through a provider on loopback.
func newRigWithProvider(t *testing.T) (*rig, *openidtest.Provider) {
	t.Helper()
	server := openidtest.New(t, consoletest.Address+auth.ProviderCallbackPath)
	r := newRig(t, func(c *Config) { c.Auth.Provider = providerAt(server, c.Now) })
	server.Do(func() { server.Now = r.Clock.Now })
	return r, server
}

func providerAt(server *openidtest.Provider, now func() time.Time) *auth.Provider {
	return &auth.Provider{
		Client: openid.New(consoletest.Identities(server), now), Title: "Example ID", Fingerprint: "one",
		Roles: map[string]auth.Role{"support": auth.Reader, "on-call": auth.Operator, "console-owners": auth.Owner},
	}
}
