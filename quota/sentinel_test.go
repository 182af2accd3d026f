package quota

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

func TestThroughSentinelTheQuotaSurvivesAFailover(t *testing.T) {
	primary := parts.Redis(t, "--repl-diskless-sync-delay", "0")
	replica := parts.Redis(t, "--replicaof", hostPort(t, primary.Addr()))
	second := newClient(t, replica.URL())
	await(t, "the replica to be one", func() bool {
		return strings.Contains(second.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := parts.Sentinel(t, primary.Addr())
	limiter := NewRedis(newClient(t, sentinel.URL()), "q:")
	d, err := limiter.Take(t.Context(), request("one", defaults...))
	must(t, err)
	same(t, "admitted", d.Admitted, true)

	await(t, "the replica to have it", func() bool { return second.Exists(t.Context(), limiter.Key(ann())).Val() == 1 })
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	defer watcher.Close()
	await(t, "the failover to begin", func() bool { return watcher.Failover(t.Context(), "main").Err() == nil })
	await(t, "the replica to be promoted", func() bool { return NewRedis(second, "q:").Ping(t.Context()) == nil })
	primary.Stop()
	await(t, "the limiter to follow", func() bool { return limiter.Ping(t.Context()) == nil })

	d, err = limiter.Take(t.Context(), request("two", defaults...))
	must(t, err)
	same(t, "admitted", d.Admitted, false)
	same(t, "used", d.Rules[0].Used, 1)
}

// hostPort is an address as Redis's settings have it, with a blank.
func hostPort(t *testing.T, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	must(t, err)
	return host + " " + port
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
