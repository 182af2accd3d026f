package support

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// recently is how far back SimilarRecipients looks: a person who misses a code asked today.
const recently = 24 * time.Hour

// SimilarRecipients returns the newest requests of recipients whose address differs by one typing error, at most so many: the mail may have
// gone there. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) SimilarRecipients(ctx context.Context, channel, to string, most int) ([]store.Send, error) {
	r, err := verification.ParseRecipient(channel, to, "")
	if err != nil {
		return nil, err
	}
	mine := d.Vault.Hash(r)
	var near []recipient.Hash
	for _, other := range r.OneTypoAway() {
		if h := d.Vault.Hash(other); h != mine { // two spellings of one mailbox are the same
			near = append(near, h)
		}
	}
	rows, err := d.Store.Latest(ctx, near, recently)
	if err != nil {
		return nil, d.mapStoreError(ctx, err)
	}
	return rows[:min(most, len(rows))], nil
}

// Lockouts returns the lockouts of a recipient that hold now, at most one for each kind of caller. Error: verification.ErrUnavailable.
func (d *Desk) Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) (all []store.Lockout, err error) {
	for _, byBrowser := range []bool{true, false} {
		out, err := d.Store.LockedOut(ctx, store.Verification{App: app, Channel: ch, Recipient: h, ByBrowser: byBrowser})
		if err != nil {
			return nil, d.mapStoreError(ctx, err)
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
