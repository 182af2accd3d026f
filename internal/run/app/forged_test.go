package app

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
	"sendcode/web"
)

// openRoutes are the routes that need no credential. Every other route refuses a forged request.
var openRoutes = []string{
	"GET /", "POST /", "POST /return", "GET /brand.css", "GET /not-me/:token", "POST /not-me/:token", "GET /static/*", "GET /favicon.ico", "GET /static/widget/:name", "GET /widget.js",
	"OPTIONS /widget.js", "GET /client.js",
	"GET /widget.d.ts", "GET /client.d.ts", "GET /livez", "GET /readyz", "GET /problems", "GET /problems/:slug", "GET /docs",
	"GET /docs/", "GET /docs/:name", "GET /llms.txt", "GET /openapi.yaml", "GET /.well-known/jwks.json",
	"GET /admin/", "GET /admin/login", "POST /admin/login", "GET /admin/login/code", "POST /admin/login/code",
	"POST /admin/logout", "POST /admin/prefer", "GET /admin/static/:name",
}

// credentials returns each kind of credential that a request can send, with the given value: keys,
// tokens, signatures, and the cookies of console and mailbox.
func credentials(value string) map[string]http.Header {
	cookie := func(name string) http.Header { return http.Header{"Cookie": {name + "=" + value}} }
	return map[string]http.Header{
		"a bearer": {"Authorization": {"Bearer " + value}}, "a user": {"Authorization": {"Basic " + value}},
		"signatures": {
			"Webhook-Id": {"1"}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {strings.ReplaceAll(value, ".", " v1,")},
			"X-Twilio-Signature": {value},
		},
		"the console":          cookie("sendcode-admin"),
		"the console's factor": cookie("sendcode-admin-browser-8c6976e5"), "the mailbox": cookie("sendcode_mailbox"),
	}
}

type forgery struct {
	path, body string
	header     http.Header
}

// Every route except openRoutes refuses a forged request, with any credential and body. No route
// allocates many more bytes for a long request than for a short one: at most 8 for each byte of the
// request, plus 64 KiB. The test is not parallel, since the allocations of other tests would count.
func TestForgedRequestsOfEveryRoute(t *testing.T) {
	servertest.SkipUnderRace(t)
	const token = "a-token-of-twenty-odd-characters"
	a := newWithEveryRoute(t, "SENDCODE_ADMIN_TOKEN="+token, "SENDCODE_METRICS_TOKEN="+token+"s")
	a.serveUntilTheEnd(t)
	asked := 0
	cost := func(method string, f forgery) (w *httptest.ResponseRecorder, cost uint64) {
		r := httptest.NewRequest(method, f.path, strings.NewReader(f.body))
		asked++ // each request comes from another network, so that no limit refuses it
		r.Host, r.RemoteAddr = "127.0.0.1", fmt.Sprintf("127.%d.%d.1:5000", asked/250, asked%250)
		maps.Copy(r.Header, f.header)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if strings.HasPrefix(f.body, "{") {
			r.Header.Set("Content-Type", "application/json")
		} else {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w = httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a.listeners[0].routes.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		return w, after.TotalAlloc - before.TotalAlloc
	}
	// try compares the costs of a long request and a short one. It fails if the long one costs too
	// much in all five tries.
	try := func(what, method string, refused func(*httptest.ResponseRecorder) bool, of func(text string) forgery) {
		t.Helper()
		var short, got uint64
		text := strings.Repeat("ab.", 2300) // twice in a body of at most 16 KiB
		long := of(text)
		for range 5 { // the background work of the service may allocate, too
			_, short = cost(method, of("x"))
			var w *httptest.ResponseRecorder
			w, got = cost(method, long)
			if !refused(w) {
				t.Errorf("%s: %d %.200s", what, w.Code, w.Body)
				return
			}
			if got <= short+uint64(8*(len(long.path)+len(long.body)+len(text)))+64<<10 {
				return
			}
		}
		t.Errorf("%s: %d bytes are allocated, and %d for a short one", what, got, short)
	}
	open := map[string]bool{}
	for _, name := range openRoutes {
		open[name] = true
	}
	for _, r := range a.listeners[0].routes.Routes() {
		name, method, path := r.Method+" "+r.Path, r.Method, concretePath.Replace(r.Path)
		if method == http.MethodHead { // HEAD has the handler of GET
			continue
		}
		if method == echo.RouteNotFound {
			method = http.MethodGet
		}
		refused := func(w *httptest.ResponseRecorder) bool {
			return w.Code == http.StatusUnauthorized || w.Code == http.StatusNotFound && strings.HasPrefix(path, "/v1/receipts/") ||
				w.Code == http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Location"), "/admin/login")
		}
		if _, known := open[name]; known {
			open[name], refused = false, func(w *httptest.ResponseRecorder) bool { return w.Code != http.StatusInternalServerError }
		}
		for kind := range credentials("") {
			try(name+", "+kind, method, refused, func(s string) forgery { return forgery{path: path, header: credentials(s)[kind]} })
		}
		try(name+", a query", method, refused, func(s string) forgery { return forgery{path: path + "?token=" + s + "&k=" + s} })
		if method == http.MethodPost {
			for _, unit := range []string{
				`{"signature":{"token":"%s"},"proof":"%[1]s"}`,
				"password=%s&act=send&to=%[1]s&username=u&code=1",
			} {
				try(name+", a body", method, refused, func(s string) forgery { return forgery{path: path, body: fmt.Sprintf(unit, s)} })
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if open[name] {
			t.Errorf("there is no route %s", name)
		}
	}
	is := func(status int) func(*httptest.ResponseRecorder) bool {
		return func(w *httptest.ResponseRecorder) bool { return w.Code == status }
	}
	key := http.Header{"Authorization": {"Bearer " + loneKey}}
	for _, field := range []string{"proof", "reference"} { // the key is right, and only the field is forged
		try("a forged "+field, http.MethodPost, is(http.StatusUnprocessableEntity), func(s string) forgery {
			return forgery{"/v1/proofs/redeem", `{"` + field + `":"` + s + `"}`, key}
		})
	}
	receipts := strings.TrimPrefix(ReceiptAddresses(a.cfg).URL("twilio", "00000000-0000-7000-8000-000000000000"), a.cfg.PublicURL)
	try("a forged receipt", http.MethodPost, is(http.StatusForbidden), func(s string) forgery {
		return forgery{receipts, "MessageStatus=delivered&x=" + s, credentials(s)["signatures"]}
	})
}

// ownersPassword is the console's password in the services that newWithEveryRoute makes.
const ownersPassword = "a password of the owner"

// newWithEveryRoute is newAlone with settings that open every route.
func newWithEveryRoute(t *testing.T, environ ...string) *App {
	t.Helper()
	return newAlone(t, everyRoute, append(environ, "SENDCODE_ADMIN_PASSWORD="+ownersPassword,
		"HOOK=v1,whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIGEgaG9vayEh", "EVENTS=a secret of a provider", "CARRIER=a secret of a carrier")...)
}

// concretePath replaces the parameters in a route's pattern by values that exist, for handlers that
// look the value up before they check a credential.
var concretePath = strings.NewReplacer(":id", "00000000-0000-7000-8000-000000000000", ":slug", "not-found", "/docs/:", "/docs/",
	"hooks/:name", "hooks/auth", "events/:name", "events/mail", ":name", "any", ":carrier", "twilio", ":limit", "x",
	"/static/*", web.StaticURL("page.css"), "/admin/*", "/admin/x")

const everyRoute = `
page: {app: default}
hooks: [{name: auth, app: default, server: supabase-email, secret_env: HOOK}]
provider_events:
  - name: mail
    scheme: mailgun
    secret_env: EVENTS
    type: [event-data.event]
    message: event-data.id
    outcomes: {delivered: delivered}
public_url: https://codes.example.com
sms:
  countries: [DE]
  carriers: [{name: twilio, type: twilio, account: AC00000000000000000000000000000001, secret_env: CARRIER, service: MG00000000000000000000000000000002, prices: {default: 1}}]
`
