package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

func TestKeysExpireWithTheirLastEvent(t *testing.T) {
	limiter, client := real(t)
	ctx := t.Context()
	end := func(scope Scope) int64 { // the ms in which the key goes, rounded up
		return client.PExpireTime(ctx, limiter.Key(buckets("ann", "office")[scope])).Val().Milliseconds()
	}
	till := func(at time.Time, keep time.Duration) int64 {
		return Milliseconds(time.Duration(at.Add(keep).UnixNano()))
	}
	take := func(id string, rules ...Rule) time.Time {
		d, err := limiter.Take(ctx, request(id, rules...))
		must(t, err)
		same(t, "admitted", d.Admitted, true)
		return d.At
	}
	at := take("one", sliding(Recipient, 9, time.Minute), sliding(Recipient, 9, time.Hour), sliding(IP, 9, time.Second))
	same(t, "longest window", end(Recipient), till(at, time.Hour))
	same(t, "its own longest window", end(IP), till(at, time.Second))
	take("two", sliding(Recipient, 9, time.Minute))
	same(t, "not shortened by a take", end(Recipient), till(at, time.Hour))
	must(t, limiter.Record(ctx, ann(), time.Minute, []Event{{"three", at}}))
	same(t, "not shortened by a record", end(Recipient), till(at, time.Hour))
	must(t, limiter.Record(ctx, ann(), 2*time.Hour, []Event{{"four", at.Add(time.Second)}}))
	same(t, "lengthened by a record", end(Recipient), till(at.Add(time.Second), 2*time.Hour))
	must(t, limiter.Refund(ctx, "four", ann()))
	same(t, "not shortened by a refund", end(Recipient), till(at.Add(time.Second), 2*time.Hour))
	must(t, limiter.Refund(ctx, "one", buckets("", "office")[IP]))
	same(t, "until the refund is forgotten", end(IP), till(refundedTill(t, client, limiter.Key(buckets("", "office")[IP])), 0))
	must(t, limiter.Reset(ctx, ann()))
	same(t, "until the refund is forgotten", end(Recipient), till(refundedTill(t, client, limiter.Key(ann())), 0))
	must(t, limiter.Reset(ctx, Bucket("bob")))
	same(t, "keys", len(snapshot(t, client)), 2)
	must(t, limiter.Record(ctx, Bucket("bob"), time.Minute, nil))
	same(t, "keys", len(snapshot(t, client)), 2)
}

func refundedTill(t *testing.T, client redis.UniversalClient, key string) time.Time {
	all := client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
	same(t, "members", len(all), 1)
	return time.UnixMicro(int64(-all[0].Score))
}

func TestAKeyShowsNothingAndHasASlotOfItsOwn(t *testing.T) {
	limiter, client := real(t)
	secret := Bucket("shop", "email", "default", "recipient", "ann@example.com")
	_, err := limiter.Take(t.Context(), Request{ID: "one", Rules: defaults, Buckets: map[Scope]string{Recipient: secret}})
	must(t, err)
	sameList(t, "keys", slices.Collect(maps.Keys(snapshot(t, client))), []string{limiter.Key(secret)})
	if strings.Contains(limiter.Key(secret), "ann") {
		t.Error("the key shows the recipient")
	}
	tags := map[string]bool{}
	for i := range 100 {
		key := limiter.Key(Bucket(fmt.Sprint(i)))
		tag := strings.TrimSuffix(strings.TrimPrefix(key, "q:{"), "}")
		same(t, "length of the tag", len(tag), 20)
		tags[tag] = true
	}
	same(t, "tags", len(tags), 100)
}

func TestARecipientWithTenEventsTakesAtMost400Bytes(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	limiter.prefix = "quota:"
	for range 10 {
		w.admits(true, defaults...)
		w.pass(time.Hour)
	}
	key := limiter.Key(ann())
	same(t, "encoding", limiter.client.ObjectEncoding(t.Context(), key).Val(), "listpack")
	if n := limiter.client.MemoryUsage(t.Context(), key).Val(); n == 0 || n > 400 {
		t.Errorf("%d bytes", n)
	}
}

func TestWhatCountsNoMoreIsDropped(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	card := func() int64 { return limiter.client.ZCard(t.Context(), limiter.Key(ann())).Val() }
	r := sliding(Recipient, 2, time.Minute)
	w.admits(true, r)
	must(t, w.Refund(t.Context(), "refunded", ann()))
	w.pass(time.Second)
	w.admits(true, r)
	w.pass(59*time.Second - µs)
	w.admits(false, r)
	same(t, "members while all count", card(), 3)
	w.pass(µs)
	w.admits(true, r)
	same(t, "members", card(), 2)
	must(t, w.Record(t.Context(), ann(), time.Minute, []Event{{"lapsed", w.now.Add(-time.Minute)}}))
	same(t, "members after a record of what does not count", card(), 2)
}

// Only a step back of the clock and a longer window together show it: the older event is then the later one.
func TestAKeyOutlivesAnEventInTheFuture(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	w.admits(true, sliding(Recipient, 2, time.Minute))
	w.pass(-30 * time.Second)
	w.admits(true, sliding(Recipient, 2, time.Hour))
	end := limiter.client.PExpireTime(t.Context(), limiter.Key(ann())).Val().Milliseconds()
	same(t, "end of the key", end, epoch.Add(time.Hour+time.Millisecond).UnixMilli())
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
