package store

import (
	"time"

	"github.com/google/uuid"
)

// ProviderEventKind is the kind of report that a provider made on a message. The provider had
// accepted the message before.
type ProviderEventKind string

// The kinds of events, the worst last.
const (
	ProviderDelivered  ProviderEventKind = "delivered"
	ProviderBounced    ProviderEventKind = "bounced"
	ProviderOptedOut   ProviderEventKind = "opted_out"
	ProviderComplained ProviderEventKind = "complained"
	ProviderUnmapped   ProviderEventKind = "unmapped" // the provider's type of event is not in the configuration; without a rank
	ProviderDelayed    ProviderEventKind = "delayed"  // a mail server will try again; without a rank
)

// ProviderEvent is a provider's report on a send. A send has at most one event of each kind; a
// second one of the same kind is ignored.
type ProviderEvent struct {
	Send     uuid.UUID
	Kind     ProviderEventKind
	At       time.Time // the provider's time of the event; if the provider gave no time or a time after HeardAt: HeardAt
	HeardAt  time.Time // on the database's clock; the database sets it
	Provider string    // its name in the configuration
	Detail   string    // SMTP codes or one word
	ForGood  bool      // the message will not arrive; the event's row does not have it
}

// Columns returns the columns of the row.
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

// Sanitized returns the event and its suppression as the store writes them.
func (p ProviderEvent) Sanitized(suppress NewSuppression) (ProviderEvent, NewSuppression) {
	p.At, p.Provider, p.Detail = TruncateToMicroseconds(p.At), sanitized(p.Provider), sanitized(p.Detail)
	return p, suppress.sanitized()
}

// WithTimes returns the event with HeardAt set to now. If At is zero or later than now, WithTimes
// also sets At to now.
func (p ProviderEvent) WithTimes(now time.Time) ProviderEvent {
	p.HeardAt = now
	if p.At.IsZero() || p.At.After(now) {
		p.At = now
	}
	return p
}

// Suppression returns the suppression that the event causes for the send's recipient. The parameter
// row is the send that the event reports on.
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
