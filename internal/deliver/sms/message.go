package sms

import (
	"time"

	"sendcode/internal/deliver/delivery"
)

// Message is one text message, rendered completely before anything is dialled.
type Message struct {
	// ID is the ID of the send. It is the same for every attempt. If a carrier's API has an
	// idempotency token, the ID is that token.
	ID string
	// App is the tenant of the message.
	App string
	// Stranger is true if a browser requested the message, or if a back end requested it for a
	// stranger. The message of a stranger may not use the reserves of spend caps. If such a message
	// fails and the cause may be only its number, the failure does not count against the carrier.
	Stranger bool
	// To is the number in E.164 form, with its plus. Country is the number's region, as in "DE".
	To, Country string
	// Prefix is the plus sign, the calling code of To and up to three digits that follow. Failures
	// that may concern only the number count against the carrier only once for each prefix.
	Prefix string
	// Sender is a number, a short code or a name. If Sender is empty, the carrier chooses the
	// sender.
	Sender string
	// Text is the text for the person. Carriers with templates of their own take Code and Minutes
	// instead.
	Text string
	// Segments is how many segments the text has.
	Segments int
	// Code and Minutes go into a carrier's own template.
	Code    string
	Minutes int // 0: not known; a template with minutes then fails
	// Purpose and Language (BCP 47) choose among a carrier's own templates.
	Purpose, Language string
	// CallbackURL is the URL to which the carrier sends the receipt. If CallbackURL is empty, the
	// carrier sends no receipt.
	CallbackURL string
	// Used lists the carriers of earlier messages with the same code. Other working carriers are
	// tried before them. Took lists the carriers in Used that accepted a message.
	Used, Took []string
	// Life is how long the code is still valid. Some carriers drop the message after that.
	Life time.Duration
}

// StageBudget is the stage that reserves a message's cost, before anything is dialled.
const StageBudget = "budget"

// Reasons of refusals.
const (
	// ReasonCarrierLimit means that the carrier temporarily takes no more messages for this
	// recipient. delivery.Error.Hold says for how long.
	ReasonCarrierLimit = "carrier_limit"
	// ReasonOptedOut: the person asked the carrier to send nothing more.
	ReasonOptedOut = "opted_out"
	// ReasonSpendCap: the cost of the message would exceed a cap.
	ReasonSpendCap = "spend_cap"
)

const errNoTemplate = delivery.SafeError("no template of the carrier is configured for this purpose and language")

// ErrNoMinutes means that the carrier's template shows how many minutes the code is valid, but the
// caller set no ttl for its code.
const ErrNoMinutes = delivery.SafeError("the template takes minutes, and the code came without a ttl")
