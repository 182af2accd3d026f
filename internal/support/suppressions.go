package support

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// SuppressRequest asks that a recipient gets no mail for a while.
type SuppressRequest struct {
	Channel, To string
	App         string        // empty: from no app
	Why         string        // at most 200 characters
	For         time.Duration // 0: as long as a bounce; at most MaxSuppression
	By          string
	Act         *store.AuditEntry // that it is recorded as; recipient and reason are added
}

// MaxSuppression is how long a suppression lasts at most, DefaultSuppression how long without a wish.
const (
	MaxSuppression     = 366 * 24 * time.Hour
	DefaultSuppression = 30 * 24 * time.Hour
	maxWhy             = 200
)

// Suppress keeps mail from a recipient. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) Suppress(ctx context.Context, b SuppressRequest) (store.Suppression, error) {
	to, err := d.named(b.Channel, b.To, b.App, b.Why)
	if err != nil {
		return store.Suppression{}, err
	}
	if b.For < 0 || b.For > MaxSuppression {
		return store.Suppression{}, invalid("for", "out_of_range", "A suppression lasts for a second at least and 366 days at most.")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Suppression{}, err
	}
	lasts := b.For
	if lasts == 0 {
		lasts = d.lasts()
	}
	row, _, err := d.Store.Suppress(ctx, store.Suppression{
		ID: id, App: b.App, Channel: to.Channel(), Address: d.Vault.AddressHash(to), Recipient: d.Vault.Hash(to), To: to.Masked(),
		Cause: store.Manual, Detail: b.Why, By: b.By,
	}, lasts, d.on(b.Act, to, b.App, b.Why))
	return row, d.failed(ctx, err)
}

// lasts returns how long a suppression without a duration of its own holds.
func (d *Desk) lasts() time.Duration {
	if d := d.Policy.Get().SuppressFor; d > 0 {
		return d
	}
	return DefaultSuppression
}

// LiftRequest asks that a recipient gets mail again.
type LiftRequest struct {
	Channel, To string
	Address     recipient.Hash // instead of To: as a list of suppressions has it
	App         string         // only what is of this app alone; empty: all
	Why         string
	By          string
	Act         *store.AuditEntry // as in SuppressRequest
}

// Lift ends what is suppressed for a recipient now, and returns it. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) Lift(ctx context.Context, l LiftRequest) ([]store.Suppression, error) {
	lifting := store.LiftRequest{Channel: recipient.Channel(l.Channel), Address: l.Address, App: l.App, By: l.By, Why: l.Why}
	if l.Address == (recipient.Hash{}) {
		to, err := d.named(l.Channel, l.To, l.App, l.Why)
		if err != nil {
			return nil, err
		}
		lifting.Channel, lifting.Address = to.Channel(), d.Vault.AddressHash(to)
		l.Act = d.on(l.Act, to, l.App, l.Why)
	} else if err := checkWhy(l.Why, ""); err != nil {
		return nil, err
	} else if l.Act != nil {
		l.Act.App, l.Act.Channel, l.Act.Reason = l.App, lifting.Channel, l.Why
	}
	list, err := d.Store.Lift(ctx, lifting, l.Act)
	return list, d.failed(ctx, err)
}

// on returns the audit entry with the recipient and the reason; nil for nil.
func (d *Desk) on(act *store.AuditEntry, to recipient.Recipient, app, why string) *store.AuditEntry {
	if act == nil {
		return nil
	}
	a := *act
	a.App, a.Channel, a.Recipient, a.To, a.Reason = app, to.Channel(), d.Vault.Hash(to), to.Masked(), why
	return &a
}

// named parses the recipient and checks the app and the reason of a request.
func (d *Desk) named(channel, address, app, why string) (recipient.Recipient, error) {
	to, err := verification.ParseRecipient(channel, address, "")
	if err != nil {
		return to, err
	}
	if app != "" && !d.Policy.Get().HasApp(app) {
		return to, invalid("app", "unknown", "There is no such app.")
	}
	return to, checkWhy(why, to.Address())
}

// checkWhy checks the reason of a suppression, which the audit log keeps for good.
func checkWhy(why, to string) error {
	switch {
	case why == "":
		return invalid("reason", "required", "Say why; the record keeps it.")
	case !verification.PlainText(why, maxWhy):
		return invalid("reason", "invalid", "This has at most 200 characters, and no control character among them.")
	}
	return CheckReason(why, to)
}

// LiftPrefix ends a prefix's pause before its time; the act is recorded with it. False: it had ended. Errors: verification.ErrNotFound,
// *InvalidError, verification.ErrUnavailable.
func (d *Desk) LiftPrefix(ctx context.Context, l store.PrefixLifting, act store.AuditEntry) (store.PrefixPause, bool, error) {
	if err := CheckReason(l.Why, ""); err != nil {
		return store.PrefixPause{}, false, err
	}
	act.Reason = l.Why
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	p, done, err := d.Store.LiftPrefix(ctx, l, &act)
	if errors.Is(err, store.ErrNotFound) {
		return p, false, verification.ErrNotFound
	}
	return p, done, d.failed(ctx, err)
}
