package clients

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

const metricsToken = "metrics-token-of-the-tests"

// public is a service that other machines could reach.
func public(t *testing.T) *apptest.Stack {
	t.Helper()
	s := apptest.OnRealParts(t)
	s.Env["SENDCODE_ADDR"] = "0.0.0.0:0"
	return s
}

// Metrics name apps, keys and mail servers: on the listener of the API they are closed, or need their token.
func TestMetricsOnAPublicListenerNeedTheirToken(t *testing.T) {
	bearer := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	s := public(t).Start(1)
	for _, given := range []string{"", "Bearer ", "Bearer " + apptest.Token, "Bearer " + apptest.APIKey, "Bearer " + metricsToken} {
		if a := s.Do(0, http.MethodGet, "/metrics", "", bearer(given)); a.StatusCode != http.StatusNotFound {
			t.Errorf("without SENDCODE_METRICS_TOKEN, %q: %d", given, a.StatusCode)
		}
	}
	for _, want := range []string{"/metrics is off", "SENDCODE_METRICS_TOKEN", "/admin is on 0.0.0.0:0", "SENDCODE_ADMIN_ADDR"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the log of the start does not say %q", want)
		}
	}
	if a := s.Do(0, http.MethodGet, "/admin/login", ""); a.StatusCode != http.StatusOK {
		t.Errorf("the console: %d", a.StatusCode)
	}
	s.Env["SENDCODE_METRICS_TOKEN"] = metricsToken
	s.Start(1)
	for given, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer " + apptest.Token: 401, "Bearer " + metricsToken + "x": 401, "Bearer " + metricsToken[1:]: 401,
		"Basic " + metricsToken: 401, "Bearer " + metricsToken: 200, "bearer " + metricsToken: 200,
	} {
		if a := s.Do(1, http.MethodGet, "/metrics", "", bearer(given)); a.StatusCode != want || strings.Contains(string(a.Raw), "sendcode_limiter_up") != (want == 200) {
			t.Errorf("%q: %d %s, want %d", given, a.StatusCode, a.Raw, want)
		}
	}
}

// The console's cookie is Secure at a public address, although the proxy before it is not trusted and nothing says https.
func TestCookiesOnAPublicListenerAreSecure(t *testing.T) {
	s := public(t).Start(1)
	visit := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visit.PostForm(s.Replicas[0].Base+"/admin/login", url.Values{"username": {"admin"}, "password": {s.Env["SENDCODE_ADMIN_PASSWORD"]}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if c := resp.Header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-") || !strings.Contains(c, "; Secure") {
		t.Errorf("%d, %.20q", resp.StatusCode, c)
	}
}
