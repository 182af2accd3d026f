package quota

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

const µs = time.Microsecond

var perHour = sliding(Recipient, 5, time.Hour)

func sameDecision(t tester, got, want Decision) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatal(servertest.Difference(got, want, reflect.DeepEqual))
	}
}

func TestPeekLeavesOutRulesWithoutABucket(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(IP, 1, time.Minute), sliding(Recipient, 1, time.Minute)}
		w.take(rules...)
		for bucket, want := range map[string][]string{ann(): {"recipient"}, "": nil} {
			d, err := w.Peek(t.Context(), Request{Rules: rules, Buckets: map[Scope]string{Recipient: bucket}})
			must(t, err)
			sameList(t, "violated", d.Violated(), want)
			same(t, "rules", len(d.Rules), len(want))
			same(t, "instant", d.At, w.now)
			same(t, "the caller's first rule", rules[0].Name, "ip")
		}
	})
}

// The decision has the state of a rule in Request.Also as if the rule decided. But the rule refuses
// nothing and counts nothing: its bucket stays unchanged.
func TestAlsoDecidesAndCountsNothing(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		one := Request{
			ID: "one", Rules: []Rule{sliding(Recipient, 2, time.Hour)}, Buckets: buckets("ann", "office"),
			Also: []Rule{sliding(Recipient, 1, time.Hour), sliding(IP, 1, time.Minute)},
		}
		must(t, w.Record(t.Context(), one.Buckets[IP], time.Minute, []AgedEvent{{ID: "before"}}))
		for n, admitted := range []bool{true, true, false} {
			one.ID = w.id()
			d := mustTake(t, w, one, admitted)
			used := min(n+1, 2)
			same(t, "rules", len(d.Rules), 1)
			for i, want := range []State{
				{Rule: one.Also[0], Used: used, ResetAfter: time.Hour, RetryAfter: time.Hour},
				{Rule: one.Also[1], Used: 1, ResetAfter: time.Minute, RetryAfter: time.Minute},
			} {
				same(t, "also", d.Also[i], want)
			}
			looked, err := w.Peek(t.Context(), one)
			must(t, err)
			sameDecision(t, looked, Decision{At: d.At, Rules: d.Rules, Also: d.Also})
		}
		delete(one.Buckets, IP)
		d, err := w.Peek(t.Context(), one)
		must(t, err)
		same(t, "of those with a bucket", len(d.Also), 1)
		same(t, "a take without a bucket fails", errors.Is(second(w.Take(t.Context(), one)), ErrBadRequest), true)
	})
}

func TestInvalidCallsChangeNothing(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		good := sliding(Recipient, 1, time.Minute)
		take := func(change func(*Request)) error {
			r := Request{ID: "one", Rules: []Rule{good}, Buckets: buckets("ann", "office")}
			change(&r)
			d, err := w.Take(t.Context(), r)
			same(t, "admitted", d.Admitted, false)
			return err
		}
		ctx, one := t.Context(), []AgedEvent{{ID: "one"}}
		for name, err := range map[string]error{
			"no ID":             take(func(r *Request) { r.ID = "" }),
			"long ID":           take(func(r *Request) { r.ID = strings.Repeat("x", 65) }),
			"no rules":          take(func(r *Request) { r.Rules = nil }),
			"no bucket":         take(func(r *Request) { delete(r.Buckets, Recipient) }),
			"limit 0":           take(func(r *Request) { r.Rules = []Rule{good, sliding(Recipient, 0, time.Minute)} }),
			"peek limit 0":      second(w.Peek(ctx, request("", sliding(Recipient, 0, time.Minute)))),
			"refund no ID":      w.Refund(ctx, "", ann()),
			"refund no bucket":  w.Refund(ctx, "one", ann(), ""),
			"reset no bucket":   w.Reset(ctx, ""),
			"record no bucket":  w.Record(ctx, "", time.Minute, one),
			"record keep 0":     w.Record(ctx, ann(), 0, one),
			"record keep over":  w.Record(ctx, ann(), MaxWindow+maxTurnBack+1, one),
			"record no ID":      w.Record(ctx, ann(), time.Minute, append(one, AgedEvent{})),
			"record keep of ms": w.Record(ctx, ann(), time.Millisecond, one),
		} {
			if !errors.Is(err, ErrBadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		same(t, "used", w.peek(good).Rules[0].Used, 0)
		same(t, "longest ID", w.takeID(strings.Repeat("x", 64), good).Admitted, true)
		for _, keep := range []time.Duration{MinWindow, MaxWindow} {
			must(t, w.Record(ctx, ann(), keep, one))
		}
	})
}

func TestQuota9ParallelTakesAdmitTheLimit(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		for _, limit := range []int{1, 7} {
			w.flush()
			rules := []Rule{sliding(Recipient, limit, time.Minute), sliding(IP, 100, time.Minute)}
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 200 {
				id := w.id()
				wg.Go(func() {
					d, err := w.Take(t.Context(), request(id, rules...))
					if err != nil {
						t.Error(err)
					}
					if d.Admitted {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			same(t, "admitted", admitted.Load(), int64(limit))
			sameList(t, "remaining", remaining(w.peek(rules...)), []int{0, 100 - limit})
		}
	})
}

// A refunded ID is refused for exactly a minute: even if it was never taken, if the bucket's events
// leave earlier, if other events are added, and if the clock steps back before another ID is
// refunded or the bucket is read.
func TestARefundedIDStaysRefundedForAMinute(t *testing.T) {
	second := sliding(Recipient, 9, time.Second)
	for name, c := range map[string]struct {
		rule          Rule
		before, after func(w *world)
		rest          time.Duration // from the return of after to the end of the tombstone
	}{
		"never taken":     {perHour, func(*world) {}, func(*world) {}, time.Minute},
		"taken":           {perHour, func(w *world) { w.takeID("refunded", perHour) }, func(*world) {}, time.Minute},
		"beside an event": {perHour, func(w *world) { w.take(perHour) }, func(w *world) { w.pass(time.Minute - µs); w.take(perHour) }, µs},
		"events leave":    {second, func(w *world) { w.take(second) }, func(*world) {}, time.Minute},
		"a step back": {perHour, func(*world) {}, func(w *world) {
			w.pass(-30 * time.Second)
			must(w.t, w.Refund(w.t.Context(), "second", ann()))
		}, 90 * time.Second},
		"events come back": {
			second, func(w *world) { w.take(second) },
			func(w *world) { w.pass(-30 * time.Second); w.peek(second) }, 90 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryLimiter(t, func(t *testing.T, w *world) {
				c.before(w)
				must(t, w.Refund(t.Context(), "refunded", ann()))
				c.after(w)
				w.pass(c.rest - µs)
				used := w.peek(c.rule).Rules[0].Used
				_, err := w.Take(t.Context(), request("refunded", sliding(IP, 9, time.Hour), c.rule))
				same(t, "refused 1 µs before the end", errors.Is(err, ErrRefunded), true)
				must(t, w.Record(t.Context(), ann(), c.rule.Window, []AgedEvent{{ID: "refunded"}}))
				same(t, "used", w.peek(c.rule).Rules[0].Used, used)
				w.pass(µs)
				d := w.takeID("refunded", c.rule)
				same(t, "admitted after a minute", d.Admitted, true)
				same(t, "used after a minute", d.Rules[0].Used, used+1)
				must(t, w.Record(t.Context(), ann(), c.rule.Window, []AgedEvent{{ID: "another"}}))
				same(t, "recorded after a minute", w.peek(c.rule).Rules[0].Used, used+2)
			})
		})
	}
}

// Record adds events by their ages, and never makes a bucket less strict.
func TestRecordOnlyMakesStricter(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Minute)
		record := func(events ...AgedEvent) {
			t.Helper()
			must(t, w.Record(t.Context(), ann(), time.Minute, events))
		}
		is := func(what string, used int, reset, wait time.Duration) {
			t.Helper()
			s := w.peek(r).Rules[0]
			same(t, what+": used", s.Used, used)
			same(t, what+": reset", s.ResetAfter, reset)
			same(t, what+": wait", s.RetryAfter, wait)
		}
		w.takeID("taken", r)
		w.pass(10 * time.Second)
		for range 2 {
			record(AgedEvent{ID: "taken", Age: 20 * time.Second}, AgedEvent{ID: "fresh", Age: 40 * time.Second},
				AgedEvent{ID: "fresh", Age: 30 * time.Second},
				AgedEvent{ID: "edge", Age: time.Minute - µs}, AgedEvent{ID: "lapsed", Age: time.Minute})
			is("added, and none of them earlier", 3, µs, 30*time.Second)
		}
		record()
		record(AgedEvent{ID: "taken", Age: 5 * time.Second}, AgedEvent{ID: "ahead", Age: -5 * time.Second},
			AgedEvent{ID: "ns", Age: time.Minute - time.Nanosecond})
		is("later, and none in the future", 4, µs, 55*time.Second)
		record(AgedEvent{ID: "late", Age: 10 * time.Second, AsOf: w.now.Add(-30 * time.Second)},
			AgedEvent{ID: "later", Age: 50 * time.Second, AsOf: w.now.Add(time.Hour)})
		is("as of an instant", 6, µs, 55*time.Second)
		w.pass(time.Minute - µs)
		is("the one ahead counts from when it was recorded", 1, µs, 0)
	})
}

// Until the mark of a reset ends, Record adds no events that are older than the reset, or newer
// than the reset by at most resetSlack.
func TestResetKeepsOutWhatWasReadBefore(t *testing.T) {
	onEveryLimiter(t, func(t *testing.T, w *world) {
		record := func(what string, age time.Duration, want int) {
			t.Helper()
			must(t, w.Record(t.Context(), ann(), time.Hour, []AgedEvent{{ID: w.id(), Age: age}}))
			same(t, what, w.peek(perHour).Rules[0].Used, want)
		}
		must(t, w.Reset(t.Context(), ann()))
		record("at once", 0, 0)
		w.take(perHour)
		same(t, "taken after the reset", w.peek(perHour).Rules[0].Used, 1)
		must(t, w.Reset(t.Context(), ann()))
		same(t, "after the reset", w.peek(perHour).Rules[0].Used, 0)
		w.pass(resetSlack)
		record("of the time in which a record may be late", 0, 0)
		w.pass(µs)
		record("later", 0, 1)
		w.pass(tombstoneLife - resetSlack - 2*µs)
		record("read before, at the end of the mark", tombstoneLife, 1)
		record("read after", tombstoneLife-resetSlack-2*µs, 2)
		w.pass(µs)
		record("after the mark", 2*tombstoneLife, 3)
		must(t, w.Reset(t.Context(), ann()))
		w.pass(-time.Minute)
		record("before a reset of the future", 0, 0)
		same(t, "taken", w.take(perHour).Rules[0].Used, 1)
	})
}
