package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
	"sendcode/tools/ensure/locate"
)

// tester is the common part of testing.T and rapid.T, so that rapid can shrink a failing schedule.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Context() context.Context
}

// A world is one limiter on a clock that the test moves.
type world struct {
	Limiter
	t     tester
	now   time.Time
	set   func(time.Time)
	flush func()
	ids   int
}

// epoch is later than the time of every real clock, so no key expires on the server's clock. Its
// microseconds are not a round number.
var epoch = time.Date(2040, 3, 1, 12, 0, 0, 123_457_000, time.UTC)

var defaults = []Rule{
	{Name: "minute", Scope: Recipient, Limit: 1, Window: time.Minute},
	{Name: "hour", Scope: Recipient, Limit: 5, Window: time.Hour},
	{Name: "day", Scope: Recipient, Limit: 10, Window: 24 * time.Hour},
}

// onEveryLimiter runs the test on every limiter: Memory, a single Redis, and a Redis Cluster.
func onEveryLimiter(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryWorld(t)) })
	t.Run("redis", func(t *testing.T) { test(t, redisWorld(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, clusterWorld(t)) })
}

func memoryWorld(t tester) *world {
	w := &world{t: t}
	w.set = func(now time.Time) { w.now = now }
	fresh := func() { w.Limiter = NewMemory(func() time.Time { return w.now }) }
	w.flush = fresh
	w.set(epoch)
	fresh()
	return w
}

// withLongBudget gives a limiter a long budget for each call, so that no test fails because the
// machine is slow.
func withLongBudget(r *Redis) *Redis {
	r.Budget = time.Minute
	return r
}

func redisWorld(t *testing.T) *world { return scriptWorld(t, newClient(t, sharedRedis(t))) }

func clusterWorld(t *testing.T) *world { return scriptWorld(t, newClient(t, sharedCluster(t))) }

// sentinelWorld has a primary with a replica. A Sentinel gives the limiter the primary's address.
func sentinelWorld(t *testing.T) *world {
	primary, _, _ := replicated(t)
	return scriptWorld(t, newClient(t, servertest.Sentinel(t, primary.Addr()).URL()))
}

// scriptWorld runs the scripts of production on the test's clock. The time is an argument of each
// script, and not in a key, because no key is on every node of a Cluster.
func scriptWorld(t *testing.T, client redis.UniversalClient) *world {
	w := &world{t: t, Limiter: withLongBudget(newRedis(client, "q:", argumentClock))}
	client.AddHook(appendTime(func(string) time.Time { return w.now }))
	w.set = func(now time.Time) {
		w.now = now
		onEach(w.t, client, func(c redis.UniversalClient) error {
			return expire.Run(w.t.Context(), c, nil, now.UnixMilli()).Err()
		})
	}
	w.flush = func() { flushAll(w.t, client) }
	w.flush()
	w.set(epoch)
	return w
}

func flushAll(t tester, client redis.UniversalClient) {
	t.Helper()
	onEach(t, client, func(c redis.UniversalClient) error { return c.FlushAll(t.Context()).Err() })
}

func newClient(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := OpenRedis(url)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass moves the clock by d, which can be negative.
func (w *world) pass(d time.Duration) { w.set(w.now.Add(d)) }

// id returns a new ID of 16 bytes, which are not valid UTF-8.
func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("\x00\xff\r\n%012d", w.ids)
}

func (w *world) take(rules ...Rule) Decision { w.t.Helper(); return w.takeID(w.id(), rules...) }

func (w *world) takeID(id string, rules ...Rule) Decision {
	w.t.Helper()
	d, err := w.Take(w.t.Context(), Request{ID: id, Rules: rules, Buckets: buckets("ann", "office")})
	must(w.t, err)
	return d
}

func (w *world) peek(rules ...Rule) Decision {
	w.t.Helper()
	d, err := w.Peek(w.t.Context(), Request{Rules: rules, Buckets: buckets("ann", "office")})
	must(w.t, err)
	return d
}

// admits calls Take, and fails the test unless Admitted equals want.
func (w *world) admits(want bool, rules ...Rule) Decision {
	w.t.Helper()
	d := w.take(rules...)
	if d.Admitted != want {
		w.t.Fatalf("at %v: admitted %v, want %v: %+v", w.now.Sub(epoch), d.Admitted, want, d)
	}
	return d
}

// mustTake calls Take, and fails the test unless Admitted equals want.
func mustTake(t tester, l Limiter, r Request, want bool) Decision {
	t.Helper()
	d, err := l.Take(t.Context(), r)
	must(t, err)
	same(t, fmt.Sprintf("%q admitted", r.ID), d.Admitted, want)
	return d
}

func buckets(recipient, ip string) map[Scope]string {
	return map[Scope]string{Recipient: Bucket("recipient", recipient), IP: Bucket("ip", ip)}
}

func ann() string { return buckets("ann", "")[Recipient] }

func sliding(scope Scope, limit int, window time.Duration) Rule {
	return Rule{Name: string(scope), Scope: scope, Limit: limit, Window: window}
}

func remaining(d Decision) []int {
	var all []int
	for _, s := range d.Rules {
		all = append(all, s.Remaining())
	}
	return all
}

func same[T comparable](t tester, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s", what, servertest.Difference(got, want, func(got, want any) bool { return got == want }))
	}
}

func sameList[T comparable](t tester, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// These servers are shared by several tests. A test that needs an empty server deletes all keys
// first. A cluster needs seconds to start.
var (
	redisServer   = shared(func(ctx context.Context) (*servertest.RedisServer, error) { return servertest.StartRedis(ctx) })
	clusterServer = shared(func(ctx context.Context) (*servertest.RedisCluster, error) { return servertest.StartRedisCluster(ctx) })
	stops         []func() error
)

func sharedRedis(t *testing.T) string   { return redisServer(t).URL() + servertest.LongTimeouts }
func sharedCluster(t *testing.T) string { return clusterServer(t).URL() + servertest.LongTimeouts }

// shared returns a function that starts a server at its first call.
func shared[S interface{ Close() error }](start func(context.Context) (S, error)) func(*testing.T) S {
	once := sync.OnceValues(func() (S, error) {
		s, err := start(context.Background())
		if err == nil {
			stops = append(stops, s.Close)
		}
		return s, err
	})
	return func(t *testing.T) S {
		t.Helper()
		s, err := once()
		if missing := new(locate.Missing); errors.As(err, &missing) && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		must(t, err)
		return s
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range stops {
		_ = stop()
	}
	os.Exit(code)
}

// onEach calls do for each master of a cluster, one after the other, or for the single server.
func onEach(t tester, client redis.UniversalClient, do func(redis.UniversalClient) error) {
	t.Helper()
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		must(t, do(client))
		return
	}
	var mu sync.Mutex
	must(t, cluster.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return do(c)
	}))
}

// expire deletes the keys that have expired on the test's clock, as Redis does on its own clock:
// after the millisecond of their expiry.
var expire = redis.NewScript(`
for _, key in ipairs(redis.call('KEYS', 'q:*')) do
  if redis.call('PEXPIRETIME', key) < tonumber(ARGV[1]) then redis.call('DEL', key) end
end
return 1`)

// argumentClock is the Lua source of a clock that returns the script's last argument.
const argumentClock = "local now = tonumber(table.remove(ARGV))\nlocal function clock() return now end\n"

// hook is called between a client and its server. It gets the commands of a round trip, and sends
// the same or other commands by next.
type hook func(ctx context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h(ctx, []redis.Cmder{cmd}, func(cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(ctx, cmds, func(cmds []redis.Cmder) error { return next(ctx, cmds) })
	}
}

// appendTime adds an argument to each script: what the function of returns for the first key, in µs
// since 1970.
func appendTime(of func(key string) time.Time) hook {
	return func(ctx context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error {
		withTime := slices.Clone(cmds)
		for i, cmd := range cmds {
			if args := cmd.Args(); cmd.Name() == "evalsha" || cmd.Name() == "eval" {
				key := ""
				if fmt.Sprint(args[2]) != "0" {
					key = fmt.Sprint(args[3])
				}
				withTime[i] = redis.NewCmd(ctx, append(slices.Clone(args), of(key).UnixMicro())...)
			}
		}
		err := next(withTime)
		for i, cmd := range cmds {
			if cmd != withTime[i] {
				cmd.(*redis.Cmd).SetVal(withTime[i].(*redis.Cmd).Val())
				cmd.SetErr(withTime[i].Err())
			}
		}
		return err
	}
}
