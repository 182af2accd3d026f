package clients

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// crowdedAt is a service with a limit on requests.
func crowdedAt(s *apptest.Stack, limit string) *apptest.Stack {
	s.Helper()
	s.Tenants()
	file := s.Env["SENDCODE_CONFIG"]
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "requests_per_minute: "+limit+"\n"...), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
	return s
}

// Browsers of a network have a number of requests in common, whatever for; back ends and the service's own addresses have none.
// What is refused can be read by the page that asked, says when to come again, and leaves no row.
func TestRequestsOfBrowsersAreBounded(t *testing.T) {
	s := crowdedAt(apptest.Embedded(t), "5").Start(1)
	body := `{"channel":"email","to":"` + apptest.Ana + `","locale":"en"}`
	for i := range 5 {
		if a := s.Do(0, http.MethodPost, "/v1/verifications", body, apptest.As(apptest.PublicKey)); a.StatusCode != 202 {
			s.Fatalf("request %d: %d %s", i, a.StatusCode, a.Raw)
		}
	}
	for _, path := range []string{"/v1/verifications", "/v1/verifications/unknown/check", "/v1/quota"} {
		a := s.Do(0, http.MethodPost, path, body, apptest.As(apptest.PublicKey))
		if a.StatusCode != 429 || a.Type != "/problems/too-many-requests" || a.RetryAfter < 1 || a.RetryAfter > 120 || a.Header.Get("Retry-After") == "" {
			s.Errorf("%s: %d %s", path, a.StatusCode, a.Raw)
		}
		if a.Header.Get("Access-Control-Allow-Origin") != shop || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "Retry-After") {
			s.Errorf("%s: the page cannot read the answer: %v", path, a.Header)
		}
	}
	if a := s.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"ben@example.com"}`); a.StatusCode != 202 {
		s.Errorf("a secret key: %d %s", a.StatusCode, a.Raw)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/widget.js", "/problems/too-many-requests", "/openapi.yaml", "/admin/login"} {
		if a := s.Do(0, http.MethodGet, path, ""); a.StatusCode != 200 {
			s.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	for lang, words := range map[string]string{"en": "Too many requests from your network", "zh-CN": "您所在网络的请求过多"} {
		a := s.Do(0, http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("Accept-Language", lang) })
		if a.StatusCode != 429 || !strings.Contains(string(a.Raw), words) || !strings.Contains(string(a.Raw), `data-kind="away"`) || a.Header.Get("Retry-After") == "" {
			s.Errorf("the page in %s: %d %s", lang, a.StatusCode, a.Raw)
		}
	}
	if a := s.Do(0, http.MethodPost, "/", "act=send&to=carl@example.com", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }); a.StatusCode != 429 {
		s.Errorf("a form of the page: %d", a.StatusCode)
	}
	a := s.Do(0, http.MethodGet, "/metrics", "")
	if !strings.Contains(string(a.Raw), "sendcode_network_refusals_total 6\n") {
		s.Errorf("the refusals are not counted: %s", a.Raw)
	}
}
