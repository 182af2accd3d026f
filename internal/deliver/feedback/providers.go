package feedback

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
	"sendcode/internal/deliver/bounce"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
)

// IngestResult is the kind under which an event was recorded, or Unmapped, or the reason why it was
// not recorded. After any IngestResult the provider need not repeat the event; after an error it
// should.
type IngestResult string

// These are the results that are not in kindByMeaning.
const (
	Unrecorded     IngestResult = "ignored"         // the type needs no record, the mail is no bounce, or its code was entered
	Unmapped       IngestResult = "unmapped"        // the type is not configured; the event is recorded if its send is known
	Repeated       IngestResult = "repeated"        // for this message, an event of this kind was recorded before
	UnknownMessage IngestResult = "unknown_message" // the message is not in the database, or not any more
	OtherRecipient IngestResult = "other_recipient" // the message went to another recipient
)

// IngestResults lists all results.
var IngestResults = []IngestResult{
	IngestResult(store.ProviderDelivered), IngestResult(store.ProviderBounced), IngestResult(store.ProviderComplained),
	IngestResult(store.ProviderOptedOut), IngestResult(store.ProviderDelayed),
	Unrecorded, Unmapped, Repeated, UnknownMessage, OtherRecipient,
}

var kindByMeaning = map[EventMeaning]store.ProviderEventKind{
	Delivered: store.ProviderDelivered, Bounced: store.ProviderBounced, BouncedForGood: store.ProviderBounced,
	Complained: store.ProviderComplained, OptedOut: store.ProviderOptedOut, delayed: store.ProviderDelayed,
}

// appEventByKind has the events that apps get.
var appEventByKind = map[store.ProviderEventKind]string{
	store.ProviderDelivered: store.SendDelivered,
	store.ProviderBounced:   store.SendBounced,
}

// EventStore is implemented by sqldb.DB.
type EventStore interface {
	SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error)
	IngestProviderEvent(ctx context.Context, e store.ProviderEvent, suppress store.NewSuppression,
		appEvents ...store.NewEvent) (bool, error)
}

type ProviderEvents struct {
	Policy *policy.CurrentSet
	Vault  keys.Vault
	Events webhook.Events
	Store  EventStore
	Logger *slog.Logger

	unmapped sync.Map // keys "provider type" that logUnmapped has seen
}

// Ingest records an event that an authenticated provider reports about a mail that it accepted. It
// never changes a send's status and refunds nothing. An event suppresses the recipient if the
// mailbox doesn't exist, or if the person complained or opted out. The error is the database's.
func (p *ProviderEvents) Ingest(ctx context.Context, provider string, e Event) (IngestResult, error) {
	kind, hasKind := kindByMeaning[e.Meaning]
	switch {
	case !hasKind && !e.Mapped: // the send may have failed, so the event is recorded for the send's page
		p.logUnmapped(provider, e.Type)
		if singleWordPattern.MatchString(e.Type) {
			e.Detail = e.Type
		}
		_, err := p.record(ctx, provider, store.ProviderUnmapped, e)
		return Unmapped, err
	case !hasKind:
		return Unrecorded, nil
	}
	return p.record(ctx, provider, kind, e)
}

// IngestMail reads a posted mail, and records what it says about a send's recipient as Ingest does.
// The mail must be a bounce, name the send by a Message-ID that contains the service's HMAC, and
// name that send's recipient. Otherwise nothing is recorded. A failure with a code 4.x.x suppresses
// no recipient. The error is the database's.
func (p *ProviderEvents) IngestMail(ctx context.Context, provider string, mail []byte) (IngestResult, error) {
	report := bounce.Read(mail)
	if len(report.Recipients) == 0 {
		return Unrecorded, nil
	}
	send := uuid.Nil
	for _, local := range report.MessageIDs {
		if id, ok := p.Vault.SendOfMessageID(local); ok {
			send = id
			break
		}
	}
	for _, r := range report.Recipients {
		e := eventOf(r)
		e.Send = send
		for _, e.To = range []string{r.Final, r.Original} {
			result, err := p.Ingest(ctx, provider, e)
			if err != nil || result != OtherRecipient {
				return result, err
			}
			e.WordsMeaning = delivery.AnotherReason // the mail was forwarded, so the missing mailbox is another one
		}
	}
	return OtherRecipient, nil
}

// eventOf converts the claim of a bounce mail to an event without send and recipient. The words of
// the reply count, too, unless the mail is only delayed or a code (4yz or 4.x.x) says that the
// failure may pass.
func eventOf(r bounce.Recipient) Event {
	e := Event{Meaning: Bounced, Forgeable: true, Detail: codesIn(r.Status, r.Words)}
	if strings.HasSuffix(r.Status, ".0.0") { // the server's words may have a code that says more
		e.Detail = codesIn(r.Words, r.Status)
	}
	switch {
	case r.Delayed:
		e.Meaning = delayed
	case strings.HasPrefix(e.Detail, "4"), strings.HasPrefix(findEnhancedCode(e.Detail), "4"):
		e.WordsMeaning = delivery.AnotherReason
	default:
		e.WordsMeaning = delivery.MeaningOf(r.Words)
		e.Words = delivery.NormalizeReply(e.Detail, delivery.RedactReply(r.Words, delivery.PrivateData{To: r.Final}))
	}
	return e
}

func (p *ProviderEvents) record(ctx context.Context, provider string, kind store.ProviderEventKind, e Event) (IngestResult, error) {
	if e.Send == uuid.Nil {
		return UnknownMessage, nil
	}
	details, err := p.Store.SendDetails(ctx, e.Send)
	if errors.Is(err, fault.NotFound) || err == nil && details.Verification == nil {
		return UnknownMessage, nil
	}
	if err != nil {
		return "", err
	}
	to, err := p.Vault.OpenRecipient(*details.Verification) // fails after an erasure: then nothing is compared or suppressed
	known := err == nil
	switch {
	case known && !p.sameRecipient(e.To, to), e.Forgeable && (!known || e.To == ""):
		return OtherRecipient, nil
	case e.Forgeable && !details.Verification.ApprovedAt.IsZero():
		return Unrecorded, nil
	}
	var suppress store.NewSuppression
	why := suppressionCause(e)
	if known && why != "" && to.Domain() != delivery.SimulatorDomain {
		suppress = store.NewSuppression{Cause: why, Address: p.Vault.SuppressionHash(to), For: p.Policy.Get().SuppressFor}
		if why == store.CauseHardBounce {
			suppress.Words = e.Words
		}
	}
	appEvent, err := p.Events.NewEvent(*details.Verification, appEventByKind[kind])
	if err != nil {
		return "", err
	}
	fresh, err := p.Store.IngestProviderEvent(ctx, store.ProviderEvent{
		Send: e.Send, Kind: kind, At: e.At, Provider: provider, Detail: e.Detail,
		ForGood: e.Meaning == BouncedForGood || known && why == store.CauseHardBounce,
	}, suppress, appEvent)
	switch {
	case errors.Is(err, fault.NotFound):
		return UnknownMessage, nil
	case err != nil:
		return "", err
	case !fresh:
		return Repeated, nil
	}
	p.Events.WakeForEvent(appEvent)
	p.Logger.Info("provider event recorded", "send", e.Send, "provider", provider, "kind", string(kind),
		"detail", e.Detail)
	return IngestResult(kind), nil
}

// logUnmapped logs an event type that is missing in a provider's configuration, because such events
// may mean that mails fail. Each type is logged once, and only if it is a single word.
func (p *ProviderEvents) logUnmapped(provider, name string) {
	if _, known := p.unmapped.LoadOrStore(provider+" "+name, true); !known && singleWordPattern.MatchString(name) {
		p.Logger.Warn("provider event is not mapped: see provider_events", "provider", provider, "type", name,
			logs.SeeEvents)
	}
}

// sameRecipient reports whether a provider's event names the recipient to. named may have the form
// "Name <address>". An empty named matches any recipient.
func (p *ProviderEvents) sameRecipient(named string, to recipient.Recipient) bool {
	if named == "" {
		return true
	}
	if _, bare, framed := strings.Cut(named, "<"); framed {
		named = strings.TrimSuffix(strings.TrimSpace(bare), ">")
	}
	other, err := recipient.Parse(to.Channel(), named)
	return err == nil && p.Vault.AddressHash(other) == p.Vault.AddressHash(to)
}

// suppressionCause returns why an event suppresses its recipient, or "". Complaints and opt-outs
// always do. Bounced and BouncedForGood do if the enhanced status code and the words say that the
// mailbox doesn't exist. BouncedForGood without an enhanced status code does, too, unless the words
// give another reason.
func suppressionCause(e Event) store.SuppressionCause {
	switch code := findEnhancedCode(e.Detail); {
	case e.Meaning == Complained:
		return store.CauseComplaint
	case e.Meaning == OptedOut:
		return store.CauseOptOut
	case e.Meaning == BouncedForGood && code == "" && (e.WordsMeaning == delivery.NoMeaning || e.WordsMeaning == delivery.MissingMailbox),
		(e.Meaning == Bounced || e.Meaning == BouncedForGood) && delivery.SaysNoMailbox(code, e.WordsMeaning):
		return store.CauseHardBounce
	}
	return ""
}
