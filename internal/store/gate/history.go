package gate

import (
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// HistoryQuery selects the rows of a History.
type HistoryQuery struct {
	store.Bucket
	Counting time.Duration // largest age of the bucket's counted sends, on the database's clock; 0: none are read
	Rejected time.Duration // largest time since the end of the recipient's rejected sends; 0: none are read
}

// History has a recipient's rows at an instant. It is read without a lock, so a Begin may add a
// send right after it.
type History struct {
	Past       []PastSend // the bucket's counted sends
	Rejections []PastSend // the recipient's rejected sends, of all purposes
	Now        time.Time  // on the database's clock
}

// AfterDelay returns the history at an instant after h.Now, if no row has changed since.
func (h History) AfterDelay(by time.Duration) History {
	h.Now = h.Now.Add(by)
	return h
}

// Sends returns the counted sends younger than within as events, oldest first, as a Begin would see
// them; see EventsOnClock.
func (h History) Sends(within time.Duration, clock string, at time.Time) []quota.Event {
	return EventsOnClock(h.Past, within, clock, at, h.Now)
}

// SendsOfVerifications is Sends, for sends of the given verifications (IDs) alone.
func (h History) SendsOfVerifications(verifications []string, within time.Duration, clock string, at time.Time) []quota.Event {
	rows := slices.DeleteFunc(slices.Clone(h.Past),
		func(p PastSend) bool { return !slices.Contains(verifications, p.Verification) })
	return EventsOnClock(rows, within, clock, at, h.Now)
}

// AllTakenOnClock reports whether each of the events, which Sends returned for a clock, has the
// instant at which that clock's limiter took it.
func (h History) AllTakenOnClock(clock string, events []quota.Event) bool {
	taken := map[string]time.Time{}
	for _, p := range h.Past {
		if p.Clock == clock {
			taken[string(p.ID[:])] = p.TakenAt
		}
	}
	return !slices.ContainsFunc(events, func(e quota.Event) bool { return !taken[e.ID].Equal(e.At) })
}

// RejectedSends returns the rejected sends that ended less than within ago as events, oldest first.
// An event's instant is the send's end, on the database's clock.
func (h History) RejectedSends(within time.Duration) []quota.Event {
	return EventsOnClock(h.Rejections, within, store.DatabaseClock, time.Time{}, h.Now)
}
