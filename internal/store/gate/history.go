package gate

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// EventsBefore returns the rows as events, oldest first, as a gate sees them that decides at the instant `at` of the named clock: each
// lies its age before at. Rows older than within are left out.
func EventsBefore(rows []CountedSend, within time.Duration, clock string, at, now time.Time) []quota.Event {
	in := store.Intent{Rules: []quota.Rule{{Window: within.Truncate(time.Microsecond)}}, Send: store.Send{Clock: clock, TakenAt: at}}
	events := historyEvents(in, now, rows)
	shift := takenAt(in, now).Sub(decisionTime(in, now))
	for i := range events {
		events[i].At = events[i].At.Add(shift)
	}
	return events
}

// Rejection is a send that was rejected. At is by the log's clock.
type Rejection struct {
	ID uuid.UUID
	At time.Time
}

// rejectionEvents returns the rejections that the intent's rule counts at now, oldest first. Each event lies its age before the
// time at which the intent is decided. A rejection after now counts too; there are some if the clock went back.
func rejectionEvents(in store.Intent, now time.Time, rows []Rejection) []quota.Event {
	at := decisionTime(in, now)
	var events []quota.Event
	for _, r := range rows {
		if age := now.Sub(r.At); age < in.Rejections.Window {
			events = append(events, quota.Event{ID: string(r.ID[:]), At: at.Add(-age)})
		}
	}
	return sortEvents(events)
}

// rejectionsAdmit reports whether the rule on rejected sends has room for one more. Without a limit it always has.
func rejectionsAdmit(in store.Intent, events []quota.Event) bool {
	return in.Rejections.Limit == 0 || len(events) < in.Rejections.Limit
}

// RejectionsSince returns the rejections of the last `within` as events, oldest first.
func RejectionsSince(rows []Rejection, now time.Time, within time.Duration) (events []quota.Event) {
	for _, r := range rows {
		if now.Sub(r.At) < within.Truncate(time.Microsecond) {
			events = append(events, quota.Event{ID: string(r.ID[:]), At: r.At})
		}
	}
	return sortEvents(events)
}
