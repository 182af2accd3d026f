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
	failover := func(p *proof, _ context.Context) {
		defer p.away(time.Now())
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

// Each form for a night: all its faults, and a disk that is full, the death of all replicas, locks
// on tables, and changes of policies.
func TestProveAtNight(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			servertest.OnSmallDisk(t, 512<<20, func(disk *servertest.Disk) {
				p := newProof(f.open(t).PutOn(disk).Watching(), f.name+", at night")
				p.disk = disk
				p.start(f.replicas)
				p.underLoad(func(ctx context.Context) {
					p.fail(ctx, *proving, *wanted, slices.Concat(f.faults, ofNights))
				})
				p.report()
			})
		})
	}
}

// A clock is set: Redis's by minutes, an hour and a day, Postgres's by a part of a window. That of
// a file is the machine's; ./internal/prove/simulate sets it.
func TestProveWhileAClockIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		open  func(*testing.T) *apptest.Stack
		clock func(*apptest.Stack) *servertest.Clock
		sets  []time.Duration
	}{
		"Redis": {apptest.OnRealParts, func(s *apptest.Stack) (clock *servertest.Clock) {
			s.Redis, clock = servertest.RedisWithClock(s)
			s.Env["SENDCODE_REDIS_URL"] = s.Redis.URL()
			return clock
		}, []time.Duration{-5 * time.Minute, 0, -time.Hour, 0, 25 * time.Hour, 0}},
		"Postgres": {
			onPostgresAlone, func(s *apptest.Stack) *servertest.Clock { return s.Postgres.SetUpClock(s) },
			[]time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.open(t)
			clock := c.clock(s)
			p := newProof(s, "two replicas, and the clock of "+name+" is set")
			p.seen.Skew, p.seen.FewerLeft = time.Second, p.seen.Limiter // a wait that is told during a step may be too long
			p.start(2)
			p.underLoad(func(ctx context.Context) {
				var ahead time.Duration
				for _, set := range c.sets {
					p.fail(ctx, 0, 0, []fault{{"settings of the clock", func(p *proof, ctx context.Context) {
						setting := time.Now()
						apptest.Must(t, clock.Set(set))
						if set < ahead {
							p.seen.SetBack = append(p.seen.SetBack, setting, time.Now())
						}
						ahead = set
						p.pause(ctx, 1000, 1000)
					}}})
				}
			})
			p.report()
		})
	}
}
