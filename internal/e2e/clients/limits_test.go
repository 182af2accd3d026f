package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/parts"
)

// onLimiters runs a test on each kind of limiter.
func onLimiters(t *testing.T, test func(t *testing.T, url string, nodes []string)) {
	t.Run("in process", func(t *testing.T) { test(t, "", nil) })
	t.Run("Redis", func(t *testing.T) {
		server := parts.Redis(t)
		test(t, server.URL(), []string{server.Addr()})
	})
	t.Run("Cluster", func(t *testing.T) {
		cluster := parts.Cluster(t)
		var nodes []string
		for _, n := range cluster.Nodes {
			nodes = append(nodes, n.Addr())
		}
		test(t, cluster.URL(), nodes)
	})
}

// configured is the service with a configuration, without anything that limits do not need.
func configured(t *testing.T, url, config string) *apptest.Stack {
	t.Helper()
	s := apptest.Embedded(t)
	if url != "" {
		s.Env["SENDCODE_REDIS_URL"] = url
	}
	s.Env["SENDCODE_CONFIG"] = filepath.Join(t.TempDir(), "sendcode.yaml")
	s.Write(config)
	return s.Start(1)
}

// sixLimiters are the limits of all systems of docs/policies.md, and one that is over within a second.
func sixLimiters(t *testing.T) string {
	t.Helper()
	all := "limits:\n  short: [{name: short, key: user, limit: 3, window: 1s}]\n"
	for _, yaml := range documented(t) {
		_, limits, _ := strings.Cut(yaml, "limits:\n")
		for line := range strings.Lines(limits) {
			if !strings.HasPrefix(line, " ") {
				break
			}
			all += line
		}
	}
	return all
}

// limit asks a limit; keys is JSON.
func askLimit(s *apptest.Stack, operation, limit, keys string) apptest.Answer {
	s.Helper()
	return s.Do(0, http.MethodPost, "/v1/limits/"+limit+"/"+operation, `{"keys":`+keys+`}`)
}

// Who may ask, and what a wrong request is told.
func TestLimitsRefuse(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants()
	file := s.Env["SENDCODE_CONFIG"]
	text, err := os.ReadFile(file)
	apptest.Must(t, err)
	apptest.Must(t, os.WriteFile(file, append(text, sixLimiters(t)...), 0o600))
	s.Start(1)
	router := s.Specification()
	for what, test := range map[string]struct {
		path, body string
		status     int
		field      string
	}{
		"unknown":      {"/v1/limits/none/take", `{"keys":{"user":"1"}}`, 404, ""},
		"missing":      {"/v1/limits/web/take", `{"keys":{"ip":"203.0.113.9"}}`, 422, "keys.resource"},
		"no keys":      {"/v1/limits/web/record", `{}`, 422, "keys.ip"},
		"long":         {"/v1/limits/month/peek", fmt.Sprintf(`{"keys":{"user":%q}}`, strings.Repeat("x", 201)), 422, "keys.user"},
		"a number":     {"/v1/limits/month/take", `{"keys":{"user":42}}`, 422, "keys"},
		"unknown name": {"/v1/limits/month/take", `{"keys":{"user":"42"},"n":2}`, 400, "n"},
	} {
		a := s.Do(0, http.MethodPost, test.path, test.body)
		if a.StatusCode != test.status || test.field != "" && a.Field != test.field {
			t.Errorf("%s: %d %s", what, a.StatusCode, a.Raw)
		}
		apptest.Must(t, apptest.Conforms(router, http.MethodPost, test.path, a))
	}
	if a := s.Do(0, http.MethodPost, "/v1/limits/month/take", `{"keys":{"user":"42"}}`, apptest.As(apptest.PublicKey)); a.StatusCode != http.StatusForbidden {
		t.Errorf("a browser: %d %s", a.StatusCode, a.Raw)
	}
	for range 3 {
		askLimit(s, "take", "month", `{"user":"42"}`)
	}
	if a := askLimit(s, "take", "month", `{"user":"42"}`); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	metrics := string(s.Do(0, http.MethodGet, "/metrics", "").Raw)
	if want := `sendcode_limit_requests_total{limit="month",operation="take",outcome="refused"} 1`; !strings.Contains(metrics, want) || strings.Contains(metrics, `"42"`) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}
