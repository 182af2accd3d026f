package quota

import (
	"testing"
	"time"
)

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
