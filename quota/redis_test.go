package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newProductionLimiter returns a limiter as in production, on the server's clock, but with a longer
// budget. It also returns another client of the server.
func newProductionLimiter(t *testing.T) (*Redis, redis.UniversalClient) {
	client := newClient(t, sharedRedis(t))
	flushAll(t, client)
	return withLongBudget(NewRedis(newClient(t, sharedRedis(t)), "q:")), client
}

func request(id string, rules ...Rule) Request {
	return Request{ID: id, Rules: rules, Buckets: buckets("ann", "office")}
}

func TestQuota2TheServersClockDecides(t *testing.T) {
	limiter, client := newProductionLimiter(t)
	before := client.Time(t.Context()).Val()
	d := mustTake(t, limiter, request("one", defaults...), true)
	after := client.Time(t.Context()).Val()
	if d.At.Before(before) || d.At.After(after) {
		t.Errorf("decided at %v, not within %v and %v", d.At, before, after)
	}
	score := client.ZScore(t.Context(), limiter.key(ann()), "one").Val()
	same(t, "score", int64(score), d.At.UnixMicro())
}

// snapshot returns all keys with their values and expiries.
func snapshot(t *testing.T, client redis.UniversalClient) map[string]string {
	t.Helper()
	all := map[string]string{}
	onEach(t, client, func(c redis.UniversalClient) error {
		for _, key := range c.Keys(t.Context(), "q:*").Val() {
			all[key] = fmt.Sprintf("%q %v", c.Dump(t.Context(), key).Val(), c.PExpireTime(t.Context(), key).Val())
		}
		return nil
	})
	return all
}

func evalshas(t *testing.T, client redis.UniversalClient) (calls int) {
	stats := client.Info(t.Context(), "commandstats").Val()
	_, after, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
	must(t, second(fmt.Sscanf(after, "%d,", &calls)))
	return calls
}

func TestQuota9AFlushedScriptIsLoadedAgain(t *testing.T) {
	limiter, client := newProductionLimiter(t)
	limiter.client.AddHook(hook(func(ctx context.Context, cmds []redis.Cmder, next func([]redis.Cmder) error) error {
		if cmds[0].Name() == "evalsha" {
			same(t, "flushed", client.ScriptFlush(ctx).Err(), nil)
		}
		return next(cmds)
	}))
	allAre(t, nil, calls(t, limiter, 31))
}

// If a request is invalid, the error says so, and does not count as a failure of Redis.
func TestPeekOfABadRequest(t *testing.T) {
	for name, limiter := range map[string]Limiter{
		"alone": withLongBudget(NewRedis(newClient(t, sharedRedis(t)), "q:")), "cluster": withLongBudget(NewRedis(newClient(t, sharedCluster(t)), "q:")),
		"memory": NewMemory(time.Now),
	} {
		for what, rules := range map[string][]Rule{
			"no limit": {sliding(Recipient, -1, time.Hour)}, "no window": {sliding(Recipient, 1, -time.Hour)},
		} {
			d, err := limiter.Peek(t.Context(), request("", rules...))
			if !errors.Is(err, ErrBadRequest) || errors.Is(err, ErrUnavailable) || len(d.Rules) > 0 {
				t.Errorf("%s, %s: %+v, %v", name, what, d, err)
			}
		}
	}
}

func TestQuota6And7LookingAndRefusingWriteNothing(t *testing.T) {
	for name, url := range map[string]string{"alone": sharedRedis(t), "cluster": sharedCluster(t)} {
		client := newClient(t, url)
		flushAll(t, client)
		limiter := withLongBudget(NewRedis(client, "q:"))
		rules := []Rule{sliding(Recipient, 1, time.Hour), sliding(IP, 9, time.Hour)}
		look := func() {
			must(t, limiter.Ping(t.Context()))
			must(t, second(limiter.Peek(t.Context(), request("", rules...))))
		}
		look()
		same(t, name+": keys after looking at none", len(snapshot(t, client)), 0)
		must(t, second(limiter.Take(t.Context(), request("one", rules...))))
		must(t, limiter.Refund(t.Context(), "other", ann()))
		before := snapshot(t, client)
		same(t, name+": keys", len(before), 2)
		look()
		for i := range 1000 {
			mustTake(t, limiter, request(fmt.Sprint("more", i), rules...), false)
		}
		must(t, second(limiter.Take(t.Context(), request("one", rules...)))) // a repetition
		if after := snapshot(t, client); !maps.Equal(before, after) {
			t.Errorf("%s: before %v\nafter %v", name, before, after)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A long history is recorded in steps. Between the steps, other callers get their turn.
func TestALongHistoryIsRecordedInSteps(t *testing.T) {
	limiter, client := newProductionLimiter(t)
	events := make([]AgedEvent, recordBatchSize+1)
	for i := range events {
		events[i] = AgedEvent{ID: fmt.Sprint(i)}
	}
	must(t, limiter.Record(t.Context(), ann(), time.Hour, events[:1])) // now the server has the script
	calls := evalshas(t, client)
	must(t, limiter.Record(t.Context(), ann(), time.Hour, events))
	same(t, "steps", evalshas(t, client)-calls, 2)
}

// lossyConn is a connection that can lose one answer, and then closes: the server ran the command,
// but the client gets no answer.
type lossyConn struct {
	net.Conn
	lose *atomic.Bool
}

func (c lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lose.CompareAndSwap(true, false) {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

// If the answer to a Take is lost, the client repeats the Take, and the event counts once.
func TestQuota8ALostReplyCountsOnce(t *testing.T) {
	limiter, direct := newProductionLimiter(t)
	lose := new(atomic.Bool)
	limiter.client.(*redis.Client).Options().Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return lossyConn{conn, lose}, err
	}
	// After this Take, the server has the script and the connection is open.
	must(t, second(limiter.Take(t.Context(), request("warm", sliding(IP, 9, time.Hour)))))
	calls := evalshas(t, direct)
	lose.Store(true)
	d := mustTake(t, limiter, request("one", sliding(Recipient, 9, time.Hour)), true)
	same(t, "lost", lose.Load(), false)
	same(t, "runs of the script", evalshas(t, direct)-calls, 2)
	same(t, "used", d.Rules[0].Used, 1)
	same(t, "events in Redis", direct.ZCard(t.Context(), limiter.key(ann())).Val(), 1)
}
