package sms

import (
	"net/http"
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

// ByCode is the error of a message that was not accepted: the table's word for a code, else temporary, unless the server broke.
func ByCode(a Response, code string, table map[string]Verdict) *Error {
	v, known := table[code]
	switch {
	case known:
	case a.Status >= 500 && a.Status != http.StatusServiceUnavailable:
		v = Doubtful
	default:
		v = Later
	}
	return v.Fail(a, code)
}

// Fail is the error of a verdict; a temporary one waits as long as the answer asks.
func (v Verdict) Fail(a Response, code string) *Error {
	e := &Error{Class: v.class, Stage: StageAnswer, Status: a.Status, Code: SafeCode(code), Reason: v.reason, Hold: v.hold}
	if v.class == delivery.Temporary {
		e.RetryAfter = retryAfter(a.header)
	}
	return e
}
