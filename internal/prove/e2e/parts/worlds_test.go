//go:build nightly

// Only make nightly runs these tests: what they hold beyond TestProve is of a Sentinel, and of a
// Redis whose clock is set, which needs a compiler.

package parts

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The primary dies, the Sentinel is told to promote its replica, and the dead one comes back empty,
// as a replica at last.
func TestProveOnSentinel(t *testing.T) {
	s := apptest.OnRealParts(t)
	servers := map[string]*servertest.RedisServer{s.Redis.Addr(): s.Redis}
	second := servertest.Redis(t, "--replicaof", strings.ReplaceAll(s.Redis.Addr(), ":", " "))
	servers[second.Addr()] = second
	sentinel := servertest.Sentinel(t, s.Redis.Addr())
	s.Env["SENDCODE_REDIS_URL"] = sentinel.URL()
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	t.Cleanup(func() { _ = watcher.Close() })
	primary := func(not string) (now string) { // another one than that, as the Sentinel says
		s.Await("a primary", func() bool {
			addr, err := watcher.GetMasterAddrByName(t.Context(), "main").Result()
			if err == nil && len(addr) == 2 {
				now = net.JoinHostPort(addr[0], addr[1])
			}
			if now != "" && now == not {
				_ = watcher.Failover(t.Context(), "main").Err() // refused while one is under way
			}
			return now != "" && now != not
		})
		return now
	}
	failover := func(*proof, context.Context) {
		s.Await("a replica that can be promoted", func() bool {
			replicas, err := watcher.Replicas(t.Context(), "main").Result()
			return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" && replicas[0]["flags"] == "slave"
		})
		was := primary("")
		servers[was].Stop()
		primary(was)
		apptest.Must(t, servers[was].Start())
	}
	p := newProof(s, "two replicas on a Sentinel")
	p.start(2)
	p.underLoad(func(ctx context.Context) {
		p.fail(ctx, *proving, 0, []fault{{"failovers by the Sentinel", failover}})
	})
	p.report()
}

// Each form for a night: all its faults, and a disk that is full, the death of all replicas, locks on
// tables, and changes of policies.
func TestProveAtNight(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			servertest.OnSmallDisk(t, 512<<20, func(disk *servertest.Disk) {
				p := newProof(f.open(t).PutOn(disk).Watching(), f.name+", at night")
				p.disk = disk
				p.start(f.replicas)
				p.underLoad(func(ctx context.Context) {
					p.fail(ctx, *proving, *wanted, slices.Concat(f.faults, f.later, f.nights))
				})
				p.report()
			})
		})
	}
}

// otherClocks are how far the clock of Redis is ahead, one after the other.
var otherClocks = []time.Duration{-5 * time.Minute, 0, -time.Hour, 0, 25 * time.Hour, 0}

// Redis's clock is set by minutes, an hour and a day.
func TestProveWhileRedisClockIsSet(t *testing.T) {
	s := apptest.OnRealParts(t)
	server, clock := servertest.RedisWithClock(t)
	s.Redis = server
	s.Env["SENDCODE_REDIS_URL"] = server.URL()
	p := newProof(s, "two replicas on a Redis whose clock is set")
	p.seen.Skew, p.seen.FewerLeft = time.Second, true // a wait that is told during a step may be too long
	p.start(2)
	p.underLoad(func(ctx context.Context) {
		var ahead time.Duration
		for _, set := range otherClocks {
			p.fail(ctx, 0, 0, []fault{{"settings of Redis's clock", func(p *proof, ctx context.Context) {
				setting := time.Now()
				apptest.Must(t, clock.Set(set))
				if set < ahead { // set back, Redis counts what lies in its future from now on
					p.seen.Stalls = append(p.seen.Stalls, setting, time.Now())
				}
				ahead = set
				p.pause(ctx, 1000, 1000)
			}}})
		}
	})
	p.report()
}
