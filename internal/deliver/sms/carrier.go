package sms

import (
	"context"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Each carrier has a type of settings, which implements CarrierSettings, and a type that implements
// Carrier. Both also implement those of the other interfaces here that the carrier's API allows.

type Setup struct {
	Name   string // as configured
	Secret string // the carrier has only this secret; may be empty
	// Timeout bounds one attempt; 0: 20 s.
	Timeout time.Duration
	// Now gives the time of signatures; nil: time.Now.
	Now func() time.Time
}

// CurrentTime returns the time of signatures.
func (s Setup) CurrentTime() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// CarrierSettings is implemented by the settings of each type of carrier: a pointer to a struct
// with yaml tags.
type CarrierSettings interface {
	// Check returns the problems by key.
	Check() map[string]error
	NeedsSecret() bool
	// CanBePolled reports whether the carrier can be polled for receipts, as a Poller.
	CanBePolled() bool
	// Open makes the carrier. The settings must have passed Check.
	Open(s Setup) Carrier
}

// SettingsWithSender is implemented by the settings of a carrier that may need a sender, which the
// administrator sets. `sendcode doctor` warns if it is missing.
type SettingsWithSender interface{ NeedsSender() bool }

// SettingsWithPrefixes is implemented by the settings of a carrier that reaches only numbers with
// the prefixes that OnlyPrefixes returns.
type SettingsWithPrefixes interface{ OnlyPrefixes() []string }

// SettingsWithCallback is implemented by the settings of a carrier whose requests may contain the
// address for receipts. If NeedsCallback returns true, sms.public_url must be set.
type SettingsWithCallback interface{ NeedsCallback() bool }

// SettingsWithAccountCallback is implemented by the settings of a carrier whose address for
// receipts is entered in the carrier's console, once for the account.
type SettingsWithAccountCallback interface{ HasAccountCallback() bool }

// Carrier sends single messages by the API of one carrier. Send sets CarrierID and ReplyCodes of
// the result, and its caller sets the other fields.
type Carrier interface {
	Name() string
	Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error)
}

// ReportParser is a Carrier that sends receipts, to an address with a token of ours. Callers check
// the token before they call ParseReports.
type ReportParser interface {
	// ParseReports returns receipts with the reply that the carrier expects. send is the ID in the
	// address, or "". Errors: ErrForged, ErrUnreadableReport.
	ParseReports(in IncomingRequest, send string) (reports []Report, reply string, err error)
}

// carrierIDReporter is a ReportParser whose reports name messages by the carrier's IDs.
type carrierIDReporter interface{ ReportsUseCarrierID() bool }

// Poller is a Carrier that can be polled for the status of a message that has no receipt yet.
type Poller interface {
	// PollStatus makes one request, which can be repeated without harm. It returns false while the
	// carrier knows no final status. The error is a [*delivery.Error].
	PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error)
}

type prober interface {
	// EndpointURL is the URL of the API. A probe connects to its host.
	EndpointURL() string
	// Probe makes a harmless request, if the API has one, and returns the result as the end of a
	// sentence, such as ", and takes the login".
	Probe(ctx context.Context) (string, error)
}
