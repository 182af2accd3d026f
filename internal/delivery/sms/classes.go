package sms

import (
	"time"

	"sendcode/internal/delivery"
)

// verdict is what a carrier's code says of a message that it did not accept.
type verdict struct {
	class  delivery.Class
	reason string
	hold   time.Duration
}

// The verdicts of the tables.
var (
	refused  = verdict{class: delivery.Rejected}
	later    = verdict{class: delivery.Temporary}
	doubtful = verdict{class: delivery.Unknown}
	optedOut = verdict{class: delivery.Rejected, reason: ReasonOptOut}
)

// limited is a carrier's limit for one recipient.
func limited(hold time.Duration) verdict {
	return verdict{class: delivery.Rejected, reason: ReasonLimit, hold: hold}
}

// fail is the error of a verdict; a temporary one waits as long as the answer asks.
func (v verdict) fail(a answer, code string) *Error {
	e := &Error{Class: v.class, Stage: StageAnswer, Status: a.status, Code: asCode(code), Reason: v.reason, Hold: v.hold}
	if v.class == delivery.Temporary {
		e.RetryAfter = retryAfter(a.header)
	}
	return e
}
