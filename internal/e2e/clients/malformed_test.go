package clients

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

func TestMalformedRequests(t *testing.T) {
	s := apptest.Embedded(t).Start(1)
	a := s.Ask(0, apptest.Ana)
	const path = "/v1/verifications"
	check := path + "/" + a.ID + "/check"
	to := func(v string) string {
		body, err := json.Marshal(map[string]string{"channel": "email", "to": v})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		slug, field              string
		change                   func(*http.Request)
	}{
		{"broken JSON", "POST", path, `{"channel":"email",`, 400, "malformed-json", "", nil},
		{"unknown field", "POST", path, `{"channel":"email","to":"x@example.com","tos":1}`, 400, "unknown-field", "tos", nil},
		{"a code twice", "POST", check, `{"code":"000000","code":"111111"}`, 400, "malformed-json", "code", nil},
		{"to is a number", "POST", path, `{"channel":"email","to":5}`, 422, "invalid-field", "to", nil},
		{"a megabyte", "POST", path, to(strings.Repeat("a", 1<<20)), 413, "too-large", "", nil},
		{"no channel", "POST", path, `{"to":"x@example.com"}`, 422, "invalid-field", "channel", nil},
		{"unsupported channel", "POST", path, `{"channel":"fax","to":"x@example.com"}`, 422, "invalid-field", "channel", nil},
		{"channel without a country", "POST", path, `{"channel":"sms","to":"015112345678"}`, 422, "invalid-field", "to", nil},
		{"no recipient", "POST", path, `{"channel":"email"}`, 422, "invalid-field", "to", nil},
		{"header injection", "POST", path, to("x@example.com\r\nBcc: y@example.com"), 422, "invalid-field", "to", nil},
		{"unknown purpose", "POST", path, `{"channel":"email","to":"x@example.com","purpose":"party"}`, 422, "invalid-field", "purpose", nil},
		{"long reference", "POST", path, `{"channel":"email","to":"x@example.com","reference":"` + strings.Repeat("r", 65) + `"}`, 422, "invalid-field", "reference", nil},
		{"client_ip is a name", "POST", path, `{"channel":"email","to":"x@example.com","client_ip":"localhost"}`, 422, "invalid-field", "client_ip", nil},
		{"unknown verification to resend", "POST", path, `{"verification_id":"nothing"}`, 404, "not-found", "", nil},
		{"another recipient of a known one", "POST", path, `{"verification_id":"` + a.ID + `","to":"x@example.com"}`, 422, "invalid-field", "to", nil},
		{"no key", "POST", path, to("x@example.com"), 401, "unauthorized", "", func(r *http.Request) { r.Header.Del("Authorization") }},
		{"a wrong key", "POST", path, to("x@example.com"), 401, "unauthorized", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer sk_wrong") }},
		{"a form", "POST", path, "channel=email", 415, "unsupported-media-type", "", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }},
		{"wrong method", "PUT", path, to("x@example.com"), 405, "method-not-allowed", "", nil},
		{"unknown verification", "GET", path + "/nothing", "", 404, "not-found", "", nil},
		{"unknown path", "GET", "/v1/nothing", "", 404, "not-found", "", nil},
		{"check of an unknown one", "POST", path + "/nothing/check", `{"code":"123456"}`, 404, "not-found", "", nil},
		{"check without a code", "POST", check, `{}`, 422, "invalid-field", "code", nil},
		{"check of a number", "POST", check, `{"code":123456}`, 422, "invalid-field", "code", nil},
		{"check of a long code", "POST", check, `{"code":"` + strings.Repeat("1", 65) + `"}`, 422, "invalid-field", "code", nil},
	} {
		var change []func(*http.Request)
		if c.change != nil {
			change = append(change, c.change)
		}
		got := s.Do(0, c.method, c.path, c.body, change...)
		if got.StatusCode != c.status || got.Type != "/problems/"+c.slug || got.Field != c.field || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", c.name, got.StatusCode, got.Raw)
		}
		if explained := s.Do(0, "GET", got.Type, ""); explained.StatusCode != 200 {
			t.Errorf("%s: %s is not explained: %d", c.name, got.Type, explained.StatusCode)
		}
	}
	if c := s.Check(0, a.ID, "000000"); c.AttemptsRemaining == nil || *c.AttemptsRemaining != 4 {
		t.Errorf("a malformed check cost a try: %s", c.Raw)
	}
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}
