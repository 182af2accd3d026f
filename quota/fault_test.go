package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// calls makes every call of a limiter after this number of Takes, and returns the errors. After 31
// Takes it runs every command of every script: on a bucket that is full, refunded, recorded and
// reset, and that has more events than a script reads at once.
func calls(t *testing.T, r *Redis, takes int) map[string]error {
	t.Helper()
	ctx, rule, errs := t.Context(), sliding(Recipient, 30, time.Hour), map[string]error{}
	for i := range takes {
		d, err := r.Take(ctx, request(fmt.Sprint("call", i), rule))
		same(t, "admitted", d.Admitted, err == nil && i < rule.Limit)
		errs["take"] = errors.Join(errs["take"], err)
	}
	d, err := r.Peek(ctx, request("", rule))
	same(t, "an answer", len(d.Rules) == 1, err == nil)
	errs["peek"] = err
	errs["refund"] = r.Refund(ctx, "call0", ann())
	errs["record"] = r.Record(ctx, ann(), time.Minute, []AgedEvent{{ID: "older"}})
	errs["reset"] = r.Reset(ctx, ann())
	errs["ping"] = r.Ping(ctx)
	return errs
}

// allAre fails the test unless all calls have the error want. If want is nil, no call may have an
// error.
func allAre(t *testing.T, want error, calls map[string]error) {
	t.Helper()
	for call, err := range calls {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestQuota14ARedisThatMayNotWriteAdmitsNothing(t *testing.T) {
	t.Parallel() // the test waits, and has servers of its own
	dir := t.TempDir()
	server := servertest.Redis(t, "--dir", dir, "--save", "3600 1000000", "--stop-writes-on-bgsave-error", "no")
	client := newClient(t, server.URL()+servertest.LongTimeouts)
	limiter := withLongBudget(NewRedis(client, "q:"))
	ctx := t.Context()
	must(t, second(limiter.Take(ctx, request("one", defaults...))))
	before := snapshot(t, client)
	must(t, os.RemoveAll(dir)) // makes the next snapshot fail
	must(t, client.BgSave(ctx).Err())
	servertest.Await(t, "a failed snapshot", func() bool {
		return strings.Contains(client.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	for name, fault := range map[string]struct{ begin, end []any }{
		"OOM":      {[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		"READONLY": {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		"MISCONF": {
			[]any{"config", "set", "stop-writes-on-bgsave-error", "yes"},
			[]any{"config", "set", "stop-writes-on-bgsave-error", "no"},
		},
		"NOREPLICAS": {[]any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, client.Do(ctx, fault.begin...).Err())
			allAre(t, ErrUnavailable, calls(t, limiter, 1))
			must(t, client.Do(ctx, fault.end...).Err())
			must(t, limiter.Ping(ctx))
			for key, dump := range before {
				same(t, "history", snapshot(t, client)[key], dump)
			}
			d, err := limiter.Take(ctx, request("one", defaults...))
			must(t, err)
			same(t, "used", d.Rules[0].Used, 1)
		})
	}
}

func TestQuota14RedisAway(t *testing.T) {
	t.Parallel() // the test waits, and has servers of its own
	server := servertest.Redis(t)
	limiter := NewRedis(newClient(t, server.URL()), "q:")
	must(t, limiter.Ping(t.Context()))
	server.Stop()
	allAre(t, ErrUnavailable, calls(t, limiter, 1))
	must(t, server.Start())
	servertest.Await(t, "takes to go on", func() bool { // go-redis dials once a second after so many failures
		d, err := limiter.Take(t.Context(), request("one", defaults...))
		return err == nil && d.Admitted
	})
}

// When Redis stops answering, a call ends within its budget. When Redis answers again, calls work
// again, even with the ID of a call that failed.
func TestQuota14ARedisThatIsSilentAdmitsNothing(t *testing.T) {
	server := servertest.Redis(t)
	limiter := NewRedis(newClient(t, server.URL()), "q:")
	same(t, "budget", limiter.Budget, 2*time.Second)
	must(t, limiter.Ping(t.Context()))
	limiter.Budget = 50 * time.Millisecond
	must(t, server.Pause())
	allAre(t, ErrUnavailable, calls(t, limiter, 1))
	var wg sync.WaitGroup
	for i := range 30 { // more calls than there are lanes
		wg.Go(func() {
			_, err := limiter.Take(t.Context(), recipientRequest(fmt.Sprint(i), "r"))
			same(t, "unavailable", errors.Is(err, ErrUnavailable), true)
		})
	}
	wg.Wait()
	must(t, server.Resume())
	for _, req := range []Request{request("other", defaults...), request("call0", sliding(Recipient, 9, time.Hour))} {
		servertest.Await(t, "takes to go on", func() bool {
			_, err := limiter.Take(t.Context(), req)
			return err == nil || req.ID == "call0" && errors.Is(err, ErrRefunded)
		})
	}
}

func TestQuota14RedisErrorAdmitsNothing(t *testing.T) {
	var reply any
	client := newClient(t, "redis://no-such-host.invalid")
	client.AddHook(hook(func(_ context.Context, cmds []redis.Cmder, _ func([]redis.Cmder) error) error {
		if err, ok := reply.(error); ok {
			cmds[0].SetErr(err)
		} else {
			cmds[0].(*redis.Cmd).SetVal(reply)
		}
		return cmds[0].Err()
	}))
	limiter := NewRedis(client, "q:")
	list := func(of ...int64) (l []any) {
		for _, n := range of {
			l = append(l, n)
		}
		return l
	}
	for _, reply = range []any{
		errors.New("LOADING Redis is loading the dataset in memory"), errors.New("CLUSTERDOWN The cluster is down"),
		errors.New("CROSSSLOT Keys in request don't hash to the same slot"),
		errors.New("TRYAGAIN Multiple keys request during rehashing of slot"), errors.New("MISCONF Errors writing to the AOF file"),
		errors.New("BUSY Redis is busy running a script"),
		redis.Nil, io.ErrUnexpectedEOF, int64(1), nil, "OK", list(), list(1),
		list(1, 5), list(0, 5), list(1, 5, 1, 1), // too short for a rule
		list(3, 5, 0, 0, 0), list(-1, 5, 0, 0, 0), // codeOutside, but with rules; an unknown code
		list(2, 5, 0, 0, 0),                                          // refunded, but with rules
		append(list(1, 5), "x", 0, 0), append(list(1, 5), nil, 0, 0), // an item that is no number
	} {
		d, err := limiter.Take(t.Context(), request("one", sliding(Recipient, 1, time.Hour)))
		if !errors.Is(err, ErrUnavailable) || d.Admitted {
			t.Errorf("%v: %+v, %v", reply, d, err)
		}
	}
	reply = list(1, 5, 1, 5, 5)
	mustTake(t, limiter, request("one", sliding(Recipient, 1, time.Hour)), true) // after a correct answer
}

func TestWarnings(t *testing.T) {
	for name, server := range map[string]struct {
		args []string
		want []string
	}{
		"safe":   {[]string{"--appendonly", "yes"}, nil},
		"unsafe": {[]string{"--maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy is allkeys-lru", "appendonly is no"}},
		"hidden": {[]string{"--rename-command", "CONFIG", ""}, []string{"maxmemory-policy is unknown", "appendonly is unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			url := servertest.Redis(t, server.args...).URL() + servertest.LongTimeouts
			got := withLongBudget(NewRedis(newClient(t, url), "q:")).Warnings(t.Context())
			same(t, "warnings", len(got), len(server.want))
			for i := range got {
				if i < len(server.want) && !strings.Contains(got[i], server.want[i]) {
					t.Errorf("%q does not say %q", got[i], server.want[i])
				}
			}
		})
	}
}

// replicated starts a primary and its replica, and returns clients of both.
func replicated(t *testing.T) (primary *servertest.RedisServer, first, second redis.UniversalClient) {
	primary = servertest.Redis(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(primary.Addr())
	must(t, err)
	replica := servertest.Redis(t, "--replicaof", host+" "+port)
	first, second = newClient(t, primary.URL()), newClient(t, replica.URL())
	servertest.Await(t, "the replica to be one", func() bool {
		return strings.Contains(second.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return primary, first, second
}

// The limiter and Sentinel's client have only the documented rights.
func TestThroughSentinelTheQuotaSurvivesAFailover(t *testing.T) {
	t.Parallel() // the test waits, and has servers of its own
	primary, first, second := replicated(t)
	sentinel := servertest.Sentinel(t, primary.Addr())
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	defer watcher.Close()
	setUser(t, watcher, "watcher", append([]string{"allchannels", "-@all"}, documentedRights(t, operations, ofSentinel)...))
	for _, server := range []redis.UniversalClient{first, second} {
		setUser(t, server, "plain", documentedRights(t, operations, limiterRights))
	}
	url := asPlain(sentinel.URL()) + servertest.LongTimeouts + "&sentinel_username=watcher&sentinel_password=secret"
	limiter := withLongBudget(NewRedis(newClient(t, url), "sendcode"))
	unknown := NewRedis(newClient(t, strings.Replace(url, "/main", "/mian", 1)), "sendcode").Ping(t.Context())
	same(t, "names the master", unknown != nil && strings.Contains(unknown.Error(), `no Sentinel knows a master "mian"`), true)
	rule := sliding(Recipient, 1, time.Hour)
	mustTake(t, limiter, request("one", rule), true)

	servertest.Await(t, "the replica to have it", func() bool { return second.Exists(t.Context(), limiter.key(ann())).Val() == 1 })
	servertest.Await(t, "the failover to begin", func() bool { return watcher.Failover(t.Context(), "main").Err() == nil })
	servertest.Await(t, "the replica to be promoted", func() bool { return NewRedis(second, "q:").Ping(t.Context()) == nil })
	primary.Stop()
	servertest.Await(t, "the limiter to follow", func() bool { return limiter.Ping(t.Context()) == nil })

	same(t, "used", mustTake(t, limiter, request("two", rule), false).Rules[0].Used, 1)
}
