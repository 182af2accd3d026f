package quota

import (
	"testing"
	"time"
)

// limited is a policy whose failures are bounded.
func limited(failures int) []Rule {
	return []Rule{sliding(Recipient, 100, time.Minute), {Name: "failures", Scope: Failures, Limit: failures, Window: time.Hour}}
}

func (w *world) takeFrom(id string, rules []Rule) Decision {
	w.t.Helper()
	d, err := w.Take(w.t.Context(), Request{ID: id, Rules: rules, Buckets: w.failing()})
	must(w.t, err)
	return d
}

func (w *world) failing() map[Scope]string {
	return map[Scope]string{Recipient: ann(), Failures: Bucket("failures", "ann")}
}

func (w *world) fail(id string) {
	w.t.Helper()
	must(w.t, w.Record(w.t.Context(), w.failing()[Failures], time.Hour, []Event{{ID: id, At: w.now}}))
}

func TestQuota15FailuresAreLookedAtAndComeByRecord(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := limited(2)
		for range 5 {
			d := w.takeFrom(w.id(), rules)
			same(t, "admitted", d.Admitted, true)
			same(t, "failures after a take", d.Rules[1].Used, 0)
			same(t, "told while it does not block", len(d.Public().Rules), 1)
		}
		w.fail("one")
		w.pass(time.Minute)
		same(t, "one failure of two", w.takeFrom(w.id(), rules).Admitted, true)
		w.fail("two")
		w.fail("two") // told again
		d := w.takeFrom(w.id(), rules)
		same(t, "admitted at the limit", d.Admitted, false)
		sameList(t, "violated", d.Violated(), []string{"failures"})
		same(t, "wait", d.RetryAfter(), 59*time.Minute)
		same(t, "failures", d.Rules[1].Used, 2)
		same(t, "nothing is spent", d.Rules[0].Used, 1)
		same(t, "told while it blocks", len(d.Public().Rules), 2)
		same(t, "allowed", d.Public().Allowed(), false)
		w.pass(59*time.Minute - µs)
		same(t, "1 µs before the first leaves", w.takeFrom(w.id(), rules).Admitted, false)
		w.pass(µs)
		same(t, "when it has left", w.takeFrom(w.id(), rules).Admitted, true)
	})
}

// The ID of the request means nothing to a bucket that is only looked at, whatever stands there under it.
func TestQuota15AFailureNeitherHoldsNorBarsItsOwnID(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := limited(1)
		w.fail("one")
		same(t, "admitted by its own failure", w.takeFrom("one", rules).Admitted, false)
		must(t, w.Refund(t.Context(), "one", w.failing()[Failures]))
		d := w.takeFrom("one", rules)
		same(t, "admitted where only the failure was refunded", d.Admitted, true)
		sameList(t, "used", []int{d.Rules[0].Used, d.Rules[1].Used}, []int{1, 0})
		w.fail("two")
		again := w.takeFrom("one", rules) // a repeated take is refused as any other: it has not gone out
		same(t, "admitted again", again.Admitted, false)
		same(t, "its place", again.Rules[0].Used, 1)
	})
}

func TestQuota15ObservedFailures(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := limited(1)
		rules[1] = observing(rules[1])
		sameList(t, "observed without one", w.takeFrom(w.id(), rules).Observed(), nil)
		w.fail("one")
		d := w.takeFrom(w.id(), rules)
		same(t, "admitted", d.Admitted, true)
		sameList(t, "observed with one", d.Observed(), []string{"failures"})
		same(t, "told", len(d.Public().Rules), 1)
	})
}

// Failures alone can be asked for; nothing is written then.
func TestQuota15OnlyFailures(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := limited(1)[1:]
		same(t, "admitted", w.takeFrom("one", rules).Admitted, true)
		same(t, "and again", w.takeFrom("one", rules).Admitted, true)
		w.fail("x")
		same(t, "at the limit", w.takeFrom("two", rules).Admitted, false)
	})
}

// A bucket that no Take counts in forgets by Record.
func TestRecordForgetsWhatCountsNoMore(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for range 10 {
			w.fail(w.id())
			w.pass(20 * time.Minute)
		}
		held, limiter := 0, w.Limiter
		if m, ok := limiter.(*Remembering); ok {
			limiter = m.behind
		}
		switch l := limiter.(type) {
		case *Memory:
			held = len(l.find(w.failing()[Failures], w.now.UnixMicro()).ids)
		case *Redis:
			n, err := l.client.ZCard(t.Context(), l.Key(w.failing()[Failures])).Result()
			must(t, err)
			held = int(n)
		}
		same(t, "events kept", held, 3)
	})
}
