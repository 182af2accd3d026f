package sms

import (
	"time"

	"sendcode/internal/deliver/delivery"
)

// Message is one text message, rendered completely before anything is dialled.
type Message struct {
	// ID is the send's ID, the same for every attempt. Carriers with an idempotency token get it as
	// that token.
	ID string
	// App is the tenant of the message.
	App string
	// Stranger: a browser requested the message, or a back end for a stranger. Such a message may
	// not use the reserves of spend caps. If its failure may concern only its number, the failure
	// does not count against the carrier.
	Stranger bool
	// To is the number in E.164 form, with its plus. Country is the number's region, as in "DE".
	To, Country string
	// Prefix is the calling code of To and at most three digits after it, with the plus. If
	// failures may concern only a number, they count once for each prefix.
	Prefix string
	// Sender is a number, a short code or a name; empty: the carrier's own choice.
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
	// CallbackURL is the URL to which the carrier sends the receipt; empty: the carrier sends none.
	CallbackURL string
	// Used are the carriers of earlier messages with the same code; other carriers are tried first,
	// if they work. Took are the carriers of Used that accepted a message.
	Used, Took []string
	// Life is how long the code is still valid. Some carriers drop the message after that.
	Life time.Duration
}

// StageBudget is the stage that reserves a message's cost, before anything is dialled.
const StageBudget = "budget"

// Reasons of refusals.
const (
	// ReasonCarrierLimit: the carrier takes no more messages for this recipient for a while; see
	// delivery.Error.Hold.
	ReasonCarrierLimit = "carrier_limit"
	// ReasonOptedOut: the person asked the carrier to send nothing more.
	ReasonOptedOut = "opted_out"
	// ReasonSpendCap: the cost of the message would exceed a cap.
	ReasonSpendCap = "spend_cap"
)

const errNoTemplate = delivery.SafeError("no template of the carrier is configured for this purpose and language")

// ErrNoMinutes says that the carrier's template needs the minutes of the code's life, but that the
// caller gave no ttl with its code.
const ErrNoMinutes = delivery.SafeError("the template takes minutes, and the code came without a ttl")
