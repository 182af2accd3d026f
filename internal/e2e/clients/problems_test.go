package clients

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"sendcode/internal/app/apptest"
)

// Title and detail are in the language of Accept-Language; everything else, and with it what programs compare, is the same in each.
func TestProblemsInTheClientsLanguage(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t).Start(1)
	sent := s.Ask(0, apptest.Ana)
	s.AwaitMail(apptest.Ana, 1)
	ofAna, cancel := `{"channel":"email","to":"`+apptest.Ana+`"}`, "/v1/admin/sends/"+sent.Send.ID+"/cancel"
	s.Is("a cancellation", s.ByAdmin(0, cancel, `{"reason":"ticket 7"}`), http.StatusNoContent)
	compare := func(all []asked) {
		t.Helper()
		for _, c := range all {
			plain, words := map[string]any{}, map[string]bool{}
			for _, language := range []string{"", "zh-CN", "es", "ar"} {
				got := s.Do(0, c.method, c.path, c.body, with("Accept-Language", language), func(r *http.Request) {
					if c.change != nil {
						c.change(r)
					}
				})
				var p map[string]any
				apptest.Must(t, json.Unmarshal(got.Raw, &p))
				title, _ := p["title"].(string)
				detail, _ := p["detail"].(string)
				words[title], words[detail] = true, true
				if language != "" && detail == "" {
					t.Errorf("%s %s in %q: %s", c.method, c.path, language, got.Raw)
				}
				if h := got.Header; !slices.Contains(h.Values("Vary"), "Accept-Language") ||
					h.Get("Content-Language") != map[string]string{"": "en", "zh-CN": "zh-Hans", "es": "es", "ar": "ar"}[language] {
					t.Errorf("%s %s in %q: %v", c.method, c.path, language, h)
				}
				for _, name := range []string{"title", "detail", "retry_after", "retry_after_ms", "quota"} {
					delete(p, name)
				}
				if language == "" {
					plain = p
				}
				same := func(a, b any) bool { x, _ := json.Marshal(a); y, _ := json.Marshal(b); return string(x) == string(y) }
				if got.StatusCode != c.status || p["status"] != float64(c.status) || p["type"] != "/problems/"+c.problem || got.Field != c.field ||
					!maps.EqualFunc(p, plain, same) {
					t.Errorf("%s %s in %q: %d %s, in English %v", c.method, c.path, language, got.StatusCode, got.Raw, plain)
				}
			}
			if len(words) != 8 {
				t.Errorf("%s %s: titles and details %v", c.method, c.path, slices.Sorted(maps.Keys(words)))
			}
		}
	}
	compare([]asked{
		{"POST", "/v1/verifications", `{"channel":`, 400, nil, "malformed-json", ""},
		{"POST", "/v1/verifications", `{"chanel":"email"}`, 400, nil, "unknown-field", "chanel"},
		{"POST", "/v1/verifications", ofAna, 401, apptest.As("sk_unknown"), "unauthorized", ""},
		{"GET", "/v1/verifications/nothing", "", 404, nil, "not-found", ""},
		{"PUT", "/v1/verifications", "", 405, nil, "method-not-allowed", ""},
		{"POST", cancel, `{"reason":"ticket 7"}`, 409, apptest.AsAdmin, "not-done", ""},
		{"POST", "/v1/verifications", ofAna, 415, with("Content-Type", "text/plain"), "unsupported-media-type", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"ana"}`, 422, nil, "invalid-field", "to"},
		{"POST", "/v1/verifications", `{"channel":"email","to":7}`, 422, nil, "invalid-field", "to"},
		{"POST", "/v1/verifications", ofAna, 429, nil, "quota-exceeded", ""},
	})
	s.Postgres.Stop()
	compare([]asked{{"GET", "/v1/verifications/" + sent.ID, "", 503, nil, "unavailable", ""}})
}
