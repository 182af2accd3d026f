package clients

import (
	"context"
	"encoding/json"
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

// limited is the service with the limits of docs/policies.md, on each kind of limiter.
func limited(t *testing.T, test func(s *apptest.Stack, nodes []string)) {
	onLimiters(t, func(t *testing.T, url string, nodes []string) { test(configured(t, url, sixLimiters(t)), nodes) })
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

// 200 callers at once on one key: each limit lets in what it says, and every key in Redis ends within its window and 60 s.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	limited(t, func(s *apptest.Stack, nodes []string) {
		seen := map[string]bool{}
		newKeys(s.T, nodes, seen)
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
			left := newKeys(s.T, nodes, seen)
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

// A caller that waits as told is let in, and one that asks before is not.
func TestLimitsTellTrueWaits(t *testing.T) {
	t.Parallel()
	limited(t, func(s *apptest.Stack, _ []string) {
		router := s.Specification()
		for n := range 3 {
			if a := askLimit(s, "take", "short", `{"user":"42"}`); a.StatusCode != http.StatusOK || a.Quota.Rules[0].Remaining != 2-n {
				s.Fatalf("%d %s", a.StatusCode, a.Raw)
			}
		}
		refused := askLimit(s, "take", "short", `{"user":"42"}`)
		apptest.Must(s.T, apptest.Conforms(router, http.MethodPost, "/v1/limits/short/take", refused))
		var told struct {
			MS       int      `json:"retry_after_ms"`
			Violated []string `json:"violated-policies"`
			Type     string
		}
		apptest.Must(s.T, json.Unmarshal(refused.Raw, &told))
		if refused.StatusCode != http.StatusTooManyRequests || told.MS < 1 || told.MS > 1000 || told.Type != "/problems/quota-exceeded" || len(told.Violated) != 1 ||
			refused.Header.Get("Retry-After") != "1" || refused.Header.Get("RateLimit") != `"short";r=0;t=1` || refused.Header.Get("RateLimit-Policy") != `"short";q=3;w=1` {
			s.Errorf("%d %v %s", refused.StatusCode, refused.Header, refused.Raw)
		}
		<-time.After(time.Duration(told.MS) * time.Millisecond)
		if a := askLimit(s, "take", "short", `{"user":"42"}`); a.StatusCode != http.StatusOK {
			s.Errorf("after the wait: %d %s", a.StatusCode, a.Raw)
		}
		counted := askLimit(s, "record", "route", `{"route":"/x","other":"left out"}`)
		apptest.Must(s.T, apptest.Conforms(router, http.MethodPost, "/v1/limits/route/record", counted))
		if looked := askLimit(s, "peek", "route", `{"route":"/x"}`); looked.StatusCode != http.StatusOK || looked.Quota.Rules[0].Limit != 1000 {
			s.Errorf("%d %s", looked.StatusCode, looked.Raw)
		}
	})
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

// A gift a day and three on seven dates of Shanghai: the rule with dates has no window in RateLimit-Policy, and its wait ends at a midnight.
func TestALimitByDates(t *testing.T) {
	t.Parallel()
	limited(t, func(s *apptest.Stack, _ []string) {
		router := s.Specification()
		for range 2 {
			askLimit(s, "record", "gift", `{"user":"7"}`)
		}
		third := askLimit(s, "record", "gift", `{"user":"7"}`)
		apptest.Must(s.T, apptest.Conforms(router, http.MethodPost, "/v1/limits/gift/record", third))
		if want := `"limit":3,"window":604800,"days":7,"remaining":0`; third.StatusCode != http.StatusOK || !strings.Contains(string(third.Raw), want) {
			s.Errorf("no %s in %d %s", want, third.StatusCode, third.Raw)
		}
		before := time.Now()
		refused := askLimit(s, "take", "gift", `{"user":"7"}`)
		after := time.Now()
		apptest.Must(s.T, apptest.Conforms(router, http.MethodPost, "/v1/limits/gift/take", refused))
		if want := `"today";q=1;w=86400, "week";q=3`; refused.StatusCode != http.StatusTooManyRequests || refused.Header.Get("RateLimit-Policy") != want {
			s.Errorf("%d %v, want %s", refused.StatusCode, refused.Header, want)
		}
		var told struct {
			MS      int64    `json:"retry_after_ms"`
			Blocked string   `json:"blocked_by"`
			All     []string `json:"violated-policies"`
		}
		apptest.Must(s.T, json.Unmarshal(refused.Raw, &told))
		midnight := func(at time.Time) time.Time {
			y, m, d := at.In(time.FixedZone("Shanghai", 8*3600)).Date()
			return time.Date(y, m, d+7, -8, 0, 0, 0, time.UTC)
		}
		least, most := midnight(before).Sub(after).Milliseconds(), midnight(after).Sub(before).Milliseconds()+1
		if told.MS < least || told.MS > most || told.Blocked != "week" || len(told.All) != 2 {
			s.Errorf("%+v, want a wait of %d to %d ms", told, least, most)
		}
	})
}
