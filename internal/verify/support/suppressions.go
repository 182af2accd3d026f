package support

import (
	"cmp"
	"context"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

type SuppressRequest struct {
	Channel string        `json:"channel"`
	To      string        `json:"to"`
	App     string        `json:"app"`    // suppresses sends of this app; empty: of all apps
	Reason  string        `json:"reason"` // at most 200 characters
	For     time.Duration `json:"-"`      // at most MaxSuppressionPeriod; 0: as long as a bounce suppresses
}

// MaxSuppressionPeriod is the longest period of a suppression. DefaultSuppressionPeriod applies if
// neither the request nor the configuration sets a period.
const (
	MaxSuppressionPeriod     = 366 * 24 * time.Hour
	DefaultSuppressionPeriod = 30 * 24 * time.Hour
)

// Suppress records the action, too. Errors: *fault.InvalidError, fault.Unavailable.
func (ad *Administration) Suppress(ctx context.Context, r SuppressRequest, act store.AuditEntry) (store.Suppression, error) {
	to, err := ad.parseSuppressible(r.Channel, r.To, r.App, r.Reason)
	if err != nil {
		return store.Suppression{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Suppression{}, err
	}
	row, _, err := ad.Store.Suppress(ctx, store.Suppression{
		ID: id, App: r.App, Channel: to.Channel(), Address: ad.Vault.SuppressionHash(to), Recipient: ad.Vault.CountedHash(to),
		To:    to.Masked(),
		Cause: store.CauseManual, Detail: r.Reason, By: act.Who,
	}, cmp.Or(r.For, ad.Policy.Get().SuppressFor, DefaultSuppressionPeriod), ad.auditEntryFor(act, to, r.App, r.Reason))
	return row, err
}

type LiftSuppressionsRequest struct {
	Channel string         `json:"channel"`
	To      string         `json:"to"`
	Address recipient.Hash `json:"-"`   // in place of To: the hash from the list of suppressions
	App     string         `json:"app"` // lifts suppressions of this app; empty: of all apps
	Reason  string         `json:"reason"`
}

// LiftSuppressions returns the suppressions that it ends. Errors: *fault.InvalidError,
// fault.Unavailable.
func (ad *Administration) LiftSuppressions(ctx context.Context, l LiftSuppressionsRequest, act store.AuditEntry) ([]store.Suppression,
	error,
) {
	lifting := store.LiftSuppressionsRequest{
		Channel: recipient.Channel(l.Channel), Address: l.Address, App: l.App, By: act.Who,
		Why: l.Reason,
	}
	act.App, act.Channel, act.Reason = l.App, lifting.Channel, l.Reason
	record := &act
	if l.Address.IsZero() {
		to, err := ad.parseSuppressible(l.Channel, l.To, l.App, l.Reason)
		if err != nil {
			return nil, err
		}
		lifting.Channel, lifting.Address = to.Channel(), ad.Vault.SuppressionHash(to)
		record = ad.auditEntryFor(act, to, l.App, l.Reason)
	} else if err := checkSuppressionReason(l.Reason, ""); err != nil {
		return nil, err
	}
	list, err := ad.Store.LiftSuppressions(ctx, lifting, record)
	return list, err
}

func (ad *Administration) auditEntryFor(act store.AuditEntry, to recipient.Recipient, app, why string) *store.AuditEntry {
	act.App, act.Channel, act.Recipient, act.To, act.Reason = app, to.Channel(), ad.Vault.CountedHash(to), to.Masked(), why
	return &act
}

func (ad *Administration) parseSuppressible(channel, address, app, why string) (recipient.Recipient, error) {
	to, err := verification.ParseRecipient(channel, address, "")
	if err != nil {
		return to, err
	}
	if app != "" && !ad.Policy.Get().HasApp(app) {
		return to, fault.Invalid("app", "unknown", "There is no such app.")
	}
	return to, checkSuppressionReason(why, to.Address())
}

// checkSuppressionReason is stricter than CheckReason: the reason is shorter, and has no line ends
// and no tabs.
func checkSuppressionReason(why, address string) error {
	switch {
	case why == "":
		return fault.Invalid("reason", "required", "Say why; it is recorded.")
	case utf8.RuneCountInString(why) > MaxSuppressionReasonLength:
		return fault.Invalid("reason", "too_long", "The reason of a suppression has at most 200 characters.")
	case !verification.IsPlainText(why, MaxSuppressionReasonLength):
		return fault.Invalid("reason", "hidden_character", hiddenCharacterDetail)
	}
	return CheckReason(why, address)
}

// LiftPrefixPause ends the pause of a prefix early. If the pause has already ended, it changes and
// records nothing. Errors: fault.NotFound, *fault.InvalidError, fault.Unavailable.
func (ad *Administration) LiftPrefixPause(ctx context.Context, id uuid.UUID, reason string,
	act store.AuditEntry,
) (store.PrefixPause, error) {
	if err := CheckReason(reason, ""); err != nil {
		return store.PrefixPause{}, err
	}
	act.Reason = reason
	p, _, err := ad.Store.LiftPrefixPause(context.WithoutCancel(ctx), store.LiftPauseRequest{ID: id, By: act.Who, Why: reason}, &act)
	return p, err
}
