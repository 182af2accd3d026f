package quota

import (
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
