package verification

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Told is what a mail provider, which has shown that it is the one, tells of a message that it took. It changes no state and
// gives no place back: the message had been taken, and counted. A mailbox that is not there and a person who wants no
// more mail are suppressed.
type Told struct {
	Provider string // its name in the configuration
	Kind     store.ProviderEventKind
	Gone     bool // a bounce because there is no such mailbox
	Send     uuid.UUID
	To       string    // whom the provider means; empty: it does not say
	At       time.Time // zero: it does not say
	Detail   string    // codes or a machine word
	Enhanced string    // the enhanced status code among them; empty: none
}

// Hearing is what became of it.
type Hearing string

// What becomes of what a provider tells. Only what the log could not take is worth telling again.
const (
	Recorded       Hearing = "recorded"
	Repeated       Hearing = "repeated"        // it is known already
	UnknownMessage Hearing = "unknown_message" // none of ours, or none any more
	OtherRecipient Hearing = "other_recipient" // the message went to somebody else: the event is not believed
)

// Hear records what a provider tells. Error: ErrUnavailable.
func (s *Service) Hear(ctx context.Context, t Told) (Hearing, error) {
	if t.Send == uuid.Nil {
		return UnknownMessage, nil
	}
	story, err := s.Log.Story(ctx, t.Send)
	if errors.Is(err, store.ErrNotFound) || err == nil && story.Verification == nil {
		return UnknownMessage, nil
	}
	if err != nil {
		return "", s.unavailable(err)
	}
	to, err := s.recipientOf(*story.Verification) // not so once it was erased: then nothing can be compared, nor suppressed
	known := err == nil
	if known && !s.means(t.To, to) {
		return OtherRecipient, nil
	}
	var bar store.SuppressAs
	if why := t.cause(); known && why != "" && to.Domain() != delivery.SimulatorDomain {
		bar = store.SuppressAs{Cause: why, Address: to.Hash(s.IndexKey), For: s.Terms().SuppressFor}
	}
	fresh, err := s.Log.IngestProviderEvent(ctx, store.ProviderEvent{Send: t.Send, Kind: t.Kind, At: t.At, Provider: t.Provider, Detail: t.Detail}, bar)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return UnknownMessage, nil
	case err != nil:
		return "", s.unavailable(err)
	case !fresh:
		return Repeated, nil
	}
	s.Logger.Info("a provider told of a message", "send", t.Send, "provider", t.Provider, "kind", string(t.Kind), "detail", t.Detail)
	return Recorded, nil
}

// means says whether a provider's recipient is the one that the message went to. It may be written as "Name <address>".
func (s *Service) means(told string, to recipient.Recipient) bool {
	if told == "" {
		return true
	}
	if _, bare, framed := strings.Cut(told, "<"); framed {
		told = strings.TrimSuffix(strings.TrimSpace(bare), ">")
	}
	other, err := recipient.Parse(to.Channel(), told)
	return err == nil && other.Hash(s.IndexKey) == to.Hash(s.IndexKey)
}

// cause is why an event suppresses its recipient; empty: it does not. A code is believed before a provider's own word for a
// bounce: 5.7.x is policy and 4.x.x passes, whatever it is called (MAIL-11).
func (t Told) cause() store.Cause {
	switch {
	case t.Kind == store.ProviderComplained:
		return store.Complaint
	case t.Kind == store.ProviderOptedOut:
		return store.OptOut
	case t.Kind != store.ProviderBounced:
		return ""
	case delivery.NoMailbox(t.Enhanced), t.Gone && !strings.HasPrefix(t.Enhanced, "5.7.") && !strings.HasPrefix(t.Enhanced, "4."):
		return store.HardBounce
	}
	return ""
}
