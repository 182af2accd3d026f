package store

import (
	"time"

	"github.com/google/uuid"
)

// ProviderEventKind is the kind of a provider's report on a message that it had accepted.
type ProviderEventKind string

// These kinds are sorted by rank, the worst last. ProviderUnmapped and ProviderDelayed have no
// rank.
const (
	ProviderDelivered  ProviderEventKind = "delivered"
	ProviderBounced    ProviderEventKind = "bounced"
	ProviderOptedOut   ProviderEventKind = "opted_out"
	ProviderComplained ProviderEventKind = "complained"
	ProviderUnmapped   ProviderEventKind = "unmapped" // the configuration doesn't have the provider's type of event
	ProviderDelayed    ProviderEventKind = "delayed"  // a mail server will try again
)

// ProviderEvent is a provider's report on a send. Each kind is recorded once, but a second report
// of a kind can still mark the send as bounced or add a suppression.
type ProviderEvent struct {
	Send     uuid.UUID
	Kind     ProviderEventKind
	At       time.Time // by the provider; HeardAt if it gave no time or a later one
	HeardAt  time.Time // set by the database, on its clock
	Provider string    // its name in the configuration
	Detail   string    // SMTP codes or one word
	ForGood  bool      // the message won't arrive; not stored in the event's row
}

func (p *ProviderEvent) Columns() []Column {
	return []Column{
		{"send_id", &p.Send, InsertedColumn | ExportedColumn},
		{"kind", (*string)(&p.Kind), InsertedColumn | ExportedColumn},
		{"at", &p.At, InsertedColumn | ExportedColumn},
		{"heard_at", &p.HeardAt, InsertedColumn | ExportedColumn},
		{"provider", &p.Provider, InsertedColumn | ExportedColumn},
		{"detail", &p.Detail, InsertedColumn | ExportedColumn},
	}
}

func (p ProviderEvent) Sanitized(suppress NewSuppression) (ProviderEvent, NewSuppression) {
	p.At, p.Provider, p.Detail = TruncateToMicroseconds(p.At), sanitized(p.Provider), sanitized(p.Detail)
	return p, suppress.sanitized()
}

// WithTimes returns the event as received now. At becomes now if it is zero or later.
func (p ProviderEvent) WithTimes(now time.Time) ProviderEvent {
	p.HeardAt = now
	if p.At.IsZero() || p.At.After(now) {
		p.At = now
	}
	return p
}

// Suppression returns the suppression that the event causes for the recipient of row, the send that
// the event reports on.
func (p ProviderEvent) Suppression(suppress NewSuppression, row Send) Suppression {
	if row.To == ErasedMask {
		suppress.Words = ""
	}
	return Suppression{
		ID: SuppressionID(row.ID, suppress.Cause), App: row.App, Channel: row.Channel, Address: suppress.Address,
		Recipient: row.Recipient,
		To:        row.To, Cause: suppress.Cause, Detail: p.Detail, Send: row.ID, Since: p.HeardAt,
		Until: p.HeardAt.Add(suppress.For), Server: row.Provider, Words: suppress.Words,
	}
}
