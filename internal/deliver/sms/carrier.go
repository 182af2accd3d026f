package sms

import (
	"context"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Each carrier has a settings type that implements CarrierSettings and a type that implements
// Carrier. These types also implement the other interfaces in this file, as far as the carrier's
// API allows.

// Setup has the settings and dependencies that every carrier is opened with.
type Setup struct {
	Name   string // as configured
	Secret string // the carrier's only secret; may be empty
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

// CarrierSettings are the settings of one type of carrier. The implementation is a pointer to a
// struct with yaml tags.
type CarrierSettings interface {
	// Check returns the problems of the settings, by key.
	Check() map[string]error
	// NeedsSecret reports whether the carrier cannot work without its secret.
	NeedsSecret() bool
	// CanBePolled reports whether the carrier can be polled for receipts. It is false if the
	// carrier is not a Poller.
	CanBePolled() bool
	// Open makes the carrier. The settings must have passed Check.
	Open(s Setup) Carrier
}

// SettingsWithSender are CarrierSettings of a carrier that may need a sender, which the
// administrator sets. `sendcode doctor` warns if the carrier needs a sender and the settings have
// none.
type SettingsWithSender interface{ NeedsSender() bool }

// SettingsWithPrefixes are CarrierSettings of a carrier that reaches only numbers with the prefixes
// that OnlyPrefixes returns.
type SettingsWithPrefixes interface{ OnlyPrefixes() []string }

// SettingsWithCallback are CarrierSettings of a carrier whose requests may contain the address for
// receipts. If NeedsCallback returns true, the requests need that address, so sms.public_url must
// be set.
type SettingsWithCallback interface{ NeedsCallback() bool }

// SettingsWithAccountCallback is implemented by the CarrierSettings of a carrier whose address for
// receipts is entered in the carrier's console, once for the account.
type SettingsWithAccountCallback interface{ HasAccountCallback() bool }

// Carrier hands single messages to a carrier. Send sets CarrierID and ReplyCodes of the result. The
// caller of Send sets the other fields.
type Carrier interface {
	Name() string
	Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error)
}

// ReportParser is a Carrier that sends receipts to the service. The address to which it sends them
// contains a token that this service made. Callers check the token before they call ParseReports.
// The address may also contain the ID of a send. The parameter send of ParseReports is this ID, or
// "" if the address has none.
type ReportParser interface {
	// ParseReports parses receipts. It returns them with the reply that the carrier expects. The
	// errors are ErrForged and ErrUnreadableReport.
	ParseReports(in IncomingRequest, send string) (reports []Report, reply string, err error)
}

// carrierIDReporter is a ReportParser whose reports name messages by the carrier's own IDs.
type carrierIDReporter interface{ ReportsUseCarrierID() bool }

// Poller is a Carrier that can be polled for the status of a message without a receipt.
type Poller interface {
	// PollStatus makes one status request. Repeating the request does no harm. The result is false
	// if the carrier does not know a final status yet. The error is a [*delivery.Error].
	PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error)
}

// prober is a Carrier that can be tested without sending a message.
type prober interface {
	// EndpointURL is the URL of the carrier's API. A probe connects to its host.
	EndpointURL() string
	// Probe makes a harmless request and returns the result as the end of a sentence, such as ",
	// and takes the login".
	Probe(ctx context.Context) (string, error)
}
