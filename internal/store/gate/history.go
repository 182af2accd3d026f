package gate

import (
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Before places the rows as a gate does that decides at an instant of a clock.
func Before(rows []CountedSend, within time.Duration, clock string, at, now time.Time) []quota.Event {
	in := store.Intent{Rules: []quota.Rule{{Window: within.Truncate(time.Microsecond)}}, Send: store.Send{Clock: clock, TakenAt: at}}
	events := history(in, now, rows)
	shift := taken(in, now).Sub(instant(in, now))
	for i := range events {
		events[i].At = events[i].At.Add(shift)
	}
	return events
}
