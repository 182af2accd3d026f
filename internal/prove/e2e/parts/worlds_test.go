//go:build nightly

// Only `make nightly` runs all of these tests; `make prove` runs TestMoreForms. Beyond TestProve
// they test more forms, and a Redis or Postgres whose clock is set, which needs a compiler.

package parts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/deliver/outbox"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// onACluster is not among the forms of the other tests, since only its limiter is different.
var onACluster = form{
	"two replicas on Postgres and a Redis Cluster", func(t *testing.T) *apptest.Stack {
		s := apptest.OnOwnPostgres(t)
		cluster := servertest.Cluster(t)
		s.Nodes, s.Env["SENDCODE_REDIS_URL"] = cluster.Nodes, cluster.URL()+servertest.LongTimeouts
		return s
	}, 2, slices.Concat(ofProcesses, ofPostgres, ofNodes),
}

// moreForms are forms that TestProve doesn't try.
var moreForms = []form{
	forms[1],
	onACluster,
	{"two replicas on Postgres and Redis behind a Sentinel", func(t *testing.T) *apptest.Stack {
		s := apptest.OnOwnPostgres(t)
		s.Nodes = []*servertest.RedisServer{s.Redis, servertest.Redis(t, "--replicaof", strings.ReplaceAll(s.Redis.Addr(), ":", " "))}
		s.Sentinel = servertest.Sentinel(t, s.Redis.Addr())
		s.Env["SENDCODE_REDIS_URL"] = s.Sentinel.URL()
		return s
	}, 2, slices.Concat(ofProcesses, ofPostgres, []fault{
		{"stalls of the primary", (*provingRun).stall},
		{"failovers from a dead primary", func(p *provingRun, ctx context.Context) {
			p.failover(ctx, func(was *servertest.RedisServer) error { was.Stop(); return nil }, (*servertest.RedisServer).Start)
		}},
		{"failovers from a frozen primary", func(p *provingRun, ctx context.Context) {
			p.failover(ctx, (*servertest.RedisServer).Pause, (*servertest.RedisServer).Resume)
		}},
	})},
	{"two replicas on Redis and Postgres behind PgBouncer, with a synchronous standby", func(t *testing.T) *apptest.Stack {
		s := apptest.OnOwnPostgres(t)
		s.Standby = s.Postgres.Standby(t)
		s.Pooler = servertest.PgBouncer(t, s.Postgres, "default_pool_size = 40", "server_login_retry = 1")
		s.Env["SENDCODE_DATABASE_URL"] = s.Pooler.Through(s.Env["SENDCODE_DATABASE_URL"])
		return s
	}, 2, slices.Concat(ofProcesses, ofPostgres, []fault{
		{"standbys that are slow", func(p *provingRun, ctx context.Context) { p.slow(ctx, func() {}) }},
		{"cuts of the standby", (*provingRun).standbyAway},
		{"promotions of the standby", (*provingRun).promote},
		{"promotions of a slow standby", func(p *provingRun, ctx context.Context) { p.slow(ctx, p.Postgres.Stop); p.promote(ctx) }},
	})},
	{textMessages, apptest.OnOwnPostgres, 2, slices.Concat(ofProcesses, ofPostgres, []fault{{"failures of a carrier", (*provingRun).carrierFails}})},
}

// The forms for which make test has no time are judged as in TestProve.
func TestMoreForms(t *testing.T) { proveEach(t, moreForms) }

// failover makes the primary fail, lets the Sentinel promote the replica, and starts the old
// primary again. Some seconds later, the Sentinel makes it a replica.
func (p *provingRun) failover(ctx context.Context, fail, back func(*servertest.RedisServer) error) {
	p.Await("a replica that can be promoted", func() bool { return p.Sentinel.CheckReplica(ctx) == nil })
	began, was := time.Now(), p.Redis
	defer p.away(began)
	apptest.Must(p.T, fail(was))
	p.Await("another primary", func() bool { return p.Sentinel.TryFailover(ctx, was.Addr()) })
	p.Redis = p.Nodes[1-slices.Index(p.Nodes, was)]
	apptest.Must(p.T, back(was)) // a process that was frozen now answers its earlier requests
	p.observed.Failovers = append(p.observed.Failovers, [2]time.Time{began, time.Now()})
}

// slow stops the standby's receiver for a while, perhaps for as long as a lease, calls then, and
// ends the receiver. If the primary does not send that part of its log again, the standby lacks it.
func (p *provingRun) slow(ctx context.Context, then func()) {
	began, receiver := time.Now(), 0
	p.Await("a standby that receives", func() bool { receiver = p.Standby.Receiver(ctx); return receiver != 0 })
	apptest.Must(p.T, syscall.Kill(receiver, syscall.SIGSTOP))
	p.pause(ctx, 1000, 5000)
	then()
	apptest.Must(p.T, errors.Join(syscall.Kill(receiver, syscall.SIGTERM), syscall.Kill(receiver, syscall.SIGCONT)))
	if ended := time.Now(); ended.Sub(began) > outbox.DefaultLease/2 {
		p.observed.Crashes = append(p.observed.Crashes, began, ended)
	}
}

// standbyAway stops the standby, so that the primary waits for it.
func (p *provingRun) standbyAway(ctx context.Context) {
	p.crash()
	p.Standby.Stop()
	p.pause(ctx, 1000, 2000)
	apptest.Must(p.T, p.Standby.Start())
	p.crash()
}

// promote kills the primary, makes the standby replace it behind the pooler, and starts a new
// standby.
func (p *provingRun) promote(ctx context.Context) {
	p.crash()
	p.Postgres.Stop()
	apptest.Must(p.T, errors.Join(p.Standby.Promote(ctx), p.Pooler.LeadTo(p.Standby)))
	p.Postgres, p.Standby = p.Standby, p.Standby.Standby(p.T)
	p.crash()
}

// Each form runs with all its faults. In addition, a disk is full, all replicas die, tables are
// locked, and policies change.
func TestProveAtNight(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			servertest.OnSmallDisk(t, 512<<20, func(disk *servertest.Disk) {
				p := newProvingRun(f.open(t).PutOn(disk).Watching(), f.name+", at night")
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

// A clock is set: that of Redis by minutes, an hour and a day, that of Postgres by a part of a
// window. The form on a file uses the machine's clock; ./internal/prove/simulate sets it there.
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
			p := newProvingRun(s, "two replicas, and the clock of "+name+" is set")
			p.observed.Skew, p.observed.FewerLeft = time.Second, p.observed.Limiter // a wait in an answer during a step may be too long
			p.start(2)
			p.underLoad(func(ctx context.Context) {
				var ahead time.Duration
				for _, set := range c.sets {
					p.fail(ctx, 0, 0, []fault{{"settings of the clock", func(p *provingRun, ctx context.Context) {
						setting := time.Now()
						apptest.Must(t, clock.Set(set))
						if set < ahead {
							p.observed.SetBack = append(p.observed.SetBack, setting, time.Now())
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
