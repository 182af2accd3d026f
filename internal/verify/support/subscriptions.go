package support

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

const AcceptSubscriptionAction = "subscription.accept"

// An administrator's acceptance of a subscription is valid for acceptancePeriod. It is searched for
// in maxSearchedEntries audit entries.
const (
	acceptancePeriod   = time.Hour
	maxSearchedEntries = 200
)

// AllowSubscription records that an administrator accepts the next subscription that a provider's
// topic requests within acceptancePeriod. The acceptance is only an audit entry, which has the
// outcome AuditBegun until ConfirmSubscription has confirmed the subscription. Errors:
// *fault.InvalidError, fault.Unavailable.
func (ad *Administration) AllowSubscription(ctx context.Context, provider, reason string, act store.AuditEntry) error {
	if err := CheckReason(reason, ""); err != nil {
		return err
	}
	act.Target, act.Reason, act.Outcome = provider, reason, store.AuditBegun
	return ad.Store.AddAuditEntry(ctx, act)
}

// ConfirmSubscription calls confirm if an administrator accepted the provider's subscription, and
// records the confirmation. If confirm fails, the acceptance stays valid, so the call can be
// repeated. Errors: those of confirm; fault.Unavailable.
func (ad *Administration) ConfirmSubscription(ctx context.Context, provider string,
	confirm func(context.Context) error,
) (accepted bool, err error) {
	entries, err := ad.Store.AuditEntries(ctx, store.AuditFilter{What: AcceptSubscriptionAction, Limit: maxSearchedEntries})
	if err != nil {
		return false, err
	}
	now, ended := ad.Now(), map[uuid.UUID]bool{}
	for _, a := range entries { // the newest first
		ended[a.Completes] = true
		if a.Target != provider || a.Outcome != store.AuditBegun || ended[a.ID] || now.Sub(a.At) > acceptancePeriod {
			continue
		}
		if err := confirm(ctx); err != nil {
			return true, err
		}
		ad.recordEnd(context.WithoutCancel(ctx), a, store.AuditDone, "")
		return true, nil
	}
	return false, nil
}
