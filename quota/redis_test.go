package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// real is a limiter as in production, on the server's clock.
func real(t *testing.T, args ...string) (*Redis, redis.UniversalClient) {
	client := newClient(t, parts.Redis(t, args...).URL())
	return NewRedis(client, "q:"), client
}

func request(id string, rules ...Rule) Request {
	return Request{ID: id, Rules: rules, Buckets: buckets("ann", "office")}
}

func TestQuota2TheServersClockDecides(t *testing.T) {
	limiter, client := real(t)
	before := client.Time(t.Context()).Val()
	d, err := limiter.Take(t.Context(), request("one", defaults...))
	must(t, err)
	after := client.Time(t.Context()).Val()
	if d.At.Before(before) || d.At.After(after) {
		t.Errorf("decided at %v, not within %v and %v", d.At, before, after)
	}
	same(t, "clock", d.Clock, "redis")
	score := client.ZScore(t.Context(), limiter.Key(ann()), "one").Val()
	same(t, "score", int64(score), d.At.UnixMicro())
}

// snapshot is all that Redis holds, with the instants at which it goes.
func snapshot(t *testing.T, client redis.UniversalClient) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range client.Keys(t.Context(), "q:*").Val() {
		all[key] = fmt.Sprintf("%q %v", client.Dump(t.Context(), key).Val(), client.PExpireTime(t.Context(), key).Val())
	}
	return all
}

func TestQuota6And7LookingAndRefusingWriteNothing(t *testing.T) {
	limiter, client := real(t)
	look := func() {
		_, err := limiter.Peek(t.Context(), request("", defaults...))
		must(t, err)
	}
	look()
	same(t, "keys after looking at none", len(snapshot(t, client)), 0)
	_, err := limiter.Take(t.Context(), request("one", defaults...))
	must(t, err)
	must(t, limiter.Refund(t.Context(), "other", ann()))
	before := snapshot(t, client)
	same(t, "keys", len(before), 1)
	look()
	for i := range 10 {
		d, err := limiter.Take(t.Context(), request(fmt.Sprint("more", i), defaults...))
		must(t, err)
		same(t, "admitted", d.Admitted, false)
	}
	_, err = limiter.Take(t.Context(), request("one", defaults...)) // a repetition
	must(t, err)
	if after := snapshot(t, client); !maps.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

func TestQuota8ALostReplyCountsOnce(t *testing.T) {
	server := parts.Redis(t)
	direct := newClient(t, server.URL())
	proxy := newProxy(t, server.Addr())
	limiter := NewRedis(newClient(t, "redis://"+proxy.addr()), "q:")
	must(t, limiter.Ping(t.Context()))
	_, err := limiter.Take(t.Context(), request("warm", sliding(IP, 9, time.Hour))) // so that EVALSHA is all that is left
	must(t, err)
	calls := evalshas(t, direct)
	proxy.dropReply()
	d, err := limiter.Take(t.Context(), request("one", sliding(Recipient, 9, time.Hour)))
	must(t, err)
	same(t, "replies dropped", proxy.dropped.Load(), 1)
	same(t, "runs of the script", evalshas(t, direct)-calls, 2)
	same(t, "admitted", d.Admitted, true)
	same(t, "used", d.Rules[0].Used, 1)
	same(t, "ZCARD", direct.ZCard(t.Context(), limiter.Key(ann())).Val(), 1)
}

func evalshas(t *testing.T, client redis.UniversalClient) (calls int) {
	stats := client.Info(t.Context(), "commandstats").Val()
	_, after, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
	_, err := fmt.Sscanf(after, "%d,", &calls)
	must(t, err)
	return calls
}

func TestQuota9AFlushedScriptIsLoadedAgain(t *testing.T) {
	limiter, client := real(t)
	ctx, rules := t.Context(), []Rule{sliding(Recipient, 2, time.Hour)}
	for range 2 {
		for _, call := range []func() error{
			func() error { _, err := limiter.Take(ctx, request("one", rules...)); return err },
			func() error { _, err := limiter.Peek(ctx, request("", rules...)); return err },
			func() error { return limiter.Refund(ctx, "gone", ann()) },
			func() error { return limiter.Record(ctx, ann(), time.Hour, []Event{{"two", time.Now()}}) },
			func() error { return limiter.Reset(ctx, Bucket("other")) },
			func() error { return limiter.Ping(ctx) },
		} {
			must(t, client.ScriptFlush(ctx).Err())
			must(t, call())
		}
	}
	d, err := limiter.Peek(ctx, request("", rules...))
	must(t, err)
	same(t, "used", d.Rules[0].Used, 2)
}

func TestQuota11AFlushedServerForgets(t *testing.T) {
	limiter, client := real(t)
	for i := range 2 {
		d, err := limiter.Take(t.Context(), request(fmt.Sprint(i), defaults...))
		must(t, err)
		same(t, "admitted", d.Admitted, true)
		must(t, client.FlushAll(t.Context()).Err())
	}
	must(t, limiter.Record(t.Context(), ann(), time.Hour, []Event{{"0", client.Time(t.Context()).Val()}}))
	d, err := limiter.Take(t.Context(), request("2", defaults...))
	must(t, err)
	same(t, "admitted after the history came back", d.Admitted, false)
}

func TestACallThatItsCallerGaveUpIsNotAdmitted(t *testing.T) {
	limiter, _ := real(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := limiter.Take(ctx, request("one", defaults...))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) || d.Admitted {
		t.Errorf("%+v, %v", d, err)
	}
}
