package sms

import (
	"net/http"
	"time"

	"sendcode/internal/delivery"
)

// Verdict is the meaning of a carrier's code for a message that was not accepted.
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

// Limited returns the verdict that a carrier takes no more for this recipient for a while.
func Limited(hold time.Duration) Verdict {
	return Verdict{class: delivery.Rejected, reason: ReasonLimit, hold: hold}
}

// ByCode returns the error of a message that was not accepted. A code that is not in the table is Temporary, or Unknown if the server
// failed.
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

// Fail returns the error of a verdict. A temporary one has the wait that the answer asks for.
func (v Verdict) Fail(a Response, code string) *Error {
	e := &Error{Class: v.class, Stage: StageAnswer, Status: a.Status, Code: SafeCode(code), Reason: v.reason, Hold: v.hold}
	if v.class == delivery.Temporary {
		e.RetryAfter = retryAfter(a.header)
	}
	return e
}
