package sms

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// IncomingRequest is a carrier's request with receipts.
type IncomingRequest struct {
	URL    string // the URL that the carrier called: the public scheme and host of the service, with path and query
	Header http.Header
	Body   []byte
}

// Report is a carrier's final report on one send. A report of an intermediate state, such as
// "queued", does not become a Report.
type Report struct {
	Send      string // ID of the send; empty: the report has only CarrierID
	Delivered bool   // false: the message certainly did not arrive
	CarrierID string // the carrier's ID of the message, if Send is empty
}

var (
	// ErrForged: the signature of a receipt is not the carrier's.
	ErrForged = errors.New("sms: the signature of a receipt is wrong")
	// ErrUnreadableReport: a receipt can't be read.
	ErrUnreadableReport = errors.New("sms: a receipt can't be read")
)

// ReportParser returns the carrier with this name. The result is false if the carrier sends no
// receipts or does not exist.
func (c *Carriers) ReportParser(name string) (ReportParser, bool) {
	reporter, ok := c.routeByName(name).Carrier.(ReportParser)
	return reporter, ok
}

// StatusQuery names the message of a poll.
type StatusQuery struct {
	Send      string    // ID of the send
	CarrierID string    // the carrier's ID of the message, from its answer to Send
	To        string    // the number, E.164
	Country   string    // its region
	At        time.Time // when it was handed over
}

// Poller returns the carrier with this name. The result is false if the carrier is not polled or
// does not exist.
func (c *Carriers) Poller(name string) (Poller, bool) {
	r := c.routeByName(name)
	poller, ok := r.Carrier.(Poller)
	return poller, ok && r.Polled
}

// ReportsUseCarrierID reports whether the named carrier sends receipts that identify messages by
// the carrier's own IDs.
func (c *Carriers) ReportsUseCarrierID(name string) bool {
	reporter, ok := c.routeByName(name).Carrier.(carrierIDReporter)
	return ok && reporter.ReportsUseCarrierID() && c.CallbackURL != nil
}

// Query makes a request and returns the response. A status other than 200 is a Temporary error.
func (c *Client) Query(ctx context.Context, r providerhttp.Request) (providerhttp.Response, error) {
	a, fail := c.Do(ctx, r)
	switch {
	case fail != nil:
		return a, fail
	case a.Status != http.StatusOK:
		return a, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: a.Status,
			RetryAfter: providerhttp.RetryAfter(a),
		}
	}
	return a, nil
}

// StatusQueryError returns the error for an answer that cannot be read or that refuses a
// StatusQuery.
func StatusQueryError(a providerhttp.Response, code string) error {
	return &delivery.Error{
		Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: a.Status,
		Code: providerhttp.SafeErrorCode(code), Err: providerhttp.ErrUnreadableAnswer,
	}
}

// ReportByStatus returns the report for a carrier's status word. It returns false if the word is in
// neither list, since such a status is not final.
func ReportByStatus(send, word string, delivered, undelivered []string) (Report, bool) {
	switch {
	case slices.Contains(delivered, word):
		return Report{Send: send, Delivered: true}, true
	case slices.Contains(undelivered, word):
		return Report{Send: send}, true
	}
	return Report{}, false
}
