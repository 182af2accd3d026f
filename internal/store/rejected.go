package store

import "sendcode/quota"

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

// Ended is a rejected send as a limiter counts it: from its end, on the log's clock.
func Ended(s Send) CountedSend {
	return CountedSend{
		App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock,
		Event: quota.Event{ID: string(s.ID[:]), At: s.FinishedAt},
	}
}

// YieldAll calls yield for each row until one fails.
func YieldAll(rows []CountedSend, yield func(CountedSend) error) error {
	for _, c := range rows {
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}
