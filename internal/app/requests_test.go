package app

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// crowdedAt is a service with a limit on requests.
func (s *stack) crowdedAt(limit string) *stack {
	s.Helper()
	s.tenants()
	file := s.env["SENDCODE_CONFIG"]
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
	s := embedded(t).crowdedAt("5").start(1)
	body := `{"channel":"email","to":"` + ana + `","locale":"en"}`
	for i := range 5 {
		if a := s.do(0, http.MethodPost, "/v1/verifications", body, as(publicKey)); a.status != 202 {
			s.Fatalf("request %d: %d %s", i, a.status, a.raw)
		}
	}
	for _, path := range []string{"/v1/verifications", "/v1/verifications/unknown/check", "/v1/quota"} {
		a := s.do(0, http.MethodPost, path, body, as(publicKey))
		if a.status != 429 || a.Type != "/problems/too-many-requests" || a.RetryAfter < 1 || a.RetryAfter > 120 || a.header.Get("Retry-After") == "" {
			s.Errorf("%s: %d %s", path, a.status, a.raw)
		}
		if a.header.Get("Access-Control-Allow-Origin") != shop || !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "Retry-After") {
			s.Errorf("%s: the page cannot read the answer: %v", path, a.header)
		}
	}
	if a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"ben@example.com"}`); a.status != 202 {
		s.Errorf("a secret key: %d %s", a.status, a.raw)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/widget.js", "/problems/too-many-requests", "/openapi.yaml", "/admin/login"} {
		if a := s.do(0, http.MethodGet, path, ""); a.status != 200 {
			s.Errorf("%s: %d", path, a.status)
		}
	}
	for lang, words := range map[string]string{"en": "Too many requests from your network", "zh-CN": "您所在网络的请求过多"} {
		a := s.do(0, http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("Accept-Language", lang) })
		if a.status != 429 || !strings.Contains(string(a.raw), words) || !strings.Contains(string(a.raw), `data-kind="away"`) || a.header.Get("Retry-After") == "" {
			s.Errorf("the page in %s: %d %s", lang, a.status, a.raw)
		}
	}
	if a := s.do(0, http.MethodPost, "/", "act=send&to=carl@example.com", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }); a.status != 429 {
		s.Errorf("a form of the page: %d", a.status)
	}
	a := s.do(0, http.MethodGet, "/metrics", "")
	if !strings.Contains(string(a.raw), "sendcode_network_refusals_total 6\n") {
		s.Errorf("the refusals are not counted: %s", a.raw)
	}
}

func TestLocaleIsATag(t *testing.T) {
	s := embedded(t).crowdedAt("0").start(1)
	for _, locale := range []string{"zh-CN,en;q=0.8", "not a tag", strings.Repeat("en-", 80) + "US", "en-"} {
		text, _ := json.Marshal(locale)
		a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+ana+`","locale":`+string(text)+`}`)
		if a.status != 422 || a.Field != "locale" || !strings.Contains(string(a.raw), "BCP 47") || strings.Contains(string(a.raw), locale) {
			s.Errorf("%q: %d %s", locale, a.status, a.raw)
		}
	}
	for i, locale := range []string{"en", "ZH-cn", "gsw-u-co-phonebk", "qq"} {
		if a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"l`+string(rune('a'+i))+`@example.com","locale":"`+locale+`"}`); a.status != 202 {
			s.Errorf("%q: %d %s", locale, a.status, a.raw)
		}
	}
	lenient := func(r *http.Request) { r.Header.Set("Accept-Language", "no; such, header;;") }
	if a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"m@example.com"}`, lenient); a.status != 202 {
		s.Errorf("a header that cannot be read: %d %s", a.status, a.raw)
	}
}
