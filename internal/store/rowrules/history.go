package rowrules

import (
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

type HistoryQuery struct {
	store.SendBucket
	CountedWithin  time.Duration // largest age of the bucket's counted sends; 0: none are read
	RejectedWithin time.Duration // longest time since the end of rejected sends; 0: none are read
}

// History is a recipient's rows at an instant, read without a lock: another send may follow at
// once.
type History struct {
	Past       []PastSend // counted sends of the bucket
	Rejections []PastSend // rejected sends of the recipient, for all purposes
	Now        time.Time  // on the database's clock
}

// Sends returns the counted sends younger than within, oldest first. The database would decide a
// send that began now by the same events.
func (h History) Sends(within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, h.Past)
}

// SendsOfVerifications is Sends for the verifications with these IDs.
func (h History) SendsOfVerifications(verifications []string, within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, slices.DeleteFunc(slices.Clone(h.Past),
		func(p PastSend) bool { return !slices.Contains(verifications, p.Verification) }))
}

// RejectedSends returns the rejected sends that ended less than within ago, oldest first.
func (h History) RejectedSends(within time.Duration) []quota.Event {
	return eventsWithin(within, h.Now, h.Rejections)
}
