package support

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// SuppressRequest asks that a recipient gets no mail for a while.
type SuppressRequest struct {
	Channel string        `json:"channel"`
	To      string        `json:"to"`
	App     string        `json:"app"`    // empty: from no app
	Reason  string        `json:"reason"` // at most 200 characters
	For     time.Duration `json:"-"`      // at most MaxSuppression; 0: as long as a bounce
}

// MaxSuppression is how long a suppression lasts at most, DefaultSuppression how long without a wish.
const (
	MaxSuppression     = 366 * 24 * time.Hour
	DefaultSuppression = 30 * 24 * time.Hour
	maxWhy             = 200
)

// Suppress keeps mail from a recipient; recipient and reason are added to the act. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) Suppress(ctx context.Context, b SuppressRequest, act store.AuditEntry) (store.Suppression, error) {
	to, err := d.parseTarget(b.Channel, b.To, b.App, b.Reason)
	if err != nil {
		return store.Suppression{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Suppression{}, err
	}
	row, _, err := d.Store.Suppress(ctx, store.Suppression{
		ID: id, App: b.App, Channel: to.Channel(), Address: d.Vault.AddressHash(to), Recipient: d.Vault.Hash(to), To: to.Masked(),
		Cause: store.Manual, Detail: b.Reason, By: act.Who,
	}, cmp.Or(b.For, d.Policy.Get().SuppressFor, DefaultSuppression), d.entryFor(act, to, b.App, b.Reason))
	return row, d.mapStoreError(ctx, err)
}

// LiftRequest asks that a recipient gets mail again.
type LiftRequest struct {
	Channel string         `json:"channel"`
	To      string         `json:"to"`
	Address recipient.Hash `json:"-"`   // instead of To: as a list of suppressions has it
	App     string         `json:"app"` // only what is of this app alone; empty: all
	Reason  string         `json:"reason"`
}

// Lift ends what is suppressed for a recipient now, and returns it; recipient and reason are added to the act. Errors: *InvalidError,
// verification.ErrUnavailable.
func (d *Desk) Lift(ctx context.Context, l LiftRequest, act store.AuditEntry) ([]store.Suppression, error) {
	lifting := store.LiftRequest{Channel: recipient.Channel(l.Channel), Address: l.Address, App: l.App, By: act.Who, Why: l.Reason}
	act.App, act.Channel, act.Reason = l.App, lifting.Channel, l.Reason
	record := &act
	if l.Address.IsZero() {
		to, err := d.parseTarget(l.Channel, l.To, l.App, l.Reason)
		if err != nil {
			return nil, err
		}
		lifting.Channel, lifting.Address = to.Channel(), d.Vault.AddressHash(to)
		record = d.entryFor(act, to, l.App, l.Reason)
	} else if err := checkSuppressionReason(l.Reason, ""); err != nil {
		return nil, err
	}
	list, err := d.Store.Lift(ctx, lifting, record)
	return list, d.mapStoreError(ctx, err)
}

// entryFor returns the act with the recipient and the reason.
func (d *Desk) entryFor(act store.AuditEntry, to recipient.Recipient, app, why string) *store.AuditEntry {
	act.App, act.Channel, act.Recipient, act.To, act.Reason = app, to.Channel(), d.Vault.Hash(to), to.Masked(), why
	return &act
}

// parseTarget parses the recipient and checks the app and the reason of a request.
func (d *Desk) parseTarget(channel, address, app, why string) (recipient.Recipient, error) {
	to, err := verification.ParseRecipient(channel, address, "")
	if err != nil {
		return to, err
	}
	if app != "" && !d.Policy.Get().HasApp(app) {
		return to, invalid("app", "unknown", "There is no such app.")
	}
	return to, checkSuppressionReason(why, to.Address())
}

// checkSuppressionReason checks the reason of a suppression, which the audit log keeps for good.
func checkSuppressionReason(why, to string) error {
	switch {
	case why == "":
		return invalid("reason", "required", "Say why; the record keeps it.")
	case !verification.IsPlainText(why, maxWhy):
		return invalid("reason", "invalid", "This has at most 200 characters, and no control character among them.")
	}
	return CheckReason(why, to)
}

// LiftPrefix ends a prefix's pause before its time; the act is recorded with it, unless the pause had ended. Errors:
// verification.ErrNotFound, *InvalidError, verification.ErrUnavailable.
func (d *Desk) LiftPrefix(ctx context.Context, id uuid.UUID, reason string, act store.AuditEntry) (store.PrefixPause, error) {
	if err := CheckReason(reason, ""); err != nil {
		return store.PrefixPause{}, err
	}
	act.Reason = reason
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	p, _, err := d.Store.LiftPrefix(ctx, store.PrefixLifting{ID: id, By: act.Who, Why: reason}, &act)
	return p, d.mapStoreError(ctx, err)
}
