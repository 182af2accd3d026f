package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

const shop = "https://shop.example"

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Only pages of an app's origins, and the service's own page, may use its public key and read the
// answers. They can also read the 429 for too many requests from their network. A secret key has no
// such bound.
func TestOriginsOfAPublicKey(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants().Add("requests_per_minute: 20\n").Start(1)
	for name, c := range map[string]struct {
		header, value string
		status        int
		reads         bool
	}{
		"its page":              {"Origin", shop, 202, true},
		"another page":          {"Origin", "https://evil.example", 403, false},
		"one that begins alike": {"Origin", shop + ".evil.example", 403, false},
		"the same over http":    {"Origin", "http://shop.example", 403, false},
		"another port":          {"Origin", shop + ":8443", 403, false},
		"a sandbox":             {"Origin", "null", 403, false},
		"no page":               {"X-Nothing", "", 403, false},
		"our own page":          {"Sec-Fetch-Site", "same-origin", 202, false},
		"a page beside ours":    {"Sec-Fetch-Site", "same-site", 403, false},
	} {
		a := s.Ask(0, apptest.Ana, with("Authorization", "Bearer "+apptest.PublicKey), with(c.header, c.value))
		allowed := a.Header.Get("Access-Control-Allow-Origin")
		if a.StatusCode != c.status || (allowed == shop) != c.reads || allowed != "" && allowed != shop ||
			a.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d, may read: %q", name, a.StatusCode, allowed)
		}
		policy, exposed := a.Header.Get("RateLimit-Policy"), a.Header.Get("Access-Control-Expose-Headers")
		if c.reads && (!strings.Contains(exposed, "Retry-After") || !strings.Contains(policy, `"client";q=100;w=3600`) ||
			!strings.Contains(policy, `"network";q=1000;w=3600`)) {
			t.Errorf("%s: exposes %q, policy %q", name, exposed, policy)
		}
	}
	if a := s.Ask(0, apptest.Ana, with("Origin", "https://evil.example")); a.StatusCode != 202 ||
		a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a secret key: %d %v", a.StatusCode, a.Header)
	}
	var refused apptest.Answer
	for range 100 {
		refused = s.Ask(0, apptest.Ana, apptest.As(apptest.PublicKey))
	}
	s.Is("too many requests", refused, http.StatusTooManyRequests, refused.Problem() == "too-many-requests",
		refused.Header.Get("Access-Control-Allow-Origin") == shop)
	s.Is("a secret key", s.Ask(0, apptest.Ana), http.StatusAccepted)
	const own = "authorization,content-type,idempotency-key"
	ask := func(from, path, headers string) http.Header {
		return s.Do(0, http.MethodOptions, path, "", with("Origin", from), with("Authorization", ""),
			with("Access-Control-Request-Method", "POST"), with("Access-Control-Request-Headers", headers)).Header
	}
	// The page's tracing adds headers to each request, which the service doesn't read.
	traced := own + ",sentry-trace, baggage,x-b3-traceid"
	for headers, allowed := range map[string]string{
		own: own, "": own, traced: traced, own + ",*": own, own + ",a b": own, own + ",a\tb": own, own + ", X-Forwarded-For": own,
		"forwarded":                    own,
		own + strings.Repeat(",a", 29): own + strings.Repeat(",a", 29), own + strings.Repeat(",a", 30): own,
		strings.Repeat("a", 4096): strings.Repeat("a", 4096), strings.Repeat("a", 4097): own,
	} {
		h := ask(shop, "/v1/verifications", headers)
		if h.Get("Access-Control-Allow-Origin") != shop || h.Get("Access-Control-Allow-Headers") != allowed ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") || h.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(strings.Join(h.Values("Vary"), ","), "Access-Control-Request-Headers") {
			t.Errorf("%.80s: %v", headers, h)
		}
	}
	for _, c := range [][2]string{
		{"https://evil.example", "/v1/verifications"},
		{"null", "/v1/verifications"},
		{shop, "/v1/admin/sends"},
		{shop, "/"},
	} {
		if h := ask(c[0], c[1], own); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Access-Control-Allow-Headers") != "" {
			t.Errorf("%v: %v", c, h)
		}
	}
}

// cookieOf posts a form as a browser does and returns the first cookie that is set.
func cookieOf(s *apptest.Stack, path, form string, change ...func(*http.Request)) string {
	s.Helper()
	r, err := http.NewRequest(http.MethodPost, s.Replicas[0].Base+path, strings.NewReader(form))
	apptest.Must(s.T, err)
	for _, c := range append(change, with("Content-Type", "application/x-www-form-urlencoded"), with("Sec-Fetch-Site", "same-origin")) {
		c(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
	apptest.Must(s.T, err)
	defer resp.Body.Close()
	return resp.Header.Get("Set-Cookie")
}

// Metrics name apps, keys and mail servers. So on the listener of the API they are closed, or need
// their token. At a public address the console's cookie is Secure, even if the proxy before the
// service is not trusted and no header says https.
func TestAListenerThatOtherMachinesReach(t *testing.T) {
	t.Parallel()
	const metricsToken = servertest.MetricsToken
	s := apptest.OnRealParts(t)
	s.Env["SENDCODE_ADDR"] = "0.0.0.0:0"
	delete(s.Env, "SENDCODE_METRICS_TOKEN")
	s.Start(1)
	for _, given := range []string{"", "Bearer ", "Bearer " + apptest.Token, "Bearer " + apptest.APIKey, "Bearer " + metricsToken} {
		s.Is(fmt.Sprintf("without SENDCODE_METRICS_TOKEN, %q", given), s.Get("/metrics", with("Authorization", given)), http.StatusNotFound)
	}
	for _, want := range []string{
		"/metrics is off", "SENDCODE_METRICS_TOKEN", "/admin is on ", "where other machines can reach it",
		"SENDCODE_ADMIN_ADDR",
	} {
		if !s.Logged(want) {
			t.Errorf("the log of the start does not say %q", want)
		}
	}
	c := cookieOf(s, "/admin/login", "password="+s.Env["SENDCODE_ADMIN_PASSWORD"])
	if !strings.HasPrefix(c, "__Host-") || !strings.Contains(c, "; Secure") {
		t.Errorf("%.20q", c)
	}
	s.Env["SENDCODE_METRICS_TOKEN"] = metricsToken
	s.Start(1)
	for given, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer " + apptest.Token: 401, "Bearer " + metricsToken + "x": 401,
		"Bearer " + metricsToken[1:]: 401, "Basic " + metricsToken: 401, "Bearer " + metricsToken: 200, "bearer " + metricsToken: 200,
	} {
		a := s.Do(1, http.MethodGet, "/metrics", "", with("Authorization", given))
		if a.StatusCode != want || strings.Contains(string(a.Raw), "sendcode_limiter_up") != (want == 200) {
			t.Errorf("%q: %d %s, want %d", given, a.StatusCode, a.Raw, want)
		}
	}
}

// Strangers may reach the service through a proxy on the same machine. Through the proxy nothing is
// open without a password, and cookies are Secure. For direct requests from this machine everything
// works by plain http.
func TestAProxyOnTheSameMachine(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	s.Env["SENDCODE_ADMIN_PASSWORD"] = "the-password-of-the-console"
	delete(s.Env, "SENDCODE_METRICS_TOKEN")
	s.Start(1)
	cfg := s.Config()
	_, err := cfg.LoadOrCreateSecrets(cfg.DataDir)
	apptest.Must(t, err)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
		prefix string
	}{
		"straight":    {func(*http.Request) {}, http.StatusOK, "sendcode"},
		"a proxy":     {with("X-Forwarded-For", "203.0.113.9"), http.StatusForbidden, "__Host-sendcode"},
		"its scheme":  {with("X-Forwarded-Proto", "http"), http.StatusForbidden, "__Host-sendcode"},
		"a site":      {func(r *http.Request) { r.Host = "codes.example" }, http.StatusForbidden, "__Host-sendcode"},
		"a CDN's via": {with("Via", "1.1 proxy"), http.StatusForbidden, "__Host-sendcode"},
	} {
		for path, secret := range map[string]string{"/metrics": cfg.TrialMetricsToken(), "/mailbox": cfg.MailboxKey()} {
			s.Is(name+", "+path, s.Get(path, with("Authorization", "Bearer "+secret), c.change), c.status)
		}
		if got := cookieOf(s, "/admin/login", "password="+s.Env["SENDCODE_ADMIN_PASSWORD"], c.change); !strings.HasPrefix(got, c.prefix) ||
			strings.Contains(got, "; Secure") != (c.status != http.StatusOK) {
			t.Errorf("%s: %.80q", name, got)
		}
	}
	// A proxy that adds no header may pass on a loopback Host that its client sent.
	for _, path := range []string{"/metrics", "/mailbox", "/mailbox/messages", "/mailbox/html?id=1", "/mailbox?k=", "/mailbox?k=x"} {
		for _, given := range []string{"", "Bearer ", "Bearer " + cfg.MailboxKey()[1:], "Basic " + cfg.MailboxKey()} {
			s.Is(path+" of a guest, "+given, s.Get(path, with("Authorization", given)), http.StatusUnauthorized)
		}
	}
	s.Env["SENDCODE_METRICS_TOKEN"] = servertest.MetricsToken
	s.Restart()
	s.Is("metrics without the token", s.Get("/metrics", with("Authorization", "")), http.StatusUnauthorized)
	s.Is("metrics with the token", s.Get("/metrics", with("Via", "x")), http.StatusOK)
}
