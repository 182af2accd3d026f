package app

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func asAdmin(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }

// metric is the line of /metrics that begins so; empty if there is none.
func (s *stack) metric(i int, begin string) string {
	s.Helper()
	for line := range strings.Lines(string(s.do(i, http.MethodGet, "/metrics", "").raw)) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// A rule on trial refuses nobody, is told to nobody, and says to the administrator what it would have done.
func TestRulesOnTrial(t *testing.T) {
	const rules = `    - {name: seven,    scope: recipient, limit: 7, window: 300s}
    - {name: stricter, scope: recipient, limit: 2, window: 1h, mode: observe}
    - {name: monthly,  scope: ip, limit: 3, per: month, mode: observe}
`
	for name, c := range map[string]struct {
		open func(t *testing.T) *stack
		cut  func(s *stack)
	}{
		"in process":                   {embedded, func(*stack) {}},
		"on real parts":                {onRealParts, func(*stack) {}},
		"without Redis, after a while": {onRealParts, func(s *stack) { s.redis.Stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.open(t).policy(rules).start(1)
			c.cut(s)
			router := s.specification()
			for i, want := range []string{`[]`, `[]`, `["stricter"]`, `["stricter","monthly"]`} {
				a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+ana+`","client_ip":"192.0.2.7"}`)
				if a.status != http.StatusAccepted || a.Quota.BlockedBy != "" || len(a.Quota.Rules) != 1 || a.Quota.Rules[0].Remaining != 6-i {
					t.Fatalf("%d: %d %s", i, a.status, a.raw)
				}
				if got := a.header.Get("RateLimit-Policy"); got != `"seven";q=7;w=300` {
					t.Errorf("RateLimit-Policy %s", got)
				}
				path := "/v1/admin/sends/" + a.Send.ID
				row := s.do(0, http.MethodGet, path, "", asAdmin)
				if row.status != 200 || !strings.Contains(string(row.raw), `"observed":`+want) {
					t.Errorf("%d: no %s in %s", i, want, row.raw)
				}
				if err := conforms(router, http.MethodGet, path, row); err != nil {
					t.Error(err)
				}
			}
			look := s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`)
			if !look.Quota.Allowed || len(look.Quota.Rules) != 1 || strings.Contains(string(look.raw), "stricter") {
				t.Errorf("a look: %s", look.raw)
			}
			for rule, n := range map[string]string{"stricter": "2", "monthly": "1", "seven": ""} {
				const begin = `sendcode_observed_refusals_total{app="default",channel="email",rule="`
				got := s.metric(0, begin+rule+`"}`)
				if n != "" {
					n = begin + rule + `"} ` + n
				}
				if got != n {
					t.Errorf("metric %q, want %q", got, n)
				}
			}
		})
	}
}

// What a rule on trial counts survives a restart of a limiter in process: it looks back further than any other.
func TestRulesOnTrialAfterARestart(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy("    - {name: second, scope: recipient, limit: 1, window: 1s}\n" +
		"    - {name: stricter, scope: recipient, limit: 1, window: 1h, mode: observe}\n").start(1)
	first := s.ask(0, ana)
	s.awaitMail(ana, 1)
	s.stop(0)
	s.start(1)
	after(time.Duration(first.Quota.Rules[0].Window) * time.Second)
	again := s.ask(1, ana)
	row := s.do(1, http.MethodGet, "/v1/admin/sends/"+again.Send.ID, "", asAdmin)
	if again.status != http.StatusAccepted || !strings.Contains(string(row.raw), `"observed":["stricter"]`) {
		t.Errorf("%d %s", again.status, row.raw)
	}
}
