package audit

import (
	"time"

	"github.com/google/uuid"

	"sendcode/quota"
)

// ReasonRejected is the reason of a failed send that the mail server or the carrier refused for good, ReasonPaused that of
// one whose channel or purpose is paused. Such sends, and those to who is suppressed, give their places back, so they are
// bounded by themselves: Begin counts those of a recipient whatever their purpose (QUOTA-15).
const (
	ReasonRejected = "rejected"
	ReasonPaused   = "paused"
)

// Failure says that a send which failed for this reason counts as one that was rejected.
func Failure(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonPaused
}

// rejection is a send that was rejected. Its age is by the log's clock, which is the one that saw it end.
type rejection struct {
	id uuid.UUID
	at time.Time
}

// rejected are the rejections that the intent's rule counts at now, oldest first, each its age before the instant of the
// intent. One after now counts, as after every step back of the clock.
func rejected(in Intent, now time.Time, rows []rejection) []quota.Event {
	at := instant(in, now)
	var events []quota.Event
	for _, r := range rows {
		if age := now.Sub(r.at); age < in.Rejections.Window {
			events = append(events, quota.Event{ID: string(r.id[:]), At: at.Add(-age)})
		}
	}
	return ordered(events)
}

// bears says whether the rule on rejections has a place left.
func bears(in Intent, events []quota.Event) bool {
	return in.Rejections.Limit == 0 || len(events) < in.Rejections.Limit
}

// since are the rejections less than within ago as events.
func since(rows []rejection, now time.Time, within time.Duration) (events []quota.Event) {
	for _, r := range rows {
		if now.Sub(r.at) < within.Truncate(time.Microsecond) {
			events = append(events, quota.Event{ID: string(r.id[:]), At: r.at})
		}
	}
	return ordered(events)
}

// ended is a rejected send as a limiter counts it: from its end, on the log's clock.
func ended(s Send) Counting {
	return Counting{
		App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock,
		Event: quota.Event{ID: string(s.ID[:]), At: s.FinishedAt},
	}
}

func tellAll(rows []Counting, yield func(Counting) error) error {
	for _, c := range rows {
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}
