package reports

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
)

// IngestResult is the result of Ingest: the kind under which the event was recorded, or Unmapped, or
// why it was not recorded. After any IngestResult the provider need not repeat the event; after an
// error it should.
type IngestResult string

// The results besides the kinds in kindByMeaning.
const (
	Unrecorded     IngestResult = "ignored"         // the event's type is known, but nothing is recorded for it
	Unmapped       IngestResult = "unmapped"        // the type is not configured; the event is recorded if its send is known
	Repeated       IngestResult = "repeated"        // an event of this kind was recorded for the message before
	UnknownMessage IngestResult = "unknown_message" // the message is not in the database, or not any more
	OtherRecipient IngestResult = "other_recipient" // the message went to another recipient
)

// IngestResults lists all results.
var IngestResults = []IngestResult{
	IngestResult(store.ProviderDelivered), IngestResult(store.ProviderBounced), IngestResult(store.ProviderComplained),
	IngestResult(store.ProviderOptedOut),
	Unrecorded, Unmapped, Repeated, UnknownMessage, OtherRecipient,
}

var kindByMeaning = map[EventMeaning]store.ProviderEventKind{
	Delivered: store.ProviderDelivered, Bounced: store.ProviderBounced, BouncedForGood: store.ProviderBounced,
	Complained: store.ProviderComplained, OptedOut: store.ProviderOptedOut,
}

// appEventByKind has the types of the events that apps get.
var appEventByKind = map[store.ProviderEventKind]string{store.ProviderDelivered: store.SendDelivered,
	store.ProviderBounced: store.SendBounced}

// EventStore are the database's methods for provider events. Implementation: sqldb.DB.
type EventStore interface {
	SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error)
	IngestProviderEvent(ctx context.Context, e store.ProviderEvent, suppress store.NewSuppression,
		tell ...store.NewEvent) (bool, error)
}

// ProviderEvents records the events that mail providers report.
type ProviderEvents struct {
	Store  EventStore
	Policy *policy.CurrentSet
	Vault  keys.Vault
	Teller webhook.EventMaker
	Logger *slog.Logger

	unmapped sync.Map // the keys "provider type" that logUnmapped has seen
}

// Ingest records an event that an authenticated mail provider reports on a message that it
// accepted. It changes no send's status and refunds nothing. A mailbox that does not exist, a
// complaint or an opt-out suppresses the recipient. Error: of the database.
func (s *ProviderEvents) Ingest(ctx context.Context, provider string, e Event) (IngestResult, error) {
	kind, means := kindByMeaning[e.Meaning]
	switch {
	case !means && !e.Mapped: // the send may have failed, so the event is recorded for the send's page
		s.logUnmapped(provider, e.Type)
		if singleWordPattern.MatchString(e.Type) {
			e.Detail = e.Type
		}
		_, err := s.record(ctx, provider, store.ProviderUnmapped, e)
		return Unmapped, err
	case !means:
		return Unrecorded, nil
	}
	return s.record(ctx, provider, kind, e)
}

// record records an event as one of a kind.
func (s *ProviderEvents) record(ctx context.Context, provider string, kind store.ProviderEventKind, e Event) (IngestResult, error) {
	if e.Send == uuid.Nil {
		return UnknownMessage, nil
	}
	story, err := s.Store.SendDetails(ctx, e.Send)
	if errors.Is(err, fault.NotFound) || err == nil && story.Verification == nil {
		return UnknownMessage, nil
	}
	if err != nil {
		return "", err
	}
	to, err := s.Vault.OpenRecipient(*story.Verification) // fails after an erasure: then nothing is compared or suppressed
	known := err == nil
	if known && !s.sameRecipient(e.To, to) {
		return OtherRecipient, nil
	}
	var suppress store.NewSuppression
	if why := suppressionCause(e); known && why != "" && to.Domain() != delivery.SimulatorDomain {
		suppress = store.NewSuppression{Cause: why, Address: s.Vault.SuppressionHash(to), For: s.Policy.Get().SuppressFor}
		if why == store.CauseHardBounce {
			suppress.Words = e.Words
		}
	}
	tell, err := s.Teller.NewEvent(*story.Verification, appEventByKind[kind])
	if err != nil {
		return "", err
	}
	fresh, err := s.Store.IngestProviderEvent(ctx,
		store.ProviderEvent{Send: e.Send, Kind: kind, At: e.At, Provider: provider, Detail: e.Detail}, suppress, tell)
	switch {
	case errors.Is(err, fault.NotFound):
		return UnknownMessage, nil
	case err != nil:
		return "", err
	case !fresh:
		return Repeated, nil
	}
	s.Teller.WakeForEvent(tell)
	s.Logger.Info("provider event recorded", "send", e.Send, "provider", provider, "kind", string(kind),
		"detail", e.Detail)
	return IngestResult(kind), nil
}

// logUnmapped logs once for each type of a provider that its configuration does not map, since such
// events may mean that mails fail. It logs no type that is not a single word.
func (s *ProviderEvents) logUnmapped(provider, name string) {
	if _, known := s.unmapped.LoadOrStore(provider+" "+name, true); !known && singleWordPattern.MatchString(name) {
		s.Logger.Warn("provider event is not mapped: see provider_events", "provider", provider, "type", name,
			logs.SeeEvents)
	}
}

// sameRecipient reports whether named, the recipient in a provider's event, is to. named may have
// the form "Name <address>"; an empty one matches any recipient.
func (s *ProviderEvents) sameRecipient(named string, to recipient.Recipient) bool {
	if named == "" {
		return true
	}
	if _, bare, framed := strings.Cut(named, "<"); framed {
		named = strings.TrimSuffix(strings.TrimSpace(bare), ">")
	}
	other, err := recipient.Parse(to.Channel(), named)
	return err == nil && s.Vault.AddressHash(other) == s.Vault.AddressHash(to)
}

// suppressionCause returns why an event suppresses its recipient; empty: it does not. A bounce does
// if its code and words say that there is no such mailbox. It also does if the provider says so
// (BouncedForGood) without an enhanced code, and no words give another reason.
func suppressionCause(e Event) store.SuppressionCause {
	switch code := findEnhancedCode(e.Detail); {
	case e.Meaning == Complained:
		return store.CauseComplaint
	case e.Meaning == OptedOut:
		return store.CauseOptOut
	case e.Meaning == BouncedForGood && code == "" && e.Says != delivery.AnotherReason,
		(e.Meaning == Bounced || e.Meaning == BouncedForGood) && delivery.SaysNoMailbox(code, e.Says):
		return store.CauseHardBounce
	}
	return ""
}
