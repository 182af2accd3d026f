package audit

import (
	"testing"
	"time"

	"sendcode/quota"
)

// told is the wait that a refusal comes to.
func told(begun Begun, rules []quota.Rule) time.Duration {
	return quota.Evaluate(rules, map[quota.Scope][]quota.Event{quota.Recipient: begun.History}, begun.Now).RetryAfter()
}

// limiterSetAhead: the limiter's clock jumps by 5 s between two sends. The log lets it run ahead by one of them, and its
// refusal tells how long the others take.
func limiterSetAhead(t *testing.T, f *fixture) {
	for n, window := range []time.Duration{time.Minute, time.Hour} {
		rules := rule(1, window)
		begun := func(at time.Duration) Begun {
			return f.begin(t, f.intent(n, takenAt("redis", epoch.Add(at)), withRules(rules)))
		}
		equal(t, "first", begun(0).Admitted, true)
		f.pass(window - 5*time.Second)
		got := begun(window)
		equal(t, "after the jump", got.Admitted, false)
		equal(t, "wait", told(got, rules), 4*time.Second)
		f.pass(4*time.Second - time.Microsecond)
		got = begun(window + 4*time.Second - time.Microsecond)
		equal(t, "1 µs before the end of the wait", got.Admitted, false)
		equal(t, "wait", told(got, rules), time.Microsecond)
		f.pass(time.Microsecond)
		equal(t, "as told", begun(window+4*time.Second).Admitted, true)
		f.pass(window)
		equal(t, "one window later on both clocks", begun(2*window+4*time.Second).Admitted, true)
	}
}

// slowWayToTheLog: a send may have taken up to a second longer to the log than the one after it. Its recipient, told to
// wait by the limiter, is let in all the same; after a still slower way the refusal tells what is left.
func slowWayToTheLog(t *testing.T, f *fixture) {
	rules := rule(1, time.Minute)
	for n, c := range []struct{ slow, wait time.Duration }{
		{0, 0}, {time.Second, 0}, {time.Second + time.Microsecond, time.Microsecond}, {4 * time.Second, 3 * time.Second},
	} {
		at := f.now
		f.pass(c.slow)
		f.admit(t, f.intent(n, takenAt("redis", at), withRules(rules)))
		f.pass(time.Minute - c.slow)
		got := f.begin(t, f.intent(n, takenAt("redis", at.Add(time.Minute)), withRules(rules)))
		equal(t, "admitted", got.Admitted, c.wait == 0)
		equal(t, "wait", told(got, rules), c.wait)
	}
}

// limiterAheadOverTheTurn: the limiter is in the next day already. The log's day ends a second early at most.
func limiterAheadOverTheTurn(t *testing.T, f *fixture) {
	begun := func(ahead time.Duration) Begun {
		return f.begin(t, f.intent(1, takenAt("redis", f.now.Add(ahead)), withRules(today)))
	}
	equal(t, "first", begun(0).Admitted, true)
	equal(t, "second", begun(0).Admitted, true)
	f.pass(toTheTurn - 5*time.Second)
	for _, ahead := range []time.Duration{5 * time.Second, time.Hour, 400 * 24 * time.Hour} {
		got := begun(ahead)
		equal(t, ahead.String(), got.Admitted, false)
		equal(t, "wait", told(got, today), 4*time.Second)
	}
	f.pass(4*time.Second - time.Microsecond)
	got := begun(5 * time.Second)
	equal(t, "1 µs before the end of the wait", got.Admitted, false)
	equal(t, "wait", told(got, today), time.Microsecond)
	f.pass(time.Microsecond)
	equal(t, "as told", begun(5*time.Second).Admitted, true)
	f.pass(time.Second)
	equal(t, "second of the new day", begun(5*time.Second).Admitted, true)
	got = begun(5 * time.Second)
	equal(t, "third of the new day", got.Admitted, false)
	equal(t, "wait", told(got, today), 24*time.Hour-time.Second)
}

// limiterAlwaysAhead: how far two clocks are apart matters to no window, only how fast they go.
func limiterAlwaysAhead(t *testing.T, f *fixture) {
	rules := rule(1, time.Minute)
	for n, offset := range []time.Duration{-time.Hour, time.Hour, 1000 * time.Hour} {
		for range 2 {
			f.admit(t, f.intent(n, takenAt("redis", f.now.Add(offset)), withRules(rules)))
			f.pass(time.Minute - time.Microsecond)
			got := f.refuse(t, f.intent(n, takenAt("redis", f.now.Add(offset)), withRules(rules)))
			equal(t, "wait", told(got, rules), time.Microsecond)
			f.pass(time.Microsecond)
		}
	}
}
