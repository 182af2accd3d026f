package quota

import (
	"errors"
	"sync"
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

func observing(r Rule) Rule {
	r.Observe = true
	return r
}

func TestAnObservingRuleCountsAndNeverRefuses(t *testing.T) {
	for name, rule := range map[string]Rule{
		"sliding":  sliding(Recipient, 2, time.Hour),
		"calendar": {Name: "recipient", Scope: Recipient, Limit: 2, Per: Month},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world) {
				watch := observing(rule)
				for i, want := range [][]string{nil, nil, {"recipient"}, {"recipient"}} {
					d := w.admits(true, watch)
					sameList(t, "observed", d.Observed(), want)
					same(t, "used", d.Rules[0].Used, i+1)
					same(t, "left", d.Rules[0].Remaining(), max(0, 1-i))
					same(t, "wait", d.RetryAfter(), 0)
					same(t, "allowed", d.Allowed(), true)
					sameList(t, "violated", d.Violated(), nil)
					w.pass(time.Second)
				}
				sameList(t, "observed by a look", w.peek(watch).Observed(), []string{"recipient"})
				d := w.admits(false, rule) // the same bucket, enforced: what was let in counts
				sameList(t, "observed where nothing observes", d.Observed(), nil)
				if len(d.Violated()) != 1 || d.Rules[0].RetryAfter != w.peek(watch).Rules[0].RetryAfter {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

func TestAnObservingRuleBesideEnforcedOnes(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{observing(sliding(IP, 1, time.Hour)), sliding(Recipient, 2, time.Minute), observing(sliding(Recipient, 5, time.Hour))}
		sameList(t, "observed at first", w.admits(true, rules...).Observed(), nil)
		sameList(t, "observed at the second", w.admits(true, rules...).Observed(), []string{"ip"})
		d := w.admits(false, rules...)
		sameList(t, "observed beside a refusal", d.Observed(), []string{"ip"})
		sameList(t, "violated", d.Violated(), []string{"recipient"})
		same(t, "wait: not the hour of the rule that observes", d.RetryAfter(), time.Minute)
		same(t, "a refusal counts nowhere", w.peek(rules...).Rules[0].Used, 2)
		worst, blocked := d.Blocking()
		if !blocked || worst.Scope != Recipient {
			t.Errorf("blocked by %+v", worst)
		}
	})
}

func TestARepeatedTakeTellsTheSameObservations(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{observing(sliding(Recipient, 1, time.Hour)), observing(sliding(IP, 1, time.Hour))}
		for _, id := range []string{"one", "two"} {
			first := w.takeID(id, rules...)
			again := w.takeID(id, rules...)
			sameList(t, id+" again", again.Observed(), first.Observed())
			sameDecision(t, again, first)
		}
		sameList(t, "observed", w.takeID("two", rules...).Observed(), []string{"recipient", "ip"})
		must(t, w.Refund(t.Context(), "one", ann()))
		sameList(t, "one was given back", w.takeID("two", rules...).Observed(), []string{"ip"})
	})
}

func TestAnObservingRuleKeepsItsEvents(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		rules := []Rule{sliding(Recipient, 1, time.Second), observing(sliding(Recipient, 2, time.Hour))}
		w.admits(true, rules...)
		w.pass(time.Minute)
		w.admits(true, rules...)
		w.pass(time.Minute)
		sameList(t, "observed", w.admits(true, rules...).Observed(), []string{"recipient"})
	})
}

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
