package app

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
	"sendcode/web"
)

// openRoutes are the routes that need no credential: to all others, a forged request is refused.
var openRoutes = []string{
	"GET /", "POST /", "GET /brand.css", "GET /static/*", "GET /static/widget/:name", "GET /widget.js", "GET /client.js",
	"GET /widget.d.ts", "GET /client.d.ts", "GET /livez", "GET /readyz", "GET /problems", "GET /problems/:slug", "GET /docs",
	"GET /docs/:name", "GET /llms.txt", "GET /openapi.yaml", "GET /.well-known/jwks.json",
	"GET /admin/", "GET /admin/login", "POST /admin/login", "GET /admin/login/code", "POST /admin/login/code",
	"POST /admin/logout", "POST /admin/prefer", "GET /admin/static/:name",
}

// credentials are all by which a request may say that it is known, from a short text and a long one
// of the same kind: keys, tokens, signatures, the cookies of page, console and mailbox.
func credentials(long string) map[string]http.Header {
	cookie := func(name string) http.Header { return http.Header{"Cookie": {name + "=" + long}} }
	return map[string]http.Header{
		"a bearer": {"Authorization": {"Bearer " + long}}, "a user": {"Authorization": {"Basic " + long}},
		"signatures": {"Webhook-Id": {"1"}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {strings.ReplaceAll(long, ".", " v1,")},
			"X-Twilio-Signature": {long}},
		"the page": cookie("sendcode"), "a known browser": cookie("known_sendcode"), "the console": cookie("sendcode-admin"),
		"the console's factor": cookie("sendcode-admin-browser-8c6976e5"), "the mailbox": cookie("sendcode_mailbox"),
	}
}

// A forged request to a route, with whatever credential and body, is refused and costs no more than
// a short one and its length: work is told by what is allocated. Not parallel, since others'
// allocations count.
func TestForgedRequestsOfEveryRoute(t *testing.T) {
	servertest.SkipUnderRace(t)
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte(forgedSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-twenty-odd-characters"
	a := newAlone(t, slog.New(slog.DiscardHandler), "SENDCODE_API_KEY="+lightKey, "SENDCODE_CONFIG="+file,
		"SENDCODE_ADMIN_PASSWORD=a password of the owner", "SENDCODE_ADMIN_TOKEN="+token, "SENDCODE_METRICS_TOKEN="+token+"s",
		"HOOK=v1,whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIGEgaG9vayEh", "EVENTS=a secret of a provider", "CARRIER=a secret of a carrier")
	a.serveUntilTheEnd(t)
	asked := 0
	cost := func(method, path, body string, header http.Header) (w *httptest.ResponseRecorder, cost uint64) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		asked++ // no network and no account is refused for its number
		r.Host, r.RemoteAddr, r.Header = "127.0.0.1", fmt.Sprintf("127.%d.%d.1:5000", asked/250, asked%250), header.Clone()
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if strings.HasPrefix(body, "{") {
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
	// try fails unless the long request costs its length more than the short one, at least once
	try := func(what, method string, path func(string) string, body func(string) string, header func(string) http.Header,
		refused func(*httptest.ResponseRecorder) bool) {
		t.Helper()
		var short, got uint64
		long := strings.Repeat("ab.", 2300) // twice in a body of at most 16 KiB
		for range 5 {                       // the service works beside
			_, short = cost(method, path("x"), body("x"), header("x"))
			var w *httptest.ResponseRecorder
			w, got = cost(method, path(long), body(long), header(long))
			if !refused(w) {
				t.Errorf("%s: %d %.200s", what, w.Code, w.Body)
				return
			}
			if got <= short+uint64(8*(len(path(long))+len(body(long))+len(long)))+64<<10 {
				return
			}
		}
		t.Errorf("%s: %d bytes are allocated, and %d for a short one", what, got, short)
	}
	concrete := strings.NewReplacer(":id", "00000000-0000-7000-8000-000000000000", ":slug", "not-found", "/docs/:", "/docs/",
		"hooks/:name", "hooks/auth", "events/:name", "events/mail", ":name", "any", ":carrier", "twilio", ":limit", "x",
		"/static/*", web.StaticURL("page.css"), "/admin/*", "/admin/x")
	same := func(s string) func(string) string { return func(string) string { return s } }
	open := map[string]bool{}
	for _, name := range openRoutes {
		open[name] = true
	}
	for _, r := range a.listeners[0].routes.Routes() {
		name, method, path := r.Method+" "+r.Path, r.Method, concrete.Replace(r.Path)
		if method == http.MethodHead { // with the handler of GET
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
			try(name+", "+kind, method, same(path), same(""), func(s string) http.Header { return credentials(s)[kind] }, refused)
		}
		try(name+", a query", method, func(s string) string { return path + "?token=" + s + "&k=" + s }, same(""),
			func(string) http.Header { return http.Header{} }, refused)
		if method == http.MethodPost {
			for _, unit := range []string{`{"signature":{"token":"%s"},"proof":"%[1]s"}`, "password=%s&act=send&to=%[1]s&username=u&code=1"} {
				try(name+", a body", method, same(path), func(s string) string { return fmt.Sprintf(unit, s) },
					func(string) http.Header { return http.Header{} }, refused)
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
	key := http.Header{"Authorization": {"Bearer " + lightKey}}
	for _, field := range []string{"proof", "reference"} { // behind a right key
		try("a forged "+field, http.MethodPost, same("/v1/proofs/redeem"), func(s string) string { return `{"` + field + `":"` + s + `"}` },
			func(string) http.Header { return key }, is(http.StatusUnprocessableEntity))
	}
	receipts := strings.TrimPrefix(ReceiptAddresses(a.cfg).URL("twilio", "00000000-0000-7000-8000-000000000000"), a.cfg.SMS.PublicURL)
	try("a forged receipt", http.MethodPost, same(receipts), func(s string) string { return "MessageStatus=delivered&x=" + s },
		func(s string) http.Header { return credentials(s)["signatures"] }, is(http.StatusForbidden))
}

const forgedSettings = `
page: {app: default}
hooks: [{name: auth, app: default, server: supabase-email, secret_env: HOOK}]
provider_events:
  - name: mail
    scheme: mailgun
    secret_env: EVENTS
    type: [event-data.event]
    message: event-data.id
    outcomes: {delivered: delivered}
sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers: [{name: twilio, type: twilio, account: AC00000000000000000000000000000001, secret_env: CARRIER, service: MG00000000000000000000000000000002, prices: {default: 1}}]
`
