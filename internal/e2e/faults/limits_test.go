package faults

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/app/apptest"
	"sendcode/internal/parts"
)

// A limit over a failover by Sentinel: meanwhile answers are degraded and come, and afterwards the promoted replica goes on with what was
// counted before.
func TestALimitOverAFailoverBySentinel(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	parts.Redis(t, "--replicaof", strings.ReplaceAll(s.Redis.Addr(), ":", " "))
	s.Env["SENDCODE_REDIS_URL"] = parts.Sentinel(t, s.Redis.Addr()).URL()
	s.Env["SENDCODE_CONFIG"] = filepath.Join(t.TempDir(), "sendcode.yaml")
	s.Write("limits: {user: [{name: hour, key: user, limit: 3, window: 1h}]}\n")
	s.Start(2)
	ask := func(replica int, operation string) (a apptest.Answer, degraded bool) {
		a = s.Do(replica, http.MethodPost, "/v1/limits/user/"+operation, `{"keys":{"user":"42"}}`)
		return a, strings.Contains(string(a.Raw), `"degraded":true`)
	}
	for replica := range 2 {
		if a, degraded := ask(replica, "take"); a.StatusCode != http.StatusOK || degraded {
			t.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
	}
	replicated(t, s.Redis)

	s.Redis.Stop()
	away := false
	s.Await("the promoted replica", func() bool {
		a, degraded := ask(0, "peek") // which counts nothing anywhere
		if a.StatusCode != http.StatusOK {
			t.Errorf("meanwhile: %d %s", a.StatusCode, a.Raw)
		}
		away = away || degraded
		return away && !degraded
	})
	s.Await("the other replica of the service to find it", func() bool { _, degraded := ask(1, "peek"); return !degraded })
	if a, degraded := ask(1, "take"); a.StatusCode != http.StatusOK || a.Quota.Rules[0].Remaining != 0 || degraded {
		t.Errorf("the third: %d %s", a.StatusCode, a.Raw)
	}
	for replica := range 2 {
		if a, degraded := ask(replica, "take"); a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != "hour" || degraded {
			t.Errorf("the fourth: %d %s", a.StatusCode, a.Raw)
		}
	}
}

// replicated waits until a replica has all that was written before.
func replicated(t *testing.T, primary *parts.RedisServer) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: primary.Addr(), PoolSize: 1})
	defer c.Close()
	apptest.Must(t, c.Set(t.Context(), "marker", "", time.Minute).Err())
	if n, err := c.Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have it: %v", n, err)
	}
}
