package storetest

import (
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Shanghai's day turns at 16:00 UTC: four hours after epoch, less the part of a second that epoch has.
var (
	today     = []quota.Rule{{Name: "today", Scope: quota.Recipient, Limit: 2, Per: quota.Day, Zone: time.FixedZone("Shanghai", 8*3600)}}
	toTheTurn = 4*time.Hour - 123457*time.Microsecond
)

// The period is that of the intent's instant, on the clock of the limiter that let it in: the log's, days ahead, says
// nothing.
func calendarOnTheLimitersClock(t *testing.T, f *Fixture) {
	last := -100 * time.Hour
	begun := func(at time.Duration) store.Begun {
		f.Pass(at - last)
		last = at
		return f.MustBegin(t, f.Intent(1, TakenAt("redis", Epoch.Add(at)), WithRules(today)))
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
		Equal(t, s.at.String(), begun(s.at.Truncate(time.Microsecond)).Admitted, s.want)
	}
	got := begun(turn + 25*time.Hour)
	Equal(t, "another on the new day", got.Admitted, true)
	got = begun(turn + 26*time.Hour)
	d := quota.Evaluate(today, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	Equal(t, "wait", d.RetryAfter(), 22*time.Hour)
}

// Where no limiter let it in, the log's own clock turns the day, at whatever time it was seen last.
func calendarOnTheLogsClock(t *testing.T, f *Fixture) {
	begun := func() store.Begun { return f.MustBegin(t, f.Intent(1, WithRules(today))) }
	Equal(t, "first", begun().Admitted, true)
	f.Pass(toTheTurn - time.Microsecond)
	Equal(t, "second, 1 µs before the turn", begun().Admitted, true)
	got := begun()
	Equal(t, "third", got.Admitted, false)
	d := quota.Evaluate(today, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	Equal(t, "wait", d.RetryAfter(), time.Microsecond)
	f.Pass(time.Microsecond)
	Equal(t, "first of the new day", begun().Admitted, true)
	Equal(t, "second", begun().Admitted, true)
	Equal(t, "third", begun().Admitted, false)
	f.Pass(-time.Microsecond) // and the day before stays spent
	Equal(t, "after a step back", begun().Admitted, false)
	f.Pass(100 * 24 * time.Hour)
	Equal(t, "months later", begun().Admitted, true)
	f.Pass(-10 * 24 * time.Hour)
	Equal(t, "10 days back, with one still to come", begun().Admitted, true)
	Equal(t, "and again", begun().Admitted, false)
}

// A replica that has not seen the log's clock for days finds the day all the same.
func calendarAfterAWhile(t *testing.T, f *Fixture) {
	begun := func(log store.Store) bool {
		begun, err := log.Begin(t.Context(), f.Intent(1, WithRules(today)))
		OK(t, err)
		return begun.Admitted
	}
	Equal(t, "here", begun(f.Store), true)
	f.Pass(toTheTurn + 23*time.Hour)
	Equal(t, "there, the day after", begun(f.Replica), true)
	Equal(t, "and again", begun(f.Replica), true)
	f.Pass(time.Hour)
	Equal(t, "here, on the third day", begun(f.Store), true)
	Equal(t, "and again", begun(f.Store), true)
	Equal(t, "once more", begun(f.Store), false)
}

// Two on three dates of Shanghai, on either clock: those of one date leave together, and each is told when.
func byDates(t *testing.T, f *Fixture) {
	rules := []quota.Rule{{Name: "dates", Scope: quota.Recipient, Limit: 2, Days: 3, Zone: time.FixedZone("Shanghai", 8*3600)}}
	const day = 24 * time.Hour
	for n, clock := range []string{"redis", store.LogClock} {
		began := f.Now
		begun := func(at time.Duration) (admitted bool, wait time.Duration) {
			f.Pass(began.Add(at).Sub(f.Now))
			in := f.Intent(1+n, WithRules(rules))
			if clock != store.LogClock {
				in = f.Intent(1+n, TakenAt(clock, began.Add(at)), WithRules(rules))
			}
			got := f.MustBegin(t, in)
			d := quota.Evaluate(rules, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
			return got.Admitted, d.RetryAfter()
		}
		turn := toTheTurn // also 40 days later
		for _, s := range []struct {
			at       time.Duration
			admitted bool
			wait     time.Duration
		}{
			{turn - time.Microsecond, true, 0}, {turn, true, 0}, {turn + time.Hour, false, 2*day - time.Hour},
			{turn + 2*day - time.Microsecond, false, time.Microsecond}, {turn + 2*day, true, 0},
			{turn + 2*day + time.Hour, false, day - time.Hour}, {turn + 3*day, true, 0},
		} {
			admitted, wait := begun(s.at)
			Equal(t, clock+" "+s.at.String(), admitted, s.admitted)
			if !s.admitted {
				Equal(t, clock+" "+s.at.String()+": wait", wait, s.wait)
			}
		}
		f.Pass(began.Add(40 * day).Sub(f.Now))
	}
}
