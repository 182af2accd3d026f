package support

import (
	"context"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// similarPeriod is how far back SimilarRecipients looks: a missed code was requested today.
const similarPeriod = 24 * time.Hour

// SimilarRecipients returns the newest send of the last 24 hours to each address that differs from
// the given one by one typing error, the newest first, at most limit: a missed message may have
// gone there. Errors: *fault.InvalidError, fault.Unavailable.
func (ad *Administration) SimilarRecipients(ctx context.Context, channel, to string, limit int) ([]store.SendOrRefusal, error) {
	r, err := verification.ParseRecipient(channel, to, "")
	if err != nil {
		return nil, err
	}
	mine := ad.Vault.CountedHash(r)
	var near []recipient.Hash
	for _, other := range r.OneTypoAway() {
		if h := ad.Vault.CountedHash(other); h != mine { // two spellings of one mailbox are the same
			near = append(near, h)
		}
	}
	rows, err := ad.Store.LatestRowPerRecipient(ctx, near, similarPeriod)
	if err != nil {
		return nil, err
	}
	return rows[:min(limit, len(rows))], nil
}

// Lockouts returns the recipient's current lockouts, at most one for each class of callers. Error:
// fault.Unavailable.
func (ad *Administration) Lockouts(ctx context.Context, app string, ch recipient.Channel,
	h recipient.Hash,
) (all []store.Lockout, err error) {
	for _, class := range store.Classes {
		out, err := ad.Store.Lockout(ctx, store.Verification{App: app, Channel: ch, Recipient: h, Class: class})
		if err != nil {
			return nil, err
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
