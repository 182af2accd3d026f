package sms

import (
	"time"

	"sendcode/internal/delivery"
)

// Verdict is what a carrier's code says of a message that it did not accept.
type Verdict struct {
	class  delivery.Class
	reason string
	hold   time.Duration
}

// The verdicts of the tables.
var (
	Refused  = Verdict{class: delivery.Rejected}
	Later    = Verdict{class: delivery.Temporary}
	Doubtful = Verdict{class: delivery.Unknown}
	OptedOut = Verdict{class: delivery.Rejected, reason: ReasonOptOut}
)

// Limited is a carrier's limit for one recipient.
func Limited(hold time.Duration) Verdict {
	return Verdict{class: delivery.Rejected, reason: ReasonLimit, hold: hold}
}

// Fail is the error of a verdict; a temporary one waits as long as the answer asks.
func (v Verdict) Fail(a Response, code string) *Error {
	e := &Error{Class: v.class, Stage: StageAnswer, Status: a.Status, Code: SafeCode(code), Reason: v.reason, Hold: v.hold}
	if v.class == delivery.Temporary {
		e.RetryAfter = retryAfter(a.header)
	}
	return e
}
