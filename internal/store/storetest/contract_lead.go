package storetest

import (
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// told is the wait that a refusal comes to.
func told(begun store.Begun, rules []quota.Rule) time.Duration {
	return quota.Evaluate(rules, map[quota.Scope][]quota.Event{quota.Recipient: begun.History}, begun.Now).RetryAfter()
}

// limiterSetAhead: the limiter's clock jumps by 5 s between two sends. The log lets it run ahead by one of them, and its
// refusal tells how long the others take.
func limiterSetAhead(t *testing.T, f *Fixture) {
	for n, window := range []time.Duration{time.Minute, time.Hour} {
		rules := Rule(1, window)
		begun := func(at time.Duration) store.Begun {
			return f.MustBegin(t, f.Intent(n, TakenAt("redis", Epoch.Add(at)), WithRules(rules)))
		}
		Equal(t, "first", begun(0).Admitted, true)
		f.Pass(window - 5*time.Second)
		got := begun(window)
		Equal(t, "after the jump", got.Admitted, false)
		Equal(t, "wait", told(got, rules), 4*time.Second)
		f.Pass(4*time.Second - time.Microsecond)
		got = begun(window + 4*time.Second - time.Microsecond)
		Equal(t, "1 µs before the end of the wait", got.Admitted, false)
		Equal(t, "wait", told(got, rules), time.Microsecond)
		f.Pass(time.Microsecond)
		Equal(t, "as told", begun(window+4*time.Second).Admitted, true)
		f.Pass(window)
		Equal(t, "one window later on both clocks", begun(2*window+4*time.Second).Admitted, true)
	}
}

// slowWayToTheLog: a send may have taken up to a second longer to the log than the one after it. Its recipient, told to
// wait by the limiter, is let in all the same; after a still slower way the refusal tells what is left.
func slowWayToTheLog(t *testing.T, f *Fixture) {
	rules := Rule(1, time.Minute)
	for n, c := range []struct{ slow, wait time.Duration }{
		{0, 0}, {time.Second, 0}, {time.Second + time.Microsecond, time.Microsecond}, {4 * time.Second, 3 * time.Second},
	} {
		at := f.Now
		f.Pass(c.slow)
		f.Admit(t, f.Intent(n, TakenAt("redis", at), WithRules(rules)))
		f.Pass(time.Minute - c.slow)
		got := f.MustBegin(t, f.Intent(n, TakenAt("redis", at.Add(time.Minute)), WithRules(rules)))
		Equal(t, "admitted", got.Admitted, c.wait == 0)
		Equal(t, "wait", told(got, rules), c.wait)
	}
}

// limiterAheadOverTheTurn: the limiter is in the next day already. The log's day ends a second early at most.
func limiterAheadOverTheTurn(t *testing.T, f *Fixture) {
	begun := func(ahead time.Duration) store.Begun {
		return f.MustBegin(t, f.Intent(1, TakenAt("redis", f.Now.Add(ahead)), WithRules(today)))
	}
	Equal(t, "first", begun(0).Admitted, true)
	Equal(t, "second", begun(0).Admitted, true)
	f.Pass(toTheTurn - 5*time.Second)
	for _, ahead := range []time.Duration{5 * time.Second, time.Hour, 400 * 24 * time.Hour} {
		got := begun(ahead)
		Equal(t, ahead.String(), got.Admitted, false)
		Equal(t, "wait", told(got, today), 4*time.Second)
	}
	f.Pass(4*time.Second - time.Microsecond)
	got := begun(5 * time.Second)
	Equal(t, "1 µs before the end of the wait", got.Admitted, false)
	Equal(t, "wait", told(got, today), time.Microsecond)
	f.Pass(time.Microsecond)
	Equal(t, "as told", begun(5*time.Second).Admitted, true)
	f.Pass(time.Second)
	Equal(t, "second of the new day", begun(5*time.Second).Admitted, true)
	got = begun(5 * time.Second)
	Equal(t, "third of the new day", got.Admitted, false)
	Equal(t, "wait", told(got, today), 24*time.Hour-time.Second)
}

// limiterAlwaysAhead: how far two clocks are apart matters to no window, only how fast they go.
func limiterAlwaysAhead(t *testing.T, f *Fixture) {
	rules := Rule(1, time.Minute)
	for n, offset := range []time.Duration{-time.Hour, time.Hour, 1000 * time.Hour} {
		for range 2 {
			f.Admit(t, f.Intent(n, TakenAt("redis", f.Now.Add(offset)), WithRules(rules)))
			f.Pass(time.Minute - time.Microsecond)
			got := f.Refuse(t, f.Intent(n, TakenAt("redis", f.Now.Add(offset)), WithRules(rules)))
			Equal(t, "wait", told(got, rules), time.Microsecond)
			f.Pass(time.Microsecond)
		}
	}
}
