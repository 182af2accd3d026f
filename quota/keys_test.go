package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A bucket expires when its newest event has left the longest window of its rules, and not before
// its last tombstone ends.
func TestABucketExpiresWhenNothingInItCounts(t *testing.T) {
	for name, w := range map[string]*world{"memory": memoryWorld(t), "redis": redisWorld(t)} {
		ctx, both := t.Context(), buckets("ann", "office")
		lasts := func(what string, scope Scope, want time.Duration) { // from now on; 0: there is no bucket
			t.Helper()
			var end time.Duration // the time since 1970
			switch l := w.Limiter.(type) {
			case *Memory:
				if b := l.find(both[scope], w.now.UnixMicro()); b != nil {
					end = time.Duration(b.expiresAt) * µs
				}
			case *Redis:
				end = max(0, l.client.PExpireTime(ctx, l.key(both[scope])).Val())
			}
			wantEnd := time.Duration(w.now.Add(want).UnixNano())
			if want == 0 {
				wantEnd = 0
			}
			same(t, name+": "+what, Milliseconds(end), Milliseconds(wantEnd)) // Redis rounds up to milliseconds
		}
		w.takeID("one", sliding(Recipient, 9, time.Minute), sliding(Recipient, 9, time.Hour), sliding(IP, 9, time.Second))
		lasts("longest window", Recipient, time.Hour)
		lasts("its own longest window", IP, time.Second)
		w.takeID("two", sliding(Recipient, 9, time.Minute))
		lasts("not shortened by a take", Recipient, time.Hour)
		must(t, w.Record(ctx, ann(), time.Minute, []AgedEvent{{ID: "three"}}))
		lasts("not shortened by a record", Recipient, time.Hour)
		must(t, w.Record(ctx, ann(), 2*time.Hour, []AgedEvent{{ID: "four"}}))
		lasts("lengthened by a record", Recipient, 2*time.Hour)
		must(t, w.Refund(ctx, "four", ann()))
		lasts("not shortened by a refund", Recipient, 2*time.Hour)
		must(t, w.Refund(ctx, "one", both[IP]))
		lasts("a refund alone", IP, tombstoneLife)
		w.pass(time.Second)
		must(t, w.Reset(ctx, ann()))
		lasts("the mark of a reset", Recipient, tombstoneLife)
		w.pass(time.Hour)
		w.takeID("five", sliding(Recipient, 9, time.Minute))
		must(t, w.Reset(ctx, ann()))
		lasts("the mark of another", Recipient, tombstoneLife)
		must(t, w.Record(ctx, ann(), time.Minute, nil))
		lasts("recorded nothing", Recipient, tombstoneLife)
	}
}

func TestAKeyShowsNothing(t *testing.T) {
	limiter, client := newProductionLimiter(t)
	secret := Bucket("shop", "email", "default", "recipient", "ann@example.com")
	must(t, second(limiter.Take(t.Context(), Request{ID: "one", Rules: defaults, Buckets: map[Scope]string{Recipient: secret}})))
	sameList(t, "keys", slices.Collect(maps.Keys(snapshot(t, client))), []string{limiter.key(secret)})
	key, other := limiter.key(secret), limiter.key(secret+"2")
	same(t, "a hash of fixed length in braces", len(key) == len("q:{}")+20 && len(other) == len(key) && key != other, true)
	same(t, "the recipient is in the key", strings.Contains(key, "ann"), false)
}

func TestRedisBytesPerRecipient(t *testing.T) {
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	limiter.prefix = "quota:"
	for range 10 {
		w.admits(true, defaults...)
		w.pass(time.Hour)
	}
	key := limiter.key(ann())
	same(t, "encoding", limiter.client.ObjectEncoding(t.Context(), key).Val(), "listpack")
	if n := limiter.client.MemoryUsage(t.Context(), key).Val(); n == 0 || n > 410 {
		t.Errorf("%d bytes", n)
	}
}

// Take and Record remove the events and tombstones that have ended.
func TestTakeAndRecordDropEndedEvents(t *testing.T) {
	for name, w := range map[string]*world{"memory": memoryWorld(t), "redis": redisWorld(t)} {
		expectStored := func(what string, want int) {
			t.Helper()
			held := 0
			switch l := w.Limiter.(type) {
			case *Memory:
				b := l.find(ann(), w.now.UnixMicro())
				held = len(b.ids) + len(b.refunds.until)
			case *Redis:
				held = int(l.client.ZCard(t.Context(), l.key(ann())).Val())
			}
			same(t, name+": "+what, held, want)
		}
		r := sliding(Recipient, 2, time.Minute)
		w.admits(true, r)
		must(t, w.Refund(t.Context(), "refunded", ann()))
		w.pass(time.Second)
		w.admits(true, r)
		w.pass(59*time.Second - µs)
		w.admits(false, r)
		expectStored("two events and a tombstone", 3)
		w.pass(µs)
		w.admits(true, r)
		expectStored("two events", 2)
		must(t, w.Record(t.Context(), ann(), time.Minute, []AgedEvent{{ID: "lapsed", Age: time.Minute}}))
		expectStored("after a record of an event that does not count", 2)
		for range 10 { // records failures, which no Take counts
			w.pass(20 * time.Second)
			must(t, w.Record(t.Context(), ann(), time.Minute, []AgedEvent{{ID: w.id()}}))
		}
		expectStored("three recorded events", 3)
	}
}

// Even with a high limit, a bucket's set never has more members than the limit.
func TestABucketHoldsNoMoreEventsThanItsLimit(t *testing.T) {
	const limit = 500
	w := redisWorld(t)
	limiter := w.Limiter.(*Redis)
	r := sliding(Recipient, limit, time.Second)
	key := limiter.key(ann())
	for turn := range 2 {
		admitted := 0
		for range limit + 20 {
			if w.take(r).Admitted {
				admitted++
			}
			if n := limiter.client.ZCard(t.Context(), key).Val(); n > limit {
				t.Fatalf("%d events", n)
			}
			w.now = w.now.Add(900 * µs)
		}
		same(t, fmt.Sprint("admitted in turn ", turn), admitted, limit)
		// Unlike w.pass, this keeps the expired key, so that the script must delete its events.
		w.now = w.now.Add(time.Second)
	}
	bytes := limiter.client.Do(t.Context(), "memory", "usage", key, "samples", 0).Val().(int64)
	// The levels of the skip list are random: an event takes 119 bytes on average, and the standard
	// deviation of the mean of 500 events is 0.5. A longer ID would take 16 bytes more.
	if each := bytes / limiter.client.ZCard(t.Context(), key).Val(); each > 125 {
		t.Errorf("%d bytes for each event", each)
	}
}

// After the clock was set back, a key expires when its events, which now count from the earlier
// time, have left the window.
func TestAKeyEndsWithItsWindowAfterAStepBack(t *testing.T) {
	minute := sliding(Recipient, 21, time.Minute)
	for name, see := range map[string]func(w *world){
		"take": func(w *world) { w.admits(true, minute) }, "look": func(w *world) { w.peek(minute) },
		"record": func(w *world) { must(w.t, w.Record(w.t.Context(), ann(), time.Minute, []AgedEvent{{ID: "late"}})) },
	} {
		for _, events := range []int{1, 20} { // the script reads a small bucket as a whole, and a large one by rank
			w := redisWorld(t)
			limiter := w.Limiter.(*Redis)
			for range events {
				w.admits(true, minute)
			}
			w.pass(-25*time.Hour - µs)
			see(w)
			end := limiter.client.PExpireTime(t.Context(), limiter.key(ann())).Val().Milliseconds()
			same(t, name+": end of the key", end, w.now.Add(time.Minute+time.Millisecond).UnixMilli())
		}
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
