package apptest

import (
	"net/http"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisTTLs returns the time to live of each key in Redis.
func (s *Stack) RedisTTLs() map[string]time.Duration {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Redis.Addr()})
	defer c.Close()
	keys, err := c.Keys(s.Context(), "*").Result()
	Must(s.T, err)
	ends := map[string]time.Duration{}
	for _, k := range keys {
		ends[k] = c.PTTL(s.Context(), k).Val()
	}
	return ends
}

// Watching makes the replicas watch their configuration file.
func (s *Stack) Watching() *Stack { s.watches = true; return s }

// Rules writes a configuration file with only these rules.
func (s *Stack) Rules(yaml string) { s.Helper(); s.Write("policies:\n  default:\n" + yaml) }

// Write writes the configuration's file.
func (s *Stack) Write(content string) {
	s.Helper()
	if err := os.WriteFile(s.Env["SENDCODE_CONFIG"], []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// Reloads returns how often replica i reloaded its configuration with this outcome, from its metrics.
func (s *Stack) Reloads(i int, outcome string) string {
	s.Helper()
	a := s.Do(i, http.MethodGet, "/metrics", "")
	found := regexp.MustCompile(`(?m)^sendcode_config_reloads_total\{outcome="` + outcome + `"\} (\d+)$`).FindSubmatch(a.Raw)
	if found == nil {
		s.Fatalf("no metric for %s", outcome)
	}
	return string(found[1])
}

// Hangup makes replica i reload its configuration and waits for the outcome.
func (s *Stack) Hangup(i int, outcome string) {
	s.Helper()
	before := s.Reloads(i, outcome)
	s.Replicas[i].Hangup <- syscall.SIGHUP
	s.Await("the configuration to be "+outcome, func() bool { return s.Reloads(i, outcome) != before })
}

// Rules of one line.
const (
	FiveAnHour = "    - {name: hourly, scope: recipient, limit: 5, window: 1h}\n"
	TwoAnHour  = "    - {name: hourly, scope: recipient, limit: 2, window: 1h}\n"
)

// Must ends a test that cannot go on.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
