// Package feedback records what carriers and mail providers report on messages that they have
// accepted: receipts, bounces and complaints. It never refunds a send.
//
// Each provider has its own JSON and its own signature. A Source describes both in settings, so
// that no provider needs code here.
//
// Package api calls Source.Verify, which checks that a request comes from the provider, and then
// Source.Parse. ProviderEvents records an event, and ReceiptRecorder records a receipt.
package feedback

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/deliver/delivery"
)

// EventMeaning is independent of the provider's name for the event.
type EventMeaning string

// Bounced means that the mail came back, perhaps for a reason that may pass. BouncedForGood means
// that the mailbox doesn't exist. OptedOut means that the person wants no further mails.
const (
	Ignored        EventMeaning = "ignored"
	Delivered      EventMeaning = "delivered"
	Bounced        EventMeaning = "bounced"
	BouncedForGood EventMeaning = "bounced_for_good"
	Complained     EventMeaning = "complained"
	OptedOut       EventMeaning = "opted_out"

	delayed EventMeaning = "delayed" // the server keeps trying; only bounce mails say so
)

// Event is what a mail provider, or a bounce mail, reports about a mail.
type Event struct {
	Type    string // the provider's name of the type; its parts are joined by dots
	Meaning EventMeaning
	Mapped  bool      // EventFormat.Outcomes has the type
	Send    uuid.UUID // of the mail; uuid.Nil: the event names none of our sends
	To      string    // the address as the provider writes it; empty: not in the event
	At      time.Time // zero: not in the event
	// Detail is a reply code and an enhanced status code, or a single word: a sentence may contain
	// an address.
	Detail       string
	WordsMeaning delivery.Meaning // the meaning of the words at EventFormat.Detail
	Words        string           // the words of the reply with Detail, as delivery.NormalizeReply returns them
	// Forgeable is true if anybody who got the mail could have written the event. Such an event
	// must name the recipient, and counts only if the code was not entered yet.
	Forgeable bool
}

// Source has the settings of a provider. Package config reads its tags and comments.
type Source struct {
	// The source's name in the URL of its events and in metrics.
	Name string `yaml:"name" required:"yes" check:"name"`
	Auth Auth   `yaml:",inline"`
	// A header `X-…` that mails carry with the send's ID, if the provider replaces Message-ID.
	Header string      `yaml:"message_header,omitempty" check:"mail_header"`
	Format EventFormat `yaml:",inline"`
}

// EventFormat has the paths of an event's parts in the JSON. The values at all paths of Type
// together form the type, and the values at all paths of Detail are searched for codes. For each
// other part, the first path with a usable value counts.
type EventFormat struct {
	// The paths of the event's type in the body. If there are several, dots join their values.
	Type []JSONPath `yaml:"type,omitempty"`
	// Maps types to `delivered`, `bounced`, `bounced_for_good`, `complained`, `opted_out` or
	// `ignored`. The type `Bounce` also stands for longer types that begin with `Bounce.`, such as
	// `Bounce.General`.
	Outcomes map[string]EventMeaning `yaml:"outcomes,omitempty" oneof:"delivered bounced bounced_for_good complained opted_out ignored"`
	// The path of our Message-ID, or of what `message_header` contains.
	Message []JSONPath `yaml:"message,omitempty"`
	// The path of the recipient. An event counts only if this is the recipient of the send.
	To []JSONPath `yaml:"recipient,omitempty"`
	// The path of the event's time, in RFC 3339 or in seconds since 1970.
	Time []JSONPath `yaml:"time,omitempty"`
	// The path of the reason. The service keeps only its reply codes or, if there are none,
	// one word.
	Detail []JSONPath `yaml:"detail,omitempty"`
}

// errMalformed means that a body is too large, has too many events, or is neither a JSON object nor
// a list of objects.
var errMalformed = errors.New("feedback: the body cannot be read")

// These are bounds of one request.
const (
	MaxBodyBytes = 1 << 20 // bytes
	maxEvents    = 10_000
)
