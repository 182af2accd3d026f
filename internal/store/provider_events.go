package store

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// ProviderEventKind is what a provider told of a message that it had taken.
type ProviderEventKind string

// The kinds of events, the worst last.
const (
	ProviderDelivered  ProviderEventKind = "delivered"
	ProviderBounced    ProviderEventKind = "bounced"
	ProviderOptedOut   ProviderEventKind = "opted_out"
	ProviderComplained ProviderEventKind = "complained"
)

// ProviderEventKinds are the kinds of provider events, the strongest last.
var ProviderEventKinds = []ProviderEventKind{"", ProviderDelivered, ProviderBounced, ProviderOptedOut, ProviderComplained}

// rank orders kinds from weakest to strongest. A send shows the strongest kind that a provider reported.
func (k ProviderEventKind) rank() int { return slices.Index(ProviderEventKinds, k) }

// ProviderEvent is one of them. A send has one of each kind: what is told again changes nothing.
type ProviderEvent struct {
	Send     uuid.UUID         `column:"send_id,add"`
	Kind     ProviderEventKind `column:"kind,add"`
	At       time.Time         `column:"at,add"`       // as the provider tells; at most HeardAt, and HeardAt where it tells none
	HeardAt  time.Time         `column:"heard_at,add"` // on the log's clock; the log sets it
	Provider string            `column:"provider,add"` // its name in the configuration
	Detail   string            `column:"detail,add"`   // machine word or codes
}

// Checked validates the event and its suppression, and returns both as they are stored; errors wrap ErrBadRequest.
func (e ProviderEvent) Checked(bar SuppressAs) (ProviderEvent, SuppressAs, error) {
	e.At, e.Provider, e.Detail, bar.For = Micro(e.At), mended(e.Provider), mended(e.Detail), max(0, bar.For).Truncate(time.Microsecond)
	switch {
	case e.Send == uuid.Nil || e.Kind.rank() < 1:
		return e, bar, Bad("an event names its send and its kind")
	case bar.For > 0 && (bar.Address == recipient.Hash{} || !bar.Cause.known()):
		return e, bar, Bad("an event suppresses an address, for a cause")
	}
	return e, bar, nil
}

// ReceivedAt returns the event with HeardAt set to now, and with At, if it is missing or later, set to now too.
func (e ProviderEvent) IngestProviderEvent(now time.Time) ProviderEvent {
	if e.HeardAt = now; e.At.IsZero() || e.At.After(now) {
		e.At = now
	}
	return e
}

// Suppression returns the suppression that the event causes for the recipient of row, its send.
func (e ProviderEvent) Suppression(bar SuppressAs, row Send) Suppression {
	return Suppression{
		ID: SuppressionID(row.ID, bar.Cause), App: row.App, Channel: row.Channel, Address: bar.Address, Recipient: row.Recipient, To: row.To,
		Cause: bar.Cause, Detail: e.Detail, Send: row.ID, Since: e.HeardAt, Until: e.HeardAt.Add(bar.For),
	}
}
