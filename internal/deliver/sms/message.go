package sms

import (
	"time"

	"sendcode/internal/deliver/delivery"
)

// Message is one text message, rendered before a connection to a carrier is opened.
type Message struct {
	// ID is the send's ID, the same for every attempt, and the idempotency token where the API has
	// one.
	ID  string
	App string
	// Stranger says that a browser requested the message, or a back end for a stranger. Such a
	// message may not use the reserves of spend caps. If it fails for a reason that may concern
	// only its number, the failure doesn't count against the carrier.
	Stranger bool
	// To is the number in E.164 form, with its plus. Country is its region, such as "DE".
	To, Country string
	// Prefix is the plus sign, the calling code of To and up to three more digits. Failures that
	// may concern only the number count against the carrier once for each prefix.
	Prefix string
	// Sender is a number, a short code or a name; empty: the carrier's choice.
	Sender string
	// Text is for the recipient. Carriers with templates of their own use Code and Minutes
	// instead.
	Text     string
	Segments int
	// Code and Minutes go into a carrier's own template.
	Code    string
	Minutes int // 0: not known; a template with minutes then fails
	// Purpose and Language (BCP 47) choose among a carrier's own templates.
	Purpose, Language string
	// CallbackURL is where the carrier sends the receipt; empty: nowhere.
	CallbackURL string
	// Used names the carriers of earlier messages with the same code. Other working carriers are
	// tried first. AcceptedBy names the carriers in Used that accepted a message.
	Used, AcceptedBy []string
	// Life is how long the code is still valid. Some carriers drop the message after that.
	Life time.Duration
}

// StageBudget is the stage in which a message's cost is reserved, before a connection to the
// carrier is opened.
const StageBudget = "budget"

// These are reasons for which a carrier refuses a message.
const (
	// ReasonCarrierLimit: the carrier accepts no more messages for this recipient for
	// delivery.Error.Hold.
	ReasonCarrierLimit = "carrier_limit"
	// ReasonOptedOut: the person asked the carrier to send nothing more.
	ReasonOptedOut = "opted_out"
	// ReasonSpendCap: the message would cost more than a cap allows.
	ReasonSpendCap = "spend_cap"
)

const errNoTemplate = delivery.SafeError("no template of the carrier is configured for this purpose and language")

// ErrNoMinutes means that the template shows how many minutes the code is valid, but the caller who
// made the code set no ttl.
const ErrNoMinutes = delivery.SafeError("the template takes minutes, and the code came without a ttl")
