package rowrules

import (
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// HistoryQuery selects the rows of a History.
type HistoryQuery struct {
	store.SendBucket
	CountedWithin  time.Duration // largest age of the bucket's counted sends; 0: none are read
	RejectedWithin time.Duration // rejected sends that ended at most this long ago are read; 0: none
}

// History has a recipient's rows at an instant. It is read without a lock, so another send may be
// added just afterwards.
type History struct {
	Past       []PastSend // the bucket's counted sends
	Rejections []PastSend // the recipient's rejected sends, of all purposes
	Now        time.Time  // on the database's clock
}

// Sends returns the counted sends whose age is less than the parameter within. It returns them as
// events, oldest first. The database decides by the same events, so they show how it would decide a
// send that began now.
func (h History) Sends(within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, h.Past)
}

// SendsOfVerifications is Sends, but only for sends of the given verifications (IDs).
func (h History) SendsOfVerifications(verifications []string, within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, slices.DeleteFunc(slices.Clone(h.Past),
		func(p PastSend) bool { return !slices.Contains(verifications, p.Verification) }))
}

// RejectedSends returns rejected sends as events, oldest first. The time since the end of these
// sends is less than the parameter within.
func (h History) RejectedSends(within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, h.Rejections)
}
