package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const metricsToken = "metrics-token-of-the-tests"

// public is a service that other machines could reach.
func public(t *testing.T) *stack {
	t.Helper()
	s := onRealParts(t)
	s.env["SENDCODE_ADDR"] = "0.0.0.0:0"
	return s
}

// Metrics name apps, keys and mail servers: on the listener of the API they are closed, or need their token.
func TestMetricsOnAPublicListenerNeedTheirToken(t *testing.T) {
	bearer := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	s := public(t).start(1)
	for _, given := range []string{"", "Bearer ", "Bearer " + token, "Bearer " + apiKey, "Bearer " + metricsToken} {
		if a := s.do(0, http.MethodGet, "/metrics", "", bearer(given)); a.status != http.StatusNotFound {
			t.Errorf("without SENDCODE_METRICS_TOKEN, %q: %d", given, a.status)
		}
	}
	for _, want := range []string{"/metrics is off", "SENDCODE_METRICS_TOKEN", "/admin is on 0.0.0.0:0", "SENDCODE_ADMIN_ADDR"} {
		if !strings.Contains(s.printed.String(), want) {
			t.Errorf("the log of the start does not say %q", want)
		}
	}
	if a := s.do(0, http.MethodGet, "/admin/login", ""); a.status != http.StatusOK {
		t.Errorf("the console: %d", a.status)
	}
	s.env["SENDCODE_METRICS_TOKEN"] = metricsToken
	s.start(1)
	for given, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer " + token: 401, "Bearer " + metricsToken + "x": 401, "Bearer " + metricsToken[1:]: 401,
		"Basic " + metricsToken: 401, "Bearer " + metricsToken: 200, "bearer " + metricsToken: 200,
	} {
		if a := s.do(1, http.MethodGet, "/metrics", "", bearer(given)); a.status != want || strings.Contains(string(a.raw), "sendcode_limiter_up") != (want == 200) {
			t.Errorf("%q: %d %s, want %d", given, a.status, a.raw, want)
		}
	}
}

// The console's cookie is Secure at a public address, although the proxy before it is not trusted and nothing says https.
func TestCookiesOnAPublicListenerAreSecure(t *testing.T) {
	s := public(t).start(1)
	visit := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visit.PostForm(s.replicas[0].base+"/admin/login", url.Values{"username": {"admin"}, "password": {s.env["SENDCODE_ADMIN_PASSWORD"]}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if c := resp.Header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-") || !strings.Contains(c, "; Secure") {
		t.Errorf("%d, %.20q", resp.StatusCode, c)
	}
}
