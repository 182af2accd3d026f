package quota

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestQuota8ARepeatedTakeCountsOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		first := w.takeID("one", defaults...)
		sameDecision(t, w.takeID("one", defaults...), first)
		w.pass(time.Second)
		again := w.takeID("one", defaults...)
		same(t, "admitted", again.Admitted, true)
		same(t, "used", again.Rules[1].Used, 1)
		same(t, "wait now", again.RetryAfter(), 59*time.Second)
		w.pass(24*time.Hour - time.Second - µs)
		same(t, "used while it counts", w.takeID("one", defaults...).Rules[2].Used, 1)
		w.pass(µs)
		late := w.takeID("one", defaults...)
		same(t, "admitted anew", late.Admitted, true)
		same(t, "wait", late.RetryAfter(), time.Minute)
	})
}

// Of a bucket of many events the newest are looked at first; an older or a refunded one is known all the same.
// An ID whose event has left the window counts anew, from the very instant at which it left.
func TestQuota8AnIDThatHasLeftCountsAnew(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rule := sliding(Recipient, 3, time.Minute)
		w.takeID("again", rule)
		w.pass(time.Second)
		w.takeID("other", rule) // by which the bucket lives on
		w.pass(59*time.Second - time.Microsecond)
		same(t, "just before", w.takeID("again", rule).Rules[0].ResetAfter, time.Microsecond)
		w.pass(time.Microsecond)
		d := w.takeID("again", rule)
		same(t, "used", d.Rules[0].Used, 2)
		same(t, "reset", d.Rules[0].ResetAfter, time.Second)
	})
}

func TestQuota8AlsoInALargeBucket(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const limit = 40
		r := sliding(Recipient, limit, time.Hour)
		w.takeID("oldest", r)
		for range limit - 2 {
			w.pass(time.Second)
			w.admits(true, r)
		}
		must(t, w.Refund(t.Context(), "refunded", buckets("ann", "office")[Recipient]))
		for range 2 {
			again := w.takeID("oldest", r)
			same(t, "admitted", again.Admitted, true)
			same(t, "used", again.Rules[0].Used, limit-1)
		}
		_, err := w.Take(t.Context(), Request{ID: "refunded", Rules: []Rule{r}, Buckets: buckets("ann", "office")})
		if !errors.Is(err, ErrRefunded) {
			t.Errorf("refunded: %v", err)
		}
		w.admits(true, r)
		w.admits(false, r)
		same(t, "when all places are taken", w.takeID("oldest", r).Admitted, true)
	})
}

// A small bucket is read as a whole, a larger one by rank.
func TestABucketOfAnySizeAnswersItsWaits(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for n := range 20 {
			d := w.admits(true, sliding(Recipient, n+1, time.Hour), observing(sliding(Recipient, 1, time.Hour)))
			same(t, "used", d.Rules[0].Used, n+1)
			same(t, "wait for the oldest", d.Rules[0].RetryAfter, time.Hour-time.Duration(n)*time.Second)
			same(t, "the oldest leaves", d.Rules[0].ResetAfter, time.Hour-time.Duration(n)*time.Second)
			same(t, "wait for the newest", d.Rules[1].RetryAfter, time.Hour)
			w.pass(time.Second)
		}
	})
}

// An add drops tombstones that have ended, and none before.
func TestATombstoneEndsAfterExactlyAMinute(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.admits(true, perHour)
		must(t, w.Refund(t.Context(), "refunded", ann()))
		req := Request{ID: "refunded", Rules: []Rule{perHour}, Buckets: buckets("ann", "office")}
		w.pass(time.Minute - µs)
		w.admits(true, perHour)
		if _, err := w.Take(t.Context(), req); !errors.Is(err, ErrRefunded) {
			t.Errorf("1 µs before: %v", err)
		}
		w.pass(µs)
		same(t, "admitted", w.takeID("refunded", perHour).Admitted, true)
	})
}

func TestQuota8TwoIDsInOneMicrosecondAreTwo(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Minute)
		w.admits(true, r)
		same(t, "used", w.admits(true, r).Rules[0].Used, 2)
		w.admits(false, r)
	})
}

func TestQuota9ParallelTakesAdmitTheLimit(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for _, limit := range []int{1, 7} {
			w.flush()
			rules := []Rule{sliding(Recipient, limit, time.Minute), sliding(IP, 100, time.Minute)}
			results := make(chan bool, 200)
			var wg sync.WaitGroup
			for range cap(results) {
				id := w.id()
				wg.Go(func() {
					d, err := w.Take(t.Context(), Request{ID: id, Rules: rules, Buckets: buckets("ann", "office")})
					if err != nil {
						t.Error(err)
					}
					results <- d.Admitted
				})
			}
			wg.Wait()
			close(results)
			admitted := 0
			for ok := range results {
				if ok {
					admitted++
				}
			}
			same(t, "admitted", admitted, limit)
			sameList(t, "remaining", remaining(w.peek(rules...)), []int{0, 100 - limit})
		}
	})
}
