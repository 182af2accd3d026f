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

// Client makes the requests of one carrier, which embeds it.
type Client struct {
	Setup
	providerhttp.Client
}

func NewClient(s Setup) *Client {
	return &Client{s, providerhttp.Client{Timeout: s.Timeout}}
}

func (c *Client) Name() string { return c.Setup.Name }

// Attempt makes one request to send a message. read parses the response. It returns the carrier's
// ID of the message, the carrier's result code, and the failure, or nil if the carrier accepted the
// message. The result has the ID and the code even after a failure. It is empty if no whole
// response came.
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

func noteEndpointProblem(wrong map[string]error, endpoint string) {
	if problem := loopback.URLProblem(endpoint); endpoint != "" && problem != "" {
		wrong["endpoint"] = errors.New(problem)
	}
}

// Meaning is the failure that a carrier's code stands for.
type Meaning = providerhttp.Meaning

// These are the meanings of codes, in the tables of codes.go and in the settings of package
// generic.
var (
	// MeaningRejected: this message is refused.
	MeaningRejected = Meaning{Class: delivery.Rejected, About: delivery.AboutMessage}
	// MeaningBadNumber: the number gets no text messages. It counts for the rule failures.
	MeaningBadNumber = Meaning{Class: delivery.Rejected, About: delivery.AboutAddress}
	// MeaningTemporary: our account, template, sender or configuration is the cause, for any
	// number. Another carrier may accept the message.
	MeaningTemporary = Meaning{Class: delivery.Temporary, About: delivery.AboutAccount}
	// MeaningPerNumber: temporary, but perhaps because of this number, which may have no route. The
	// carrier is set aside only after such answers for numbers of several prefixes.
	MeaningPerNumber = Meaning{Class: delivery.Temporary, About: delivery.AboutRecipient}
	// MeaningUnknown: the carrier may have accepted the message.
	MeaningUnknown = Meaning{Class: delivery.Unknown, About: delivery.AboutServer}
	// MeaningOptedOut: the person wants no more messages from the carrier. The recipient is
	// suppressed too.
	MeaningOptedOut = Meaning{Class: delivery.Rejected, About: delivery.AboutAddress, Reason: ReasonOptedOut}
	// MeaningRefusedNumber: this number is refused now. Another carrier couldn't reach it either,
	// or must not try.
	MeaningRefusedNumber = Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient}
	// MeaningUnreachable: this carrier certainly can't reach the number, such as one without
	// WhatsApp. The next carrier gets the message, and this carrier isn't set aside.
	MeaningUnreachable = Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient, Elsewhere: true}
)

// MeaningLimited says that the carrier accepts no messages for this recipient until hold has
// passed, because it got too many. Another attempt wouldn't help.
func MeaningLimited(hold time.Duration) Meaning {
	return Meaning{Class: delivery.Rejected, About: delivery.AboutRecipient, Reason: ReasonCarrierLimit, Hold: hold}
}

// errorByCode looks up a code in the table or, failing that, its part before the first full stop.
// The meaning of any other code is MeaningPerNumber. If the status says that the carrier failed,
// the meaning is MeaningUnknown for any code.
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
