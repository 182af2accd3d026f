package sms

import (
	"context"
	"time"

	"sendcode/internal/delivery"
)

// The package of a carrier implements Settings and Carrier, and those other interfaces of this file
// that the carrier's API allows.

// Setup is what every carrier is opened with.
type Setup struct {
	Name   string // as configured
	Secret string // the only one of a carrier
	// Timeout bounds one attempt; 0: 20 s.
	Timeout time.Duration
	// Now gives the time that requests are signed with; nil: time.Now.
	Now func() time.Time
}

// CurrentTime returns the time that requests are signed with.
func (s Setup) CurrentTime() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Settings are the part of the configuration that one type of carrier has for itself: a pointer to
// a struct, whose fields have yaml tags.
type Settings interface {
	// Check returns the problem with the settings, by key.
	Check() map[string]error
	// NeedsSecret reports whether the carrier does nothing without its secret.
	NeedsSecret() bool
	// CanBePolled reports whether the carrier is asked for receipts; false if it is no Poller.
	CanBePolled() bool
	// Open makes the carrier of settings that Check finds nothing in.
	Open(s Setup) Carrier
}

// SenderSettings are Settings of a carrier that may need a sender of ours. `sendcode doctor` warns
// if it needs one and has none.
type SenderSettings interface{ NeedsSender() bool }

// CallbackSettings are Settings whose requests may contain the address for receipts. If they do,
// sms.public_url must be set.
type CallbackSettings interface{ NeedsCallback() bool }

// ReportsPerAccount is implemented by the Settings of a carrier in whose console the address for
// receipts is entered, once for the account.
type ReportsPerAccount interface{ ReportsPerAccount() bool }

// Carrier hands over one message. Send fills in ID and Code of the receipt; the caller fills in the
// rest.
type Carrier interface {
	Name() string
	Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error)
}

// Reporter is a Carrier that sends receipts. They come to an address with a token of ours, which
// the caller has checked; send is the send that the address names, or "".
type Reporter interface {
	// ParseReports reads receipts and returns them with the reply that the carrier expects. Errors:
	// ErrForged, ErrUnreadableReport.
	ParseReports(in IncomingRequest, send string) (reports []Report, reply string, err error)
}

// reporterByID is a Reporter whose reports name messages by the carrier's own ID.
type reporterByID interface{ ReportsByID() bool }

// Poller is a Carrier that can be asked what became of a message that it has sent no receipt for.
type Poller interface {
	// PollStatus asks once. False: nothing final is known yet. The error is an [*delivery.Error]; asking
	// again is harmless.
	PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error)
}

// prober is a Carrier that can be looked at without sending anything.
type prober interface {
	// EndpointURL is the URL of the carrier's API; its host has to answer.
	EndpointURL() string
	// Probe makes a harmless request and returns what that showed, as the end of a sentence: ", …".
	Probe(ctx context.Context) (string, error)
}
