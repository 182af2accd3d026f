package quota

import (
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
