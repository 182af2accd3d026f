package sms

import (
	"context"
	"errors"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Client makes the requests of one carrier.
type Client struct {
	Setup
	providerhttp.Client
}

// NewClient makes the client that a carrier embeds.
func NewClient(s Setup) *Client {
	return &Client{s, providerhttp.Client{Timeout: s.Timeout}}
}

// Name implements Carrier.
func (c *Client) Name() string { return c.Setup.Name }

// Attempt makes one request to send a message. The function read parses the response. It returns
// the carrier's ID of the message, the carrier's result code, and the failure, which is nil if the
// carrier accepted the message. The result of Attempt has the ID and the code even if read returns
// a failure. The result is empty if no whole response came.
func (c *Client) Attempt(ctx context.Context, r providerhttp.Request,
	read func(providerhttp.Response) (id, code string, fail *delivery.Error),
) (delivery.Result, *delivery.Error) {
	a, fail := c.Do(ctx, r)
	if fail != nil {
		return delivery.Result{}, fail
	}
	id, code, fail := read(a)
	return delivery.Result{
			CarrierID:  providerhttp.SafeIDOrEmpty(id),
			ReplyCodes: delivery.FormatReplyCodes(a.Status, providerhttp.SafeErrorCode(code)),
		},
		fail
}

// noteEndpointProblem sets wrong["endpoint"] if an endpoint is given and has a problem.
func noteEndpointProblem(wrong map[string]error, endpoint string) {
	if problem := loopback.URLProblem(endpoint); endpoint != "" && problem != "" {
		wrong["endpoint"] = errors.New(problem)
	}
}

// Meaning is the meaning of a carrier's code for a message that was not accepted.
type Meaning = providerhttp.Meaning

// The meanings in the carriers' tables of codes; the package comment explains them.
var (
	MeaningRejected  = Meaning{Class: delivery.Rejected, About: delivery.AboutMessage}
	MeaningBadNumber = Meaning{Class: delivery.Rejected, About: delivery.AboutAddress}
	MeaningTemporary = Meaning{Class: delivery.Temporary, About: delivery.AboutAccount}
	MeaningPerNumber = Meaning{Class: delivery.Temporary, About: delivery.AboutRecipient}
	MeaningUnknown   = Meaning{Class: delivery.Unknown, About: delivery.AboutServer}
	MeaningOptedOut  = Meaning{Class: delivery.Rejected, About: delivery.AboutAddress, Reason: ReasonOptedOut}
	// MeaningRefusedNumber means that this number is refused now. Another carrier could not reach
	// the number either, or must not try.
	MeaningRefusedNumber = Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient}
	// MeaningUnreachable means that this carrier cannot reach the number. An example is a number
	// without WhatsApp.
	MeaningUnreachable = Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient, Elsewhere: true}
)

// MeaningLimited returns a Meaning for a limit on this recipient. The carrier accepts no messages
// for this recipient for the duration hold.
func MeaningLimited(hold time.Duration) Meaning {
	return Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient, Reason: ReasonCarrierLimit, Hold: hold}
}

// errorByCode returns the error of a message that was not accepted. If the status says that the
// carrier failed, the meaning is MeaningUnknown. Otherwise the table gives the meaning of the code,
// or of the part of the code before the first full stop. If the table has neither, the meaning is
// MeaningPerNumber.
func errorByCode(a providerhttp.Response, code string, table map[string]Meaning) *delivery.Error {
	v, known := table[code]
	if !known {
		family, _, _ := strings.Cut(code, ".")
		v, known = table[family]
	}
	switch {
	case providerhttp.IsProviderFault(a.Status):
		v = MeaningUnknown
	case !known:
		v = MeaningPerNumber
	}
	return v.ToError(a, code)
}
