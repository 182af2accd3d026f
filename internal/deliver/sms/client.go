package sms

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/exchange"
)

// Client makes the requests of one carrier.
type Client struct {
	Setup
	exchange.Client
}

// NewClient makes the client of a carrier, which embeds it.
func NewClient(s Setup) *Client {
	return &Client{s, exchange.Client{Timeout: s.Timeout}}
}

// Name implements Carrier.
func (x *Client) Name() string { return x.Setup.Name }

// Attempt makes one request to send a message. read takes from the response the carrier's ID of the
// message, the carrier's result code, and the failure, which is nil if the carrier accepted the
// message. The result has ID and code also if read returns a failure, and is empty if no whole
// response came.
func (x *Client) Attempt(ctx context.Context, r exchange.Request,
	read func(exchange.Response) (id, code string, fail *delivery.Error),
) (delivery.Result, *delivery.Error) {
	a, fail := x.Do(ctx, r)
	if fail != nil {
		return delivery.Result{}, fail
	}
	id, code, fail := read(a)
	return delivery.Result{CarrierID: exchange.SafeIDOrEmpty(id), ReplyCodes: delivery.FormatReplyCodes(a.Status, exchange.SafeErrorCode(code))},
		fail
}

// noteEndpointProblem sets wrong["endpoint"] if an endpoint is given and there is a problem with it.
func noteEndpointProblem(wrong map[string]error, endpoint string) {
	if problem := loopback.URLProblem(endpoint); endpoint != "" && problem != "" {
		wrong["endpoint"] = errors.New(problem)
	}
}

// Meaning is what a carrier's code means for a message that was not accepted.
type Meaning struct {
	class     delivery.ErrorClass
	reason    string
	hold      time.Duration
	badNumber bool
	perNumber bool
	// this carrier cannot reach the number; another carrier may
	unreachable bool
}

// The meanings in the carriers' tables of codes; the package comment explains them.
var (
	MeaningRejected  = Meaning{class: delivery.Rejected}
	MeaningBadNumber = Meaning{class: delivery.Rejected, badNumber: true}
	MeaningTemporary = Meaning{class: delivery.Temporary}
	MeaningPerNumber = Meaning{class: delivery.Temporary, perNumber: true}
	MeaningUnknown   = Meaning{class: delivery.Unknown}
	MeaningOptedOut  = Meaning{class: delivery.Rejected, reason: ReasonOptedOut, badNumber: true}
	// MeaningUnreachable: this carrier cannot reach the number, for example because it has no WhatsApp.
	MeaningUnreachable = Meaning{class: delivery.Rejected, unreachable: true}
)

// MeaningLimited returns the meaning that the carrier takes no messages for this recipient until
// hold is over.
func MeaningLimited(hold time.Duration) Meaning {
	return Meaning{class: delivery.Rejected, reason: ReasonCarrierLimit, hold: hold}
}

// errorByCode returns the error of a message that was not accepted, by its code in the table. The
// meaning is MeaningUnknown if the status is 5xx other than 503, else MeaningPerNumber for any other code.
func errorByCode(a exchange.Response, code string, table map[string]Meaning) *delivery.Error {
	v, known := table[code]
	if !known {
		family, _, _ := strings.Cut(code, ".")
		v, known = table[family]
	}
	switch {
	case a.Status >= 500 && a.Status != http.StatusServiceUnavailable:
		v = MeaningUnknown
	case !known:
		v = MeaningPerNumber
	}
	return v.ToError(a, code)
}

// ToError returns the error of a message with this meaning. A Temporary error has the wait that the
// answer asks for, and is not PerNumber if the status shows that the failure is about our account or the
// carrier.
func (v Meaning) ToError(a exchange.Response, code string) *delivery.Error {
	e := &delivery.Error{
		Class: v.class, Stage: delivery.StageAnswer, Status: a.Status, Code: exchange.SafeErrorCode(code),
		Reason: v.reason, Hold: v.hold, BadNumber: v.badNumber, Unreachable: v.unreachable,
	}
	if v.class == delivery.Temporary {
		e.RetryAfter = exchange.RetryAfter(a)
		e.PerNumber = v.perNumber && a.Status < 500 && !slices.Contains(accountRefusalStatuses, a.Status)
	}
	return e
}

// accountRefusalStatuses are the HTTP statuses that refuse all our requests, and not one number.
var accountRefusalStatuses = []int{
	http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
	http.StatusProxyAuthRequired, http.StatusTooManyRequests,
}
