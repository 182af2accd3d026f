package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

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

func TestAKeyShowsNothing(t *testing.T) {
	limiter, client := real(t)
	secret := Bucket("shop", "email", "default", "recipient", "ann@example.com")
	must(t, second(limiter.Take(t.Context(), Request{ID: "one", Rules: defaults, Buckets: map[Scope]string{Recipient: secret}})))
	sameList(t, "keys", slices.Collect(maps.Keys(snapshot(t, client))), []string{limiter.Key(secret)})
	key, other := limiter.Key(secret), limiter.Key(secret+"2")
	same(t, "a hash of fixed length in braces", len(key) == len("q:{}")+20 && len(other) == len(key) && key != other, true)
	same(t, "the recipient is in the key", strings.Contains(key, "ann"), false)
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

// With a rule of 1,000 per second, the set never has more members than the limit.
func TestABucketHoldsNoMoreEventsThanItsLimit(t *testing.T) {
	const limit = 1000
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	r := sliding(Recipient, limit, time.Second)
	key := limiter.Key(ann())
	for turn := range 2 {
		admitted := 0
		for range limit + 20 {
			if w.take(r).Admitted {
				admitted++
			}
			if n := limiter.client.ZCard(t.Context(), key).Val(); n > limit {
				t.Fatalf("%d events", n)
			}
			w.now = w.now.Add(500 * µs)
		}
		same(t, fmt.Sprint("admitted in turn ", turn), admitted, limit)
		w.now = w.now.Add(time.Second) // the key stays: its events are dropped one by one
	}
	bytes := limiter.client.Do(t.Context(), "memory", "usage", key, "samples", 0).Val().(int64)
	if each := bytes / limiter.client.ZCard(t.Context(), key).Val(); each > 120 {
		t.Errorf("%d bytes for each event", each)
	}
}

// After a step back of the clock, the event of before is the newest; a longer window must keep the key until that leaves.
func TestAKeyOutlivesAnEventInTheFuture(t *testing.T) {
	for _, events := range []int{1, 20} { // read as a whole, and by rank
		w := redisWorld(t)
		limiter := w.Limiter.(*Redis)
		for range events {
			w.admits(true, sliding(Recipient, events, time.Minute))
		}
		w.pass(-30 * time.Second)
		w.admits(true, sliding(Recipient, events+1, time.Hour))
		end := limiter.client.PExpireTime(t.Context(), limiter.Key(ann())).Val().Milliseconds()
		same(t, "end of the key", end, epoch.Add(time.Hour+time.Millisecond).UnixMilli())
	}
}

func FuzzBucket(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%3Ab", "", "a:b", "")
	f.Add("", "", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if one, two := Bucket(a, b), Bucket(c, d); (one == two) != (a == c && b == d) {
			t.Errorf("%q and %q", one, two)
		}
		if one, two := Bucket(a, b, c), Bucket(a+b, c); one == two {
			t.Errorf("three parts and two make %q", one)
		}
	})
}

func TestBucket(t *testing.T) {
	same(t, "bucket", Bucket("shop", "email", "default", "ip", "2001:db8::/64"), "shop:email:default:ip:2001%3Adb8%3A%3A/64")
	same(t, "escaped", Bucket("100%", ""), "100%25:")
}
