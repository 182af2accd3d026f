package clients

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// A rule on trial refuses no request, is told to no caller, and says to the administrator what it would have done.
func TestRulesOnTrial(t *testing.T) {
	const rules = `    - {name: seven,    scope: recipient, limit: 7, window: 300s}
    - {name: stricter, scope: recipient, limit: 2, window: 1h, mode: observe}
    - {name: monthly,  scope: ip, limit: 3, per: month, mode: observe}
`
	t.Parallel()
	s := apptest.Embedded(t).Policy(rules).Start(1)
	router := s.Specification()
	for i, want := range []string{`[]`, `[]`, `["stricter"]`, `["stricter","monthly"]`} {
		a := s.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`","client_ip":"192.0.2.7"}`)
		if a.StatusCode != http.StatusAccepted || a.Quota.BlockedBy != "" || len(a.Quota.Rules) != 1 || a.Quota.Rules[0].Remaining != 6-i {
			t.Fatalf("%d: %d %s", i, a.StatusCode, a.Raw)
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"seven";q=7;w=300` {
			t.Errorf("RateLimit-Policy %s", got)
		}
		path := "/v1/admin/sends/" + a.Send.ID
		row := s.Do(0, http.MethodGet, path, "", apptest.AsAdmin)
		if row.StatusCode != 200 || !strings.Contains(string(row.Raw), `"observed":`+want) {
			t.Errorf("%d: no %s in %s", i, want, row.Raw)
		}
		if err := apptest.Conforms(router, http.MethodGet, path, row); err != nil {
			t.Error(err)
		}
	}
	look := s.Do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
	if !look.Quota.Allowed || len(look.Quota.Rules) != 1 || strings.Contains(string(look.Raw), "stricter") {
		t.Errorf("a look: %s", look.Raw)
	}
	for rule, n := range map[string]string{"stricter": "2", "monthly": "1", "seven": ""} {
		const begin = `sendcode_observed_refusals_total{app="default",channel="email",rule="`
		got := s.Metric(0, begin+rule+`"}`)
		if n != "" {
			n = begin + rule + `"} ` + n
		}
		if got != n {
			t.Errorf("metric %q, want %q", got, n)
		}
	}
}
