package quota

import (
	"errors"
	"testing"
	"time"
)

func TestRefund(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 2, time.Hour), sliding(IP, 9, time.Hour)}
		w.takeID("one", rules...)
		w.takeID("two", rules...)
		for range 2 {
			must(t, w.Refund(t.Context(), "one", ann()))
			d := w.peek(rules...)
			sameList(t, "remaining", remaining(d), []int{1, 7}) // the address is not given back (QUOTA-15)
		}
		w.admits(true, rules...)
		w.admits(false, rules...)
	})
}

// An ID stays refunded for its minute also in a bucket whose events leave earlier.
func TestARefundedIDOutlivesTheEventsBesideIt(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		second := sliding(Recipient, 9, time.Second)
		w.takeID("taken", second)
		must(t, w.Refund(t.Context(), "refunded", ann()))
		w.pass(30 * time.Second)
		_, err := w.Take(t.Context(), Request{ID: "refunded", Rules: []Rule{second}, Buckets: buckets("ann", "office")})
		if !errors.Is(err, ErrRefunded) {
			t.Errorf("%v", err)
		}
	})
}

// An ID stays refunded for its minute where the clock steps back and another one, whose minute then ends earlier, is refunded after it.
func TestARefundedIDStaysRefundedOverAStepBack(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		must(t, w.Refund(t.Context(), "first", ann()))
		w.pass(-30 * time.Second)
		must(t, w.Refund(t.Context(), "second", ann()))
		w.pass(65 * time.Second)
		_, err := w.Take(t.Context(), Request{ID: "first", Rules: []Rule{sliding(Recipient, 9, time.Hour)}, Buckets: buckets("ann", "office")})
		if !errors.Is(err, ErrRefunded) {
			t.Errorf("%v", err)
		}
	})
}

func TestARefundedIDStaysRefundedForAMinute(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		both := buckets("ann", "office")
		take := func(id string) (Decision, error) {
			return w.Take(t.Context(), Request{ID: id, Rules: []Rule{sliding(IP, 9, time.Hour), sliding(Recipient, 9, time.Hour)}, Buckets: both})
		}
		_, err := take("taken")
		must(t, err)
		for _, id := range []string{"taken", "never taken"} {
			must(t, w.Refund(t.Context(), id, both[Recipient]))
		}
		w.pass(time.Minute - µs)
		for _, id := range []string{"taken", "never taken"} {
			if d, err := take(id); !errors.Is(err, ErrRefunded) || d.Admitted {
				t.Errorf("%s: %+v, %v", id, d, err)
			}
			must(t, w.Record(t.Context(), both[Recipient], time.Hour, []Event{{ID: id, At: w.now}}))
		}
		same(t, "used", w.peek(sliding(Recipient, 9, time.Hour)).Rules[0].Used, 0)
		w.pass(µs)
		must(t, w.Record(t.Context(), both[Recipient], time.Hour, []Event{{ID: "never taken", At: w.now}}))
		same(t, "used by what is recorded after a minute", w.peek(sliding(Recipient, 9, time.Hour)).Rules[0].Used, 1)
		must(t, w.Reset(t.Context(), both[Recipient]))
		for used, id := range []string{"taken", "never taken"} {
			d, err := take(id)
			must(t, err)
			same(t, id+" after a minute", d.Admitted, true)
			same(t, "used", d.Rules[1].Used, used+1)
			same(t, "used of the address, which had the first one all the time", d.Rules[0].Used, used+1)
		}
	})
}

func TestRefundedIDsLeaveOnTheirOwn(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 1, time.Second)
		w.takeID("one", r)
		must(t, w.Refund(t.Context(), "one", ann()))
		w.admits(true, r)
		w.pass(2 * time.Minute)
		w.admits(true, r)
		same(t, "recorded after its minute", len(w.peek(r).Rules), 1)
		must(t, w.Record(t.Context(), ann(), time.Second, []Event{{ID: "one", At: w.now}}))
		same(t, "used", w.peek(r).Rules[0].Used, 2)
	})
}

func TestRecord(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 2, time.Minute)
		w.takeID("taken", r)
		w.pass(10 * time.Second)
		history := []Event{
			{"taken", w.now.Add(-5 * time.Second)}, // counts from the later instant
			{"fresh", w.now.Add(-30 * time.Second)},
			{"fresh", w.now.Add(-40 * time.Second)}, // earlier
			{"ahead", w.now.Add(5 * time.Second)},   // from a clock that was ahead
			{"edge", w.now.Add(µs - time.Minute)},
			{"lapsed", w.now.Add(-time.Minute)},
			{"ancient", time.Time{}},
		}
		for range 2 {
			must(t, w.Record(t.Context(), ann(), time.Minute, history))
			d := w.peek(r)
			same(t, "used, over the limit", d.Rules[0].Used, 4)
			same(t, "reset: the edge", d.Rules[0].ResetAfter, µs)
			same(t, "wait: taken", d.Rules[0].RetryAfter, 55*time.Second)
		}
		must(t, w.Record(t.Context(), ann(), time.Minute, nil))
		w.pass(time.Minute)
		same(t, "only the one ahead is left", w.peek(r).Rules[0].Used, 1)
	})
}

func TestAnEventThatLapsedCanBeRecordedAnew(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		r := sliding(Recipient, 9, time.Minute)
		w.takeID("one", r)
		w.pass(time.Second)
		w.takeID("two", r)
		w.pass(time.Minute - time.Second)
		must(t, w.Record(t.Context(), ann(), time.Minute, []Event{{ID: "one", At: w.now}}))
		d := w.peek(r)
		same(t, "used", d.Rules[0].Used, 2)
		same(t, "reset: two", d.Rules[0].ResetAfter, time.Second)
		same(t, "used after a repetition", w.takeID("one", r).Rules[0].Used, 2)
		must(t, w.Refund(t.Context(), "one", ann()))
		same(t, "used after the refund", w.peek(r).Rules[0].Used, 1)
	})
}

func TestResetForgetsEventsButNotRefunds(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 2, time.Hour), sliding(IP, 9, time.Hour)}
		w.take(rules...)
		w.takeID("gone", rules...)
		must(t, w.Refund(t.Context(), "gone", ann()))
		must(t, w.Reset(t.Context(), ann(), ann(), Bucket("never used")))
		sameList(t, "remaining", remaining(w.peek(rules...)), []int{2, 7})
		must(t, w.Record(t.Context(), ann(), time.Hour, []Event{{ID: "gone", At: w.now}}))
		sameList(t, "remaining", remaining(w.peek(rules...)), []int{2, 7})
		must(t, w.Reset(t.Context(), ann(), buckets("", "office")[IP]))
		sameList(t, "remaining", remaining(w.peek(rules...)), []int{2, 9})
		must(t, w.Reset(t.Context()))
	})
}

func TestALongHistoryIsRecordedWhole(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const n = 2500
		history := make([]Event, n)
		for i := range history {
			history[i] = Event{ID: w.id(), At: w.now.Add(-time.Duration(i) * time.Millisecond)}
		}
		must(t, w.Record(t.Context(), ann(), time.Hour, history))
		d := w.peek(sliding(Recipient, 1, time.Hour), sliding(Recipient, n, time.Second))
		same(t, "in an hour", d.Rules[0].Used, n)
		same(t, "wait for the newest", d.Rules[0].RetryAfter, time.Hour)
		same(t, "in a second", d.Rules[1].Used, 1000)
		must(t, w.Refund(t.Context(), history[0].ID, ann()))
		same(t, "wait for the newest but one", w.peek(sliding(Recipient, 1, time.Hour)).RetryAfter(), time.Hour-time.Millisecond)
		same(t, "repeated", w.takeID(history[1].ID, sliding(Recipient, 1, time.Hour)).Admitted, true)
	})
}
