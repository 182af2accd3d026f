package faults

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// Each run has two replicas under load while Redis fails in one way, again and again. Afterwards the log holds not one
// send over policy, everything that was accepted went out once or failed and was given back, and the service has become
// whole by itself. `make soak` runs them for longer.

// underTightRules is the stack with rules that come to their end during a run, and a mailbox that takes nothing.
func underTightRules(t *testing.T) *apptest.Stack {
	s := apptest.OnRealParts(t).Policy(tight)
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: bouncing, Times: 15, Reply: "550 5.2.1 takes no mail"},
	}})
	return s
}

func direct(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestFlushedUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t).Start(2)
	c := direct(t, s.Redis.Addr())
	l := underLoad(s, func(ctx context.Context) int {
		return every(ctx, 200*time.Millisecond, func(int) {
			if err := c.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
	})
	holds(s, l, 0)
	recovers(s)
}

// The primary dies, the Sentinel promotes its replica, and the dead one comes back empty, as a replica at last.
func TestFailoverBySentinelUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	servers := map[string]*parts.RedisServer{s.Redis.Addr(): s.Redis}
	second := parts.Redis(t, "--replicaof", strings.ReplaceAll(s.Redis.Addr(), ":", " "))
	servers[second.Addr()] = second
	sentinel := parts.Sentinel(t, s.Redis.Addr())
	s.Env["SENDCODE_REDIS_URL"] = sentinel.URL()
	s.Start(2)
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	t.Cleanup(func() { _ = watcher.Close() })
	primary := func(not string) (now string) { // another one than that, as the Sentinel says
		s.Await("a primary", func() bool {
			addr, err := watcher.GetMasterAddrByName(t.Context(), "main").Result()
			if err == nil && len(addr) == 2 {
				now = net.JoinHostPort(addr[0], addr[1])
			}
			return now != "" && now != not
		})
		return now
	}
	l := underLoad(s, func(ctx context.Context) (times int) {
		for ctx.Err() == nil {
			if times > 0 && !inStep(s, ctx, watcher) {
				break
			}
			apptest.Sleep(500 * time.Millisecond)
			was := primary("")
			servers[was].Stop()
			primary(was)
			times++
			if err := servers[was].Start(); err != nil {
				t.Error(err)
			}
		}
		return times
	})
	holds(s, l, 0)
	recovers(s)
}

// inStep waits until the Sentinel knows a replica that it could promote; false when the context ended first.
func inStep(s *apptest.Stack, ctx context.Context, watcher *redis.SentinelClient) bool {
	for ctx.Err() == nil {
		replicas, err := watcher.Replicas(ctx, "main").Result()
		if err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" && replicas[0]["flags"] == "slave" {
			return true
		}
		apptest.Sleep(50 * time.Millisecond)
	}
	return false
}

// A replica that has not heard from its primary for a while is promoted: what was counted meanwhile is gone. The address
// that the service knows moves, as a name or a virtual address would.
func TestLaggingReplicaPromotedUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	pair := [2]*parts.RedisServer{parts.Redis(t, "--repl-diskless-sync-delay", "0"), parts.Redis(t, "--repl-diskless-sync-delay", "0")}
	address := moving(t, pair[0].Addr())
	s.Env["SENDCODE_REDIS_URL"] = "redis://" + address.Addr().String() + "/0"
	s.Start(2)
	l := underLoad(s, func(ctx context.Context) int {
		return every(ctx, 100*time.Millisecond, func(n int) {
			primary, replica := pair[n%2], direct(t, pair[(n+1)%2].Addr())
			follow(s, replica, primary.Addr())
			s.Await("the replica to be in step", func() bool {
				return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
			})
			follow(s, replica, "127.0.0.1:1") // no server: the link is cut, and what it has stays
			apptest.Sleep(1200 * time.Millisecond)
			follow(s, replica, "NO:ONE")
			address.move(pair[(n+1)%2].Addr())
		})
	})
	holds(s, l, 0)
	recovers(s)
}

func follow(s *apptest.Stack, replica *redis.Client, addr string) {
	s.Helper()
	host, port, _ := strings.Cut(addr, ":")
	if err := replica.ReplicaOf(s.Context(), host, port).Err(); err != nil {
		s.Error(err)
	}
}

// Redis's clock is 5 s ahead, right, or 5 s behind, and steps from one to another.
func TestRedisClockStepsUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	server, clock := parts.RedisWithClock(t)
	s.Env["SENDCODE_REDIS_URL"] = server.URL()
	s.Start(2)
	steps := []time.Duration{0, 5 * time.Second, 0, 5 * time.Second, -5 * time.Second, 0}
	l := underLoad(s, func(ctx context.Context) int {
		return every(ctx, 400*time.Millisecond, func(n int) {
			if err := clock.Set(steps[n%len(steps)]); err != nil {
				t.Error(err)
			}
		})
	})
	holds(s, l, time.Second)
	if err := clock.Set(0); err != nil {
		t.Error(err)
	}
	recovers(s)
}

// mover forwards connections to an address that can be moved.
type mover struct {
	net.Listener
	to    atomic.Value // string
	moved atomic.Value // chan struct{}, closed when it moves
}

func moving(t *testing.T, to string) *mover {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mover{Listener: l}
	m.to.Store(to)
	m.moved.Store(make(chan struct{}))
	t.Cleanup(func() { m.move(""); _ = l.Close() })
	go m.serve()
	return m
}

// move ends every connection; the next ones go to the new address.
func (m *mover) move(to string) {
	m.to.Store(to)
	close(m.moved.Swap(make(chan struct{})).(chan struct{}))
}

func (m *mover) serve() {
	for {
		near, err := m.Accept()
		if err != nil {
			return
		}
		moved := m.moved.Load().(chan struct{})
		far, err := net.Dial("tcp4", m.to.Load().(string))
		if err != nil {
			_ = near.Close()
			continue
		}
		ended := make(chan struct{}, 2)
		go pipe(near, far, ended)
		go pipe(far, near, ended)
		go func() {
			select {
			case <-ended:
			case <-moved:
			}
			_, _ = near.Close(), far.Close()
		}()
	}
}

func pipe(to, from net.Conn, ended chan<- struct{}) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			ended <- struct{}{}
			return
		}
	}
}
