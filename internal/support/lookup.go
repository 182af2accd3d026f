package support

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// recently is how far back requests under another spelling are looked for: a person that misses a code asked today.
const recently = 24 * time.Hour

// NearSpellings are the newest requests of recipients one slip of the hand away from this one, at most so many of them: after a
// typing error the mail went there. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) NearSpellings(ctx context.Context, channel, to string, most int) ([]store.Send, error) {
	r, err := verification.ParseRecipient(channel, to)
	if err != nil {
		return nil, err
	}
	mine := d.Vault.Hash(r)
	var near []recipient.Hash
	for _, other := range r.Near() {
		if h := d.Vault.Hash(other); h != mine { // two spellings of one mailbox are the same
			near = append(near, h)
		}
	}
	rows, err := d.Store.Latest(ctx, near, recently)
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	return rows[:min(most, len(rows))], nil
}

// Lockouts are the kinds of callers whose codes for a recipient cannot be checked now, for the administrator. Error:
// verification.ErrUnavailable.
func (d *Desk) Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) (all []store.Lockout, err error) {
	for _, byBrowser := range []bool{true, false} {
		out, err := d.Store.LockedOut(ctx, store.Verification{App: app, Channel: ch, Recipient: h, ByBrowser: byBrowser})
		if err != nil {
			return nil, d.failed(ctx, err)
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
