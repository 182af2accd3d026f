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
		begun := Must(log.Begin(t.Context(), f.Intent(1, WithRules(today))))(t)
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
