package quota

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
	"sendcode/internal/parts/locate"
)

func TestThroughSentinelTheQuotaSurvivesAFailover(t *testing.T) {
	primary := parts.Redis(t, "--repl-diskless-sync-delay", "0")
	replica := parts.Redis(t, "--replicaof", hostPort(t, primary.Addr()))
	second := newClient(t, replica.URL())
	await(t, "the replica to be one", func() bool {
		return strings.Contains(second.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := startSentinel(t, primary.Addr())
	limiter := NewRedis(newClient(t, "redis+sentinel://"+sentinel+"/main/0"), "q:")
	d, err := limiter.Take(t.Context(), request("one", defaults...))
	must(t, err)
	same(t, "admitted", d.Admitted, true)

	await(t, "the replica to have it", func() bool { return second.Exists(t.Context(), limiter.Key(ann())).Val() == 1 })
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
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

// startSentinel watches one primary, and alone decides that it is down.
func startSentinel(t *testing.T, primary string) (addr string) {
	program, err := locate.Redis().Find()
	must(t, err)
	port := parts.FreePort(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	must(t, os.WriteFile(conf, fmt.Appendf(nil,
		"port %d\nbind 127.0.0.1\nsentinel monitor main %s 1\nsentinel down-after-milliseconds main 500\n", port, hostPort(t, primary)), 0o600))
	process, err := parts.Run(exec.Command(program, conf, "--sentinel"))
	must(t, err)
	t.Cleanup(process.Kill)
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	client := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer client.Close()
	await(t, "the sentinel to know the replica", func() bool {
		replicas, err := client.Replicas(t.Context(), "main").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return addr
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
