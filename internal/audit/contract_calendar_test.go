package audit

import (
	"testing"
	"time"

	"sendcode/quota"
)

// Shanghai's day turns at 16:00 UTC: four hours after epoch, less the part of a second that epoch has.
var (
	today     = []quota.Rule{{Name: "today", Scope: quota.Recipient, Limit: 2, Per: quota.Day, Zone: time.FixedZone("Shanghai", 8*3600)}}
	toTheTurn = 4*time.Hour - 123457*time.Microsecond
)

// The period is that of the intent's instant, on the clock of the limiter that let it in: the log's, days ahead, says
// nothing.
func calendarOnTheLimitersClock(t *testing.T, f *fixture) {
	last := -100 * time.Hour
	begun := func(at time.Duration) Begun {
		f.pass(at - last)
		last = at
		return f.begin(t, f.intent(1, takenAt("redis", epoch.Add(at)), withRules(today)))
	}
	turn := toTheTurn
	for _, s := range []struct {
		at   time.Duration
		want bool
	}{
		{turn - time.Hour, true}, {turn - 2, true}, {turn - time.Microsecond, false},
		{turn, true}, {turn + time.Microsecond, true}, {turn + time.Hour, false}, {turn + 24*time.Hour - time.Microsecond, false},
		{turn + 24*time.Hour, true},
		{turn + 23*time.Hour, false}, // the clock went back: what the day after took counts as well
	} {
		equal(t, s.at.String(), begun(s.at.Truncate(time.Microsecond)).Admitted, s.want)
	}
	got := begun(turn + 25*time.Hour)
	equal(t, "another on the new day", got.Admitted, true)
	got = begun(turn + 26*time.Hour)
	d := quota.Evaluate(today, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	equal(t, "wait", d.RetryAfter(), 22*time.Hour)
}

// Where no limiter let it in, the log's own clock turns the day, at whatever time it was seen last.
func calendarOnTheLogsClock(t *testing.T, f *fixture) {
	begun := func() Begun { return f.begin(t, f.intent(1, withRules(today))) }
	equal(t, "first", begun().Admitted, true)
	f.pass(toTheTurn - time.Microsecond)
	equal(t, "second, 1 µs before the turn", begun().Admitted, true)
	got := begun()
	equal(t, "third", got.Admitted, false)
	d := quota.Evaluate(today, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	equal(t, "wait", d.RetryAfter(), time.Microsecond)
	f.pass(time.Microsecond)
	equal(t, "first of the new day", begun().Admitted, true)
	equal(t, "second", begun().Admitted, true)
	equal(t, "third", begun().Admitted, false)
	f.pass(-time.Microsecond) // and the day before stays spent
	equal(t, "after a step back", begun().Admitted, false)
	f.pass(100 * 24 * time.Hour)
	equal(t, "months later", begun().Admitted, true)
	f.pass(-10 * 24 * time.Hour)
	equal(t, "10 days back, with one still to come", begun().Admitted, true)
	equal(t, "and again", begun().Admitted, false)
}

// A replica that has not seen the log's clock for days finds the day all the same.
func calendarAfterAWhile(t *testing.T, f *fixture) {
	begun := func(log Store) bool {
		begun, err := log.Begin(t.Context(), f.intent(1, withRules(today)))
		ok(t, err)
		return begun.Admitted
	}
	equal(t, "here", begun(f.Store), true)
	f.pass(toTheTurn + 23*time.Hour)
	equal(t, "there, the day after", begun(f.replica), true)
	equal(t, "and again", begun(f.replica), true)
	f.pass(time.Hour)
	equal(t, "here, on the third day", begun(f.Store), true)
	equal(t, "and again", begun(f.Store), true)
	equal(t, "once more", begun(f.Store), false)
}
