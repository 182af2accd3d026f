package quota

import (
	"errors"
	"reflect"
	"strings"
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

func TestQuota1TheDefaultPolicyAsATimeline(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for _, step := range []struct {
			at       time.Duration
			admitted bool
			left     []int
			wait     time.Duration
			blocking string
		}{
			{0, true, []int{0, 4, 9}, time.Minute, "minute"},
			{59 * time.Second, false, []int{0, 4, 9}, time.Second, "minute"},
			{60 * time.Second, true, []int{0, 3, 8}, time.Minute, "minute"},
			{120 * time.Second, true, []int{0, 2, 7}, time.Minute, "minute"},
			{180 * time.Second, true, []int{0, 1, 6}, time.Minute, "minute"},
			{240 * time.Second, true, []int{0, 0, 5}, 56 * time.Minute, "hour"},
			{time.Hour - µs, false, []int{1, 0, 5}, µs, "hour"},
			{time.Hour, true, []int{0, 0, 4}, time.Minute, "minute"},
		} {
			w.set(epoch.Add(step.at))
			d := w.admits(step.admitted, defaults...)
			sameList(t, "remaining", remaining(d), step.left)
			blocking, _ := d.Blocking()
			same(t, "blocked by", blocking.Name, step.blocking)
			same(t, "wait", d.RetryAfter(), step.wait)
			same(t, "instant", d.At, w.now)
		}
	})
}

func TestQuota3EventsOneMicrosecondApartHaveReleasesOfTheirOwn(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Hour)
		w.admits(true, r)
		w.pass(µs)
		d := w.admits(true, r)
		same(t, "first release", d.RetryAfter(), time.Hour-µs)
		w.pass(time.Hour - µs)
		w.admits(true, r)
		d = w.admits(false, r)
		same(t, "second release", d.RetryAfter(), µs)
		w.pass(µs)
		w.admits(true, r)
	})
}

// A bucket of many events is counted by the server, whose numbers must have all their digits as well.
func TestQuota3AlsoInALargeBucket(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const limit = 40
		r := sliding(Recipient, limit, time.Hour)
		for range limit {
			w.admits(true, r)
			w.pass(µs)
		}
		d := w.admits(false, r)
		same(t, "first release", d.RetryAfter(), time.Hour-limit*µs)
		w.pass(time.Hour - limit*µs - µs)
		same(t, "1 µs early", w.admits(false, r).Rules[0].Used, limit)
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
		w.admits(true, r)
		w.pass(-30 * time.Second)
		d := w.admits(false, r)
		same(t, "wait", d.RetryAfter(), time.Minute)
		same(t, "reset", d.Rules[0].ResetAfter, time.Minute)
		w.pass(-time.Hour)
		d = w.admits(false, r)
		same(t, "wait", d.RetryAfter(), time.Minute)
		w.set(epoch.Add(time.Minute - µs))
		w.admits(false, r)
		w.pass(µs)
		w.admits(true, r)
	})
}

func TestQuota4AnEventTakenAfterAStepBackIsTheOlderOne(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Minute)
		w.admits(true, r)
		w.pass(-20 * time.Second)
		d := w.admits(true, r)
		same(t, "reset", d.Rules[0].ResetAfter, time.Minute)
		w.pass(time.Minute)
		d = w.admits(true, r)
		same(t, "wait for the event of before the step", d.RetryAfter(), 20*time.Second)
	})
}

func TestQuota5ALoweredLimitWaitsForTheRightEvent(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for range 5 {
			w.admits(true, sliding(Recipient, 5, time.Hour))
			w.pass(time.Minute)
		}
		// Now 5 minutes on. With limit 3, the third oldest must leave, at 2 min + 1 h.
		lowered := sliding(Recipient, 3, time.Hour)
		d := w.admits(false, lowered)
		same(t, "wait", d.RetryAfter(), 57*time.Minute)
		same(t, "reset", d.Rules[0].ResetAfter, 55*time.Minute)
		same(t, "used", d.Rules[0].Used, 5)
		same(t, "remaining", d.Rules[0].Remaining(), 0)
		w.pass(57*time.Minute - µs)
		w.admits(false, lowered)
		w.pass(µs)
		w.admits(true, lowered)
		w.admits(true, sliding(Recipient, 4, time.Hour)) // raised again, at once
	})
}

func TestQuota5TheLongestWaitIsReported(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 1, time.Hour), sliding(IP, 1, time.Minute)}
		w.admits(true, rules...)
		d := w.admits(false, rules...)
		sameList(t, "violated", d.Violated(), []string{"recipient", "ip"})
		same(t, "wait", d.RetryAfter(), time.Hour)
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
		for range 1000 {
			w.pass(59 * time.Millisecond)
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

func TestARefusalInOneBucketSpendsNoOther(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for _, rules := range [][]Rule{
			{sliding(Recipient, 1, time.Minute), sliding(IP, 3, time.Minute)},
			{sliding(IP, 3, time.Minute), sliding(Recipient, 1, time.Minute)}, // either may come first
		} {
			w.flush()
			w.admits(true, rules...)
			for range 5 {
				w.admits(false, rules...)
			}
			same(t, "used of the address", w.peek(sliding(IP, 3, time.Minute)).Rules[0].Used, 1)
		}
	})
}

func TestBucketsAreApart(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 1, time.Minute), sliding(IP, 2, time.Minute)}
		for _, take := range []struct {
			recipient, ip string
			want          bool
		}{
			{"ann", "office", true}, {"bob", "office", true},
			{"eve", "office", false}, // one address, many recipients
			{"eve", "home", true},
			{"eve", "train", false}, // one recipient, many addresses
		} {
			d, err := w.Take(t.Context(), Request{ID: w.id(), Rules: rules, Buckets: buckets(take.recipient, take.ip)})
			must(t, err)
			same(t, take.recipient+" from "+take.ip, d.Admitted, take.want)
		}
	})
}

func TestABucketThatCountsTheIDNeitherDecidesNorCountsAgain(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 1, time.Minute), sliding(IP, 1, time.Second)}
		w.takeID("one", rules...)
		w.pass(time.Second) // the address has forgotten it
		d := w.takeID("one", rules...)
		same(t, "admitted", d.Admitted, true)
		sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{1, 1})
		same(t, "the recipient's event is the old one", d.Rules[0].RetryAfter, 59*time.Second)
		same(t, "the address's event is new", d.Rules[1].RetryAfter, time.Second)
		w.pass(time.Second)
		must(t, w.Record(t.Context(), buckets("", "office")[IP], time.Second, []Event{{ID: "two", At: w.now}}))
		same(t, "admitted where the address is full", w.takeID("one", rules...).Admitted, false)
	})
}

func TestPeekLeavesOutRulesWithoutABucket(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(IP, 1, time.Minute), sliding(Recipient, 1, time.Minute)}
		w.take(rules...)
		d, err := w.Peek(t.Context(), Request{Rules: rules, Buckets: map[Scope]string{Recipient: ann()}})
		must(t, err)
		sameList(t, "violated", d.Violated(), []string{"recipient"})
		same(t, "the caller's rules are whole", rules[0].Name, "ip")
		d, err = w.Peek(t.Context(), Request{Rules: rules})
		must(t, err)
		same(t, "rules", len(d.Rules), 0)
		same(t, "instant", d.At, w.now)
	})
}

func TestWrongRequestsCountNothing(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		good := sliding(Recipient, 1, time.Minute)
		with := func(change func(*Request)) Request {
			r := Request{ID: "one", Rules: []Rule{good}, Buckets: buckets("ann", "office")}
			change(&r)
			return r
		}
		rule := func(limit int, window time.Duration) func(*Request) {
			return func(r *Request) { r.Rules = []Rule{good, sliding(Recipient, limit, window)} }
		}
		for name, req := range map[string]Request{
			"no ID":            with(func(r *Request) { r.ID = "" }),
			"long ID":          with(func(r *Request) { r.ID = strings.Repeat("x", 65) }),
			"no rules":         with(func(r *Request) { r.Rules = nil }),
			"no bucket":        with(func(r *Request) { delete(r.Buckets, Recipient) }),
			"empty bucket":     with(func(r *Request) { r.Buckets[Recipient] = "" }),
			"limit 0":          with(rule(0, time.Minute)),
			"limit over":       with(rule(MaxLimit+1, time.Minute)),
			"window 0":         with(rule(1, 0)),
			"window negative":  with(rule(1, -time.Minute)),
			"window over":      with(rule(1, MaxWindow+slack+time.Second)),
			"window of half s": with(rule(1, 1500*time.Millisecond)),
		} {
			if d, err := w.Take(t.Context(), req); !errors.Is(err, ErrBadRequest) || d.Admitted {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		}
		if _, err := w.Peek(t.Context(), with(rule(0, time.Minute))); !errors.Is(err, ErrBadRequest) {
			t.Errorf("peek: %v", err)
		}
		same(t, "used", w.peek(good).Rules[0].Used, 0)
		same(t, "longest ID", w.takeID(strings.Repeat("x", 64), good).Admitted, true)
	})
}

func TestWrongWritesAreRefused(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		ctx, at := t.Context(), w.now
		for name, err := range map[string]error{
			"refund no ID":       w.Refund(ctx, "", ann()),
			"refund no bucket":   w.Refund(ctx, "one", ann(), ""),
			"reset no bucket":    w.Reset(ctx, ""),
			"record no bucket":   w.Record(ctx, "", time.Minute, []Event{{"one", at}}),
			"record keep 0":      w.Record(ctx, ann(), 0, []Event{{"one", at}}),
			"record keep over":   w.Record(ctx, ann(), MaxWindow+slack+1, []Event{{"one", at}}),
			"record no ID":       w.Record(ctx, ann(), time.Minute, []Event{{"one", at}, {"", at}}),
			"record year 2300":   w.Record(ctx, ann(), time.Minute, []Event{{"one", at.AddDate(260, 0, 0)}}),
			"record year 300000": w.Record(ctx, ann(), time.Minute, []Event{{"one", at.AddDate(297960, 0, 0)}}),
		} {
			if !errors.Is(err, ErrBadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		same(t, "used", w.peek(sliding(Recipient, 1, time.Minute)).Rules[0].Used, 0)
		for _, keep := range []time.Duration{MinWindow, MaxWindow} {
			must(t, w.Record(ctx, ann(), keep, []Event{{"one", at}}))
		}
	})
}
