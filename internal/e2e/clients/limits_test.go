package clients

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// sixLimiters are the limits of all systems of docs/policies.md.
func sixLimiters(t *testing.T) string {
	t.Helper()
	all := "limits:\n"
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

// 200 callers at once on one key: each limit lets in what it says, and every key in Redis ends within its window and 60 s.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	onLimiters(t, func(t *testing.T, url string, nodes []string) {
		s := configured(t, url, sixLimiters(t))
		seen := map[string]bool{}
		newKeys(t, nodes, seen)
		for limit, test := range map[string]struct {
			keys    string
			let     int64
			longest time.Duration
		}{
			"codes":   {`{"phone":"+4915112345678"}`, 1, 24 * time.Hour},
			"gift":    {`{"user":"42"}`, 1, 7*24*time.Hour + 4*time.Hour}, // a zone may turn its clock back
			"web":     {`{"resource":"/v1/x","ip":"203.0.113.9"}`, 100, time.Minute},
			"clock":   {`{"phone":"+4915112345678"}`, 3, time.Hour},
			"sliding": {`{"phone":"+4915112345678"}`, 3, time.Hour},
			"month":   {`{"user":"42"}`, 3, 31 * 24 * time.Hour},
		} {
			var let atomic.Int64
			var callers sync.WaitGroup
			for range 200 {
				callers.Go(func() {
					switch a := askLimit(s, "take", limit, test.keys); a.StatusCode {
					case http.StatusOK:
						let.Add(1)
					case http.StatusTooManyRequests:
					default:
						s.Errorf("%s: %d %s", limit, a.StatusCode, a.Raw)
					}
				})
			}
			callers.Wait()
			if let.Load() != test.let {
				s.Errorf("%s let %d in of 200, want %d", limit, let.Load(), test.let)
			}
			left := newKeys(t, nodes, seen)
			if len(nodes) > 0 && (len(left) != 1 || left[0] <= 0 || left[0] > test.longest+time.Minute) {
				s.Errorf("%s: keys end in %v", limit, left)
			}
		}
	})
}

// newKeys are the times that are left of each key in Redis that was not seen before.
func newKeys(t *testing.T, nodes []string, seen map[string]bool) (left []time.Duration) {
	t.Helper()
	for _, address := range nodes {
		client := redis.NewClient(&redis.Options{Addr: address})
		keys, err := client.Keys(context.Background(), "*").Result()
		apptest.Must(t, err)
		for _, key := range keys {
			if !seen[key] {
				ttl, err := client.PTTL(context.Background(), key).Result()
				apptest.Must(t, err)
				left, seen[key] = append(left, ttl), true
			}
		}
		apptest.Must(t, client.Close())
	}
	return left
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
	router := s.SpecRouter()
	for what, test := range map[string]struct {
		path, body string
		status     int
		field      string
	}{
		"unknown":      {"/v1/limits/none/take", `{"keys":{"user":"1"}}`, 404, ""},
		"missing":      {"/v1/limits/web/take", `{"keys":{"ip":"203.0.113.9"}}`, 422, "keys.resource"},
		"no keys":      {"/v1/limits/web/record", `{}`, 422, "keys.ip"},
		"long":         {"/v1/limits/month/peek", fmt.Sprintf(`{"keys":{"user":%q}}`, strings.Repeat("x", 201)), 422, "keys.user"},
		"a number":     {"/v1/limits/month/take", `{"keys":{"user":42}}`, 422, "keys.user"},
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
