package quota

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const µs = time.Microsecond

func TestQuota1APlaceIsFreeAgainExactlyAfterItsWindow(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for _, r := range defaults {
			w.flush()
			for range r.Limit {
				w.admits(true, r)
			}
			w.pass(r.Window - µs)
			d := w.admits(false, r)
			same(t, r.Name+" wait 1 µs before the end", d.RetryAfter(), µs)
			w.pass(µs)
			d = w.admits(true, r)
			same(t, r.Name+" used after the old events left", d.Rules[0].Used, 1)
		}
	})
}

func TestQuota6LookingShowsTheSameAndCostsNothing(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		fresh := w.peek(defaults...)
		sameList(t, "remaining before", remaining(fresh), []int{1, 5, 10})
		same(t, "allowed", fresh.Allowed(), true)
		same(t, "reset", fresh.Rules[2].ResetAfter, 0)
		taken := w.take(defaults...)
		taken.Admitted = false
		for range 10 {
			sameDecision(t, w.peek(defaults...), taken)
		}
	})
}

func TestQuota7RefusalsMoveNoDeadline(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		release := w.now.Add(w.take(defaults...).RetryAfter())
		for range 100 {
			w.pass(590 * time.Millisecond)
			d := w.admits(false, defaults...)
			if got := d.At.Add(d.RetryAfter()); !got.Equal(release) {
				t.Fatalf("release moved by %v", got.Sub(release))
			}
			sameList(t, "remaining", remaining(d), []int{0, 4, 9})
		}
		w.set(release)
		w.admits(true, defaults...)
	})
}

// sameDecision compares all but the name of the clock.
func sameDecision(t tester, got, want Decision) {
	t.Helper()
	got.Clock, want.Clock = "", ""
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// The script reads a small bucket as a whole, and a larger one by rank.
func TestQuota3EventsOneMicrosecondApartLeaveOneByOne(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const limit = 20
		for n := range limit {
			d := w.admits(true, sliding(Recipient, n+1, time.Hour), observing(sliding(Recipient, 1, time.Hour)))
			same(t, "used", d.Rules[0].Used, n+1)
			same(t, "wait for the oldest", d.Rules[0].RetryAfter, time.Hour-time.Duration(n)*µs)
			same(t, "the oldest leaves", d.Rules[0].ResetAfter, time.Hour-time.Duration(n)*µs)
			same(t, "wait for the newest", d.Rules[1].RetryAfter, time.Hour)
			w.pass(µs)
		}
		r := sliding(Recipient, limit, time.Hour)
		w.pass(time.Hour - limit*µs - µs)
		d := w.admits(false, r)
		same(t, "used 1 µs early", d.Rules[0].Used, limit)
		same(t, "first release", d.RetryAfter(), µs)
		for range limit - 1 {
			w.pass(µs)
			d := w.admits(true, r)
			same(t, "used", d.Rules[0].Used, limit)
			same(t, "next release", d.RetryAfter(), µs)
			w.admits(false, r)
		}
	})
}

func TestQuota4AStepBackOfTheClockFreesNothing(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Minute)
		w.admits(true, r)
		w.pass(-20 * time.Second)
		w.admits(true, r) // counts as the older one
		w.pass(-time.Hour)
		d := w.admits(false, r)
		same(t, "wait", d.RetryAfter(), time.Minute)
		same(t, "reset", d.Rules[0].ResetAfter, time.Minute)
		w.set(epoch.Add(40*time.Second - µs))
		w.admits(false, r)
		w.pass(µs)
		same(t, "wait for the event before the step", w.admits(true, r).RetryAfter(), 20*time.Second)
	})
}

func TestPeekLeavesOutRulesWithoutABucket(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
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

func TestInvalidCallsChangeNothing(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		good := sliding(Recipient, 1, time.Minute)
		take := func(change func(*Request)) error {
			r := Request{ID: "one", Rules: []Rule{good}, Buckets: buckets("ann", "office")}
			change(&r)
			d, err := w.Take(t.Context(), r)
			same(t, "admitted", d.Admitted, false)
			return err
		}
		with := func(limit int, window time.Duration) error {
			return take(func(r *Request) { r.Rules = []Rule{good, sliding(Recipient, limit, window)} })
		}
		ctx, at := t.Context(), w.now
		for name, err := range map[string]error{
			"no ID":              take(func(r *Request) { r.ID = "" }),
			"long ID":            take(func(r *Request) { r.ID = strings.Repeat("x", 65) }),
			"no rules":           take(func(r *Request) { r.Rules = nil }),
			"no bucket":          take(func(r *Request) { delete(r.Buckets, Recipient) }),
			"limit 0":            with(0, time.Minute),
			"limit over":         with(MaxLimit+1, time.Minute),
			"window 0":           with(1, 0),
			"window negative":    with(1, -time.Minute),
			"window over":        with(1, MaxWindow+slack+time.Second),
			"window of half s":   with(1, 1500*time.Millisecond),
			"peek limit 0":       second(w.Peek(ctx, request("", sliding(Recipient, 0, time.Minute)))),
			"refund no ID":       w.Refund(ctx, "", ann()),
			"refund no bucket":   w.Refund(ctx, "one", ann(), ""),
			"reset no bucket":    w.Reset(ctx, ""),
			"record no bucket":   w.Record(ctx, "", time.Minute, []Event{{"one", at}}),
			"record keep 0":      w.Record(ctx, ann(), 0, []Event{{"one", at}}),
			"record keep over":   w.Record(ctx, ann(), MaxWindow+slack+1, []Event{{"one", at}}),
			"record no ID":       w.Record(ctx, ann(), time.Minute, []Event{{"one", at}, {"", at}}),
			"record year 2300":   w.Record(ctx, ann(), time.Minute, []Event{{"one", at.AddDate(260, 0, 0)}}),
			"record year 300000": w.Record(ctx, ann(), time.Minute, []Event{{"one", at.AddDate(297960, 0, 0)}}),
			"restore keep of ms": w.Restore(ctx, History{Bucket: ann(), Keep: time.Millisecond}),
		} {
			if !errors.Is(err, ErrBadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		same(t, "used", w.peek(good).Rules[0].Used, 0)
		same(t, "longest ID", w.takeID(strings.Repeat("x", 64), good).Admitted, true)
		for _, keep := range []time.Duration{MinWindow, MaxWindow} {
			must(t, w.Record(ctx, ann(), keep, []Event{{"one", at}}))
		}
	})
}

func observing(r Rule) Rule {
	r.Observe = true
	return r
}

func TestARepeatedTakeReportsTheSameObservations(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{observing(sliding(Recipient, 1, time.Hour)), observing(sliding(IP, 1, time.Hour))}
		for _, id := range []string{"one", "two"} {
			first := w.takeID(id, rules...)
			again := w.takeID(id, rules...)
			sameList(t, id+" again", again.Observed(), first.Observed())
			sameDecision(t, again, first)
		}
		must(t, w.Refund(t.Context(), "one", ann()))
		sameList(t, "after one was refunded", w.takeID("two", rules...).Observed(), []string{"ip"})
	})
}

// An ID counts once while its event counts, and anew from the instant at which that left.
func TestQuota8ARepeatedTakeCountsOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rule := sliding(Recipient, 3, time.Minute)
		sameDecision(t, w.takeID("again", rule), w.takeID("again", rule))
		w.pass(time.Second)
		w.takeID("other", rule) // keeps the bucket alive
		w.pass(59*time.Second - µs)
		same(t, "just before", w.takeID("again", rule).Rules[0].ResetAfter, µs)
		w.pass(µs)
		d := w.takeID("again", rule)
		same(t, "used", d.Rules[0].Used, 2)
		same(t, "reset", d.Rules[0].ResetAfter, time.Second)
	})
}

func TestQuota9ParallelTakesAdmitTheLimit(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
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
