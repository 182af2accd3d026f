package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	history "sendcode/internal/historytest"
	"sendcode/internal/servertest"
)

// Each run has two replicas under load while something fails in one way, again and again.
// Afterwards the database holds not one send over policy, everything that was accepted went out
// once or failed and was given back, and the service has become whole by itself. `make soak` runs
// them for longer.

// underTightRules is the stack with rules that come to their end during a run, and a mailbox that
// takes nothing.
func underTightRules(s *apptest.Stack) *apptest.Stack {
	s.Policy(tight)
	s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, To: bouncing, Times: 15, Reply: "550 5.2.1 takes no mail"})
	return s
}

// survives runs a fault of the limiter, which makes the database needed, and checks what it left
// behind.
func survives(s *apptest.Stack, fault func(context.Context) int) {
	s.Helper()
	l := newLoad(s)
	under(l, 5, 2, fault, func() bool { return databaseNeeded(s) })
	for i := range s.Replicas {
		s.AwaitReady(i, http.StatusOK, "")
	}
	l.holds(s.Replicas[0].Base, ended(s, s.Replicas[0].DB()), exact)
	l.recovers()
}

// noted fails the test that a fault belongs to, which goes on.
func noted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestFlushedUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(apptest.OnRealParts(t)).Start(2)
	survives(s, func(ctx context.Context) int {
		return every(ctx, 200*time.Millisecond, func(int) { s.Flush() })
	})
}

// Postgres and Redis are restarted under load, in turn.
func TestRestartedPartsUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(apptest.OnOwnPostgres(t)).Start(2)
	survives(s, func(ctx context.Context) int {
		return every(ctx, 700*time.Millisecond, func(n int) {
			if n%2 == 0 {
				noted(t, s.Postgres.Restart())
				return
			}
			s.Redis.Stop()
			apptest.Sleep(100 * time.Millisecond)
			noted(t, s.Redis.Start())
		})
	})
}

// The primary dies, the Sentinel is told to promote its replica, and the dead one comes back empty,
// as a replica at last.
func TestFailoverBySentinelUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(apptest.OnRealParts(t))
	servers := map[string]*servertest.RedisServer{s.Redis.Addr(): s.Redis}
	second := servertest.Redis(t, "--replicaof", strings.ReplaceAll(s.Redis.Addr(), ":", " "))
	servers[second.Addr()] = second
	sentinel := servertest.Sentinel(t, s.Redis.Addr())
	s.Env["SENDCODE_REDIS_URL"] = sentinel.URL()
	s.Start(2)
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	t.Cleanup(func() { _ = watcher.Close() })
	primary := func(not string) (now string) { // another one than that, as the Sentinel says; it is told to promote one
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
	inStep := func(ctx context.Context) bool { // the Sentinel knows a replica that it could promote
		for ; ctx.Err() == nil; apptest.Sleep(50 * time.Millisecond) {
			replicas, err := watcher.Replicas(ctx, "main").Result()
			if err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" &&
				replicas[0]["flags"] == "slave" {
				return true
			}
		}
		return false
	}
	survives(s, func(ctx context.Context) (times int) {
		for times == 0 || inStep(ctx) {
			apptest.Sleep(500 * time.Millisecond)
			was := primary("")
			servers[was].Stop()
			primary(was)
			times++
			noted(t, servers[was].Start())
		}
		return times
	})
}

// otherClocks are how far the clock of Redis is ahead, one after the other.
var otherClocks = []time.Duration{-5 * time.Minute, 0, -time.Hour, 0, 25 * time.Hour, 0}

// Redis's clock is set by minutes, an hour and a day. Every wait that a send, a refusal or a look
// tells is true. Sends of one recipient follow each other.
func TestRedisClockIsSetUnderLoad(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	server, clock := servertest.RedisWithClock(t)
	s.Env["SENDCODE_REDIS_URL"] = server.URL()
	s.Policy(
		"    - {name: short, scope: recipient, limit: 1, window: 3s}\n    - {name: long, scope: recipient, limit: 2, window: 10s}\n").Start(2)
	l := newLoad(s)
	// on a busy machine a wait that is told during a step may be too long
	l.Seen.Skew, l.Seen.FewerLeft = time.Second, true
	var done atomic.Int32
	under(l, 6, 1, func(ctx context.Context) int {
		return every(ctx, 1300*time.Millisecond, func(n int) {
			if n > 0 && n <= len(otherClocks) {
				noted(t, clock.Set(otherClocks[n-1]))
			}
			done.Store(int32(n))
			for i := range 6 {
				to := fmt.Sprintf("r%d@example.com", i)
				_, err := l.Call(s.Replicas[i%2].Base, http.MethodPost, "/v1/quota",
					`{"channel":"email","to":"`+to+`"}`,
					history.Request{Kind: history.Look, Recipient: to})
				noted(t, err)
			}
		})
	}, func() bool { return int(done.Load()) > len(otherClocks)+2 })
	l.holds(s.Replicas[0].Base, ended(s, s.Replicas[0].DB()), exact)
}

// toxics are what goes wrong with a link, in turn: it is slow, breaks off in the middle of a
// request or of an answer, is cut into small pieces, or is reset.
var toxics = []string{
	`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":60,"jitter":50}}`,
	`{"name":"down","type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`,
	`{"name":"part","type":"limit_data","stream":"upstream","attributes":{"bytes":700}}`,
	`{"name":"slices","type":"slicer","stream":"downstream","attributes":{"average_size":40,"size_variation":20,"delay":300}}`,
	`{"name":"up","type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`,
	`{"name":"reply","type":"limit_data","stream":"downstream","attributes":{"bytes":300}}`,
}

// The links to Redis, to Postgres and to the mail server suffer in turn. Afterwards everything that
// was accepted has one outcome that is true.
func TestLinksUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(apptest.OnRealParts(t))
	links := []*toxiproxy.Proxy{s.Through("SENDCODE_REDIS_URL"), s.Through("SENDCODE_DATABASE_URL"),
		s.Through("SENDCODE_SMTP_URL")}
	s.Start(2)
	var suffered atomic.Int64
	l := newLoad(s)
	under(l, 20, 1, func(ctx context.Context) int {
		return every(ctx, 80*time.Millisecond, func(n int) {
			link := links[n/2%len(links)]
			link.Toxics.ResetToxics(t.Context())
			if n%2 == 1 { // between them the links work, or nothing would ever get through
				return
			}
			suffered.Add(1)
			l.Crash() // a lease may end while the database is out of reach
			_, err := link.Toxics.AddToxicJson(strings.NewReader(toxics[n/2/len(links)%len(toxics)]))
			noted(t, err)
		})
	}, func() bool { return suffered.Load() >= int64(len(links)*len(toxics)) })
	for _, link := range links {
		link.Toxics.ResetToxics(t.Context())
	}
	l.recovers()
	l.holds(s.Replicas[0].Base, ended(s, s.Replicas[0].DB()), truthful)
}
