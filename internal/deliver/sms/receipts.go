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

type IncomingRequest struct {
	URL    string // as the carrier called it: the public scheme and host of the service, with path and query
	Header http.Header
	Body   []byte
}

// Report is a carrier's final report on one send. States on the way, such as "queued", give no
// Report.
type Report struct {
	Send      string // the send's ID; empty: the report has only CarrierID
	Delivered bool   // false: the message certainly did not arrive
	CarrierID string // if Send is empty
}

var (
	ErrForged           = errors.New("sms: the signature of a receipt is wrong")
	ErrUnreadableReport = errors.New("sms: a receipt can't be read")
)

// ReportParser returns the carrier with this name, if it sends receipts.
func (c *Carriers) ReportParser(name string) (ReportParser, bool) {
	reporter, ok := c.routeByName(name).Carrier.(ReportParser)
	return reporter, ok
}

type StatusQuery struct {
	Send      string    // the send's ID
	CarrierID string    // from the answer to Send
	To        string    // E.164
	Country   string    // of the number
	At        time.Time // when the message was handed over
}

// Poller returns the carrier with this name, if it is polled.
func (c *Carriers) Poller(name string) (Poller, bool) {
	r := c.routeByName(name)
	poller, ok := r.Carrier.(Poller)
	return poller, ok && r.Polled
}

// ReportsUseCarrierID reports whether the carrier's receipts name messages by the carrier's own
// IDs. It returns false if CallbackURL is nil.
func (c *Carriers) ReportsUseCarrierID(name string) bool {
	reporter, ok := c.routeByName(name).Carrier.(carrierIDReporter)
	return ok && reporter.ReportsUseCarrierID() && c.CallbackURL != nil
}

// Query makes a request. A status other than 200 is a Temporary error.
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

// StatusQueryError is the error for an answer that can't be read or refuses a StatusQuery.
func StatusQueryError(a providerhttp.Response, code string) error {
	return &delivery.Error{
		Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: a.Status,
		Code: providerhttp.SafeErrorCode(code), Err: providerhttp.ErrUnreadableAnswer,
	}
}

// ReportByStatus returns the report for a carrier's status word, or false if the word is in neither
// list: such a status isn't final.
func ReportByStatus(send, word string, delivered, undelivered []string) (Report, bool) {
	switch {
	case slices.Contains(delivered, word):
		return Report{Send: send, Delivered: true}, true
	case slices.Contains(undelivered, word):
		return Report{Send: send}, true
	}
	return Report{}, false
}
