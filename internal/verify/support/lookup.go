package support

import (
	"context"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Lockouts returns at most one for each class of callers. Error: fault.Unavailable.
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
