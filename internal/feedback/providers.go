package feedback

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/vault"
)

// ProviderEvent is an event that an authenticated mail provider reports on a message that it accepted. It changes no send's status and
// refunds nothing. A mailbox that does not exist, a complaint or an opt-out suppresses the recipient.
type ProviderEvent struct {
	Provider  string // its name in the configuration
	Kind      store.ProviderEventKind
	NoMailbox bool // a bounce because there is no such mailbox
	Send      uuid.UUID
	To        string    // the recipient as the provider writes it; empty: not reported
	At        time.Time // zero: not reported
	Detail    string    // codes or a machine word
	Enhanced  string    // the enhanced status code among them; empty: none
}

// Result is the result of ingesting an event.
type Result string

// The results. For all of them the provider need not repeat the event; for an error it should.
const (
	Recorded       Result = "recorded"
	Repeated       Result = "repeated"        // it was recorded before
	UnknownMessage Result = "unknown_message" // the message is not in the log, or not any more
	OtherRecipient Result = "other_recipient" // the message went to another recipient, so the event is ignored
)

// EventStore are the log's methods for provider events. Implementations: postgres.DB and sqlite.DB.
type EventStore interface {
	Story(ctx context.Context, id uuid.UUID) (store.Story, error)
	IngestProviderEvent(ctx context.Context, e store.ProviderEvent, suppress store.SuppressAs) (bool, error)
}

// Providers records the events that mail providers report.
type Providers struct {
	Store  EventStore
	Policy *policy.InForce
	Vault  vault.Vault
	Logger *slog.Logger
}

// Ingest records an event and, if it calls for that, suppresses the recipient. Error: of the log.
func (s *Providers) Ingest(ctx context.Context, t ProviderEvent) (Result, error) {
	if t.Send == uuid.Nil {
		return UnknownMessage, nil
	}
	story, err := s.Store.Story(ctx, t.Send)
	if errors.Is(err, store.ErrNotFound) || err == nil && story.Verification == nil {
		return UnknownMessage, nil
	}
	if err != nil {
		return "", s.failed(err)
	}
	to, err := s.Vault.Recipient(*story.Verification) // not so once it was erased: then nothing can be compared, nor suppressed
	known := err == nil
	if known && !s.sameRecipient(t.To, to) {
		return OtherRecipient, nil
	}
	var suppress store.SuppressAs
	if why := t.cause(); known && why != "" && to.Domain() != delivery.SimulatorDomain {
		suppress = store.SuppressAs{Cause: why, Address: s.Vault.AddressHash(to), For: s.Policy.Get().SuppressFor}
	}
	fresh, err := s.Store.IngestProviderEvent(ctx,
		store.ProviderEvent{Send: t.Send, Kind: t.Kind, At: t.At, Provider: t.Provider, Detail: t.Detail}, suppress)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return UnknownMessage, nil
	case err != nil:
		return "", s.failed(err)
	case !fresh:
		return Repeated, nil
	}
	s.Logger.Info("a provider reported of a message", "send", t.Send, "provider", t.Provider, "kind", string(t.Kind), "detail", t.Detail)
	return Recorded, nil
}

// sameRecipient reports whether the recipient that a provider names is the message's. It may be written as "Name <address>"; "" matches all.
func (s *Providers) sameRecipient(named string, to recipient.Recipient) bool {
	if named == "" {
		return true
	}
	if _, bare, framed := strings.Cut(named, "<"); framed {
		named = strings.TrimSuffix(strings.TrimSpace(bare), ">")
	}
	other, err := recipient.Parse(to.Channel(), named)
	return err == nil && s.Vault.AddressHash(other) == s.Vault.AddressHash(to)
}

// cause returns why an event suppresses its recipient; empty: it does not. For a bounce, the enhanced status code decides before the
// provider's own classification: 5.7.x is a policy refusal and 4.x.x is temporary, so neither suppresses.
func (t ProviderEvent) cause() store.Cause {
	switch {
	case t.Kind == store.ProviderComplained:
		return store.Complaint
	case t.Kind == store.ProviderOptedOut:
		return store.OptOut
	case t.Kind != store.ProviderBounced:
		return ""
	case delivery.NoMailbox(t.Enhanced), t.NoMailbox && !strings.HasPrefix(t.Enhanced, "5.7.") && !strings.HasPrefix(t.Enhanced, "4."):
		return store.HardBounce
	}
	return ""
}

func (s *Providers) failed(err error) error {
	s.Logger.Error("the log did not answer", "error", err)
	return err
}
