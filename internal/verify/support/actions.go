package support

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// Target is the recipient of an action, in one app or in all.
type Target struct {
	App       string // empty: every app
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	To        string // masked
}

// ParseTarget parses the recipient, app and purpose of a request, and checks its reason. The reason
// must not contain the recipient, because the audit log keeps it for good. Error:
// *fault.InvalidError.
func (ad *Administration) ParseTarget(app, channel, to, purpose, reason string) (Target, error) {
	r, err := verification.ParseRecipient(channel, to, "")
	if err != nil {
		return Target{}, err
	}
	set := ad.Policy.Get()
	p, err := verification.FindPurpose(set, purpose)
	if err != nil {
		return Target{}, err
	}
	if app != "" && !set.HasApp(app) {
		return Target{}, fault.Invalid("app", "unknown", "There is no such app.")
	}
	if err := CheckReason(reason, r.Address()); err != nil {
		return Target{}, err
	}
	return Target{
			App: app, Channel: r.Channel(), Purpose: p.Name, Recipient: ad.Vault.CountedHash(r),
			To: r.Masked(),
		},
		nil
}

func (t Target) auditEntryWithTarget(act store.AuditEntry) store.AuditEntry {
	act.App, act.Channel, act.Purpose, act.Recipient, act.To = t.App, t.Channel, t.Purpose, t.Recipient, t.To
	return act
}

func (ad *Administration) affectedApps(target Target) []string {
	if target.App != "" {
		return []string{target.App}
	}
	return slices.Collect(maps.Keys(ad.Policy.Get().Apps))
}

// ResetQuota resets the counts of a recipient in the database and in the limiter. These no longer
// count:
//
//   - the recipient's past sends under the purpose's policy
//   - the recipient's rejections, pauses after failures (backoff) and failed checks, under any
//     policy
//
// Rules of networks and apps keep their counts. A hold, the time for which a carrier refuses
// messages to the recipient, stays, too.
//
// The database comes first: otherwise events that it still counts might be added to the limiter
// again. If the limiter doesn't answer, only the database is reset, and the limiter still refuses
// sends. The caller should then repeat the reset. Errors: *fault.InvalidError if the purpose is not
// configured; fault.Unavailable if the database or the limiter doesn't answer.
func (ad *Administration) ResetQuota(ctx context.Context, target Target, act store.AuditEntry) error {
	set := ad.Policy.Get()
	purpose, err := verification.FindPurpose(set, target.Purpose)
	if err != nil {
		return err
	}
	var logged []store.SendBucket
	var limited []string
	for _, app := range ad.affectedApps(target) {
		logged = append(logged, store.SendBucket{
			App: app, Channel: target.Channel, Recipient: target.Recipient,
			Purposes: purpose.PolicyPurposes,
		})
		limited = append(limited, buckets.Failures(app, target.Channel, target.Recipient))
		for _, class := range store.Classes {
			limited = append(limited, buckets.Backoff(app, target.Channel, target.Recipient, class))
		}
		for _, name := range set.CurrentAndFormerBucketNames(purpose.Name) {
			limited = append(limited, buckets.Recipient(app, target.Channel, name, target.Recipient))
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	act = target.auditEntryWithTarget(act)
	act.Outcome = store.AuditBegun
	if err := ad.Store.ResetCounters(ctx, logged, act); err != nil {
		return err
	}
	for _, app := range ad.affectedApps(target) {
		ad.Codes.DropCachedLockouts(app, target.Channel, target.Recipient)
	}
	if err := ad.Limiter.Reset(ctx, limited...); err != nil {
		ad.recordEnd(ctx, act, store.AuditFailed, "limiter")
		return fault.Unavailable.Wrap(fmt.Errorf("the quota was reset in the database, but not in the limiter: %w", err))
	}
	ad.recordEnd(ctx, act, store.AuditDone, "")
	return nil
}

// recordEnd records how an action ended. If the database doesn't accept the entry, the audit log
// still shows the action as begun. Then the outcome goes to the process's own log.
func (ad *Administration) recordEnd(ctx context.Context, act store.AuditEntry, outcome store.AuditOutcome, detail string) {
	end, err := store.AuditEntryCompletion(act, outcome, detail)
	if err == nil {
		err = ad.Store.AddAuditEntry(ctx, end)
	}
	if err != nil {
		ad.Logger.ErrorContext(ctx, "could not store audit entry of finished action", "audit_entry", act.ID, "outcome",
			string(outcome),
			"detail", detail,
			"error", err, logs.SeeDatabaseAway)
	}
}

// EraseRecipient removes the recipient's address from the database, for all apps and purposes. The
// sends still count, under the keyed hash, until the longest window has passed. Error:
// fault.Unavailable.
func (ad *Administration) EraseRecipient(ctx context.Context, target Target, act store.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EraseTimeout)
	defer cancel()
	target.App, target.Purpose = "", ""
	return ad.Store.Erase(ctx, target.Recipient, ad.Policy.Get().ErasedHashRetention(), target.auditEntryWithTarget(act))
}

// EraseTimeout is longer than store.CallTimeout, because a recipient may have many rows.
const EraseTimeout = 90 * time.Second

// CancelVerification cancels a verification. It returns false if the verification had ended before.
// Error: fault.Unavailable.
func (ad *Administration) CancelVerification(ctx context.Context, v store.Verification, act store.AuditEntry) (bool, error) {
	tell, err := ad.Events.NewEvent(v, store.VerificationCanceled)
	if err != nil {
		return false, err
	}
	done, err := ad.Store.CancelByAdministrator(context.WithoutCancel(ctx), v.ID, targetOf(v).auditEntryWithTarget(act), tell)
	ad.Events.WakeForEvent(tell)
	return done, err
}

func targetOf(v store.Verification) Target {
	return Target{App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To}
}

const resendWait = 2 * time.Second

// Resend sends the code of a pending verification again, as if the app had requested it with its
// secret key. The audit log gets an entry before the send, and the outcome after it. Both gates
// decide the send, like any other; if one refuses, the Answer is not Admitted. If the send fails
// within resendWait, for example because of a suppression, its status in the Answer is failed.
// Rules on addresses and networks count the send for the administrator's address (from). If the
// code has ended or will soon end, Resend returns *fault.InvalidError. Other errors: those of
// verification.Service.Send.
func (ad *Administration) Resend(ctx context.Context, v store.Verification, from netip.Addr,
	act store.AuditEntry,
) (verification.Answer, error) {
	now, err := ad.loadResendable(ctx, v)
	if err != nil {
		return verification.Answer{}, err
	}
	act = targetOf(v).auditEntryWithTarget(act)
	act.Outcome = store.AuditBegun
	if err := ad.Store.AddAuditEntry(ctx, act); err != nil {
		return verification.Answer{}, err
	}
	answer, err := ad.Codes.Send(ctx, verification.Request{
		Caller: verification.Caller{App: v.App, Kind: verification.BackEnd, Trust: verification.SaidKnown, IP: from},
		Resend: now.ID, Wait: resendWait,
	})
	ctx = context.WithoutCancel(ctx)
	var locked *verification.FailedCheckLimitError
	switch blocking, _ := answer.Quota.Blocking(); {
	case errors.As(err, &locked):
		ad.recordEnd(ctx, act, store.AuditFailed, policy.LockoutName)
	case err != nil:
		ad.recordEnd(ctx, act, store.AuditFailed, "error")
	case !answer.Admitted:
		ad.recordEnd(ctx, act, store.AuditFailed, blocking.Name)
	case answer.View.Send.Status == store.Failed:
		ad.recordEnd(ctx, act, store.AuditFailed, answer.View.Send.Reason)
	default:
		ad.recordEnd(ctx, act, store.AuditDone, "")
	}
	return answer, err
}

// loadResendable reads a verification again before a resend. It returns *fault.InvalidError if the
// verification has ended or will soon end, because a resend would open a new one, and if a caller
// made the code, because the service doesn't keep such a code. Other errors: the store's.
func (ad *Administration) loadResendable(ctx context.Context, v store.Verification) (store.Verification, error) {
	v, _, now, err := ad.Store.Verification(ctx, v.ID)
	if err != nil {
		return v, err
	}
	if v.CallerChecks {
		return v, fault.Invalid("id", "not_kept", "The app made this code, and only the app can have it sent again.")
	}
	life := v.ExpiresAt.Sub(v.CreatedAt)
	if verification.StateOf(v, now) != verification.Pending || v.ExpiresAt.Sub(now) < verification.MinResendLife(life) {
		return v, fault.Invalid("id", "ended", "This code has ended or is about to end. The person has to ask for a new one.")
	}
	return v, nil
}

// RevealRecipient records the access in the audit log before it returns the full recipient. Errors:
// *fault.InvalidError if the recipient was erased, or if its key is no longer in the key ring;
// fault.Unavailable.
func (ad *Administration) RevealRecipient(ctx context.Context, v store.Verification, act store.AuditEntry) (string, error) {
	if err := ad.Store.AddAuditEntry(ctx, targetOf(v).auditEntryWithTarget(act)); err != nil {
		return "", err
	}
	r, err := ad.Vault.OpenRecipient(v)
	if err != nil {
		ad.recordEnd(ctx, targetOf(v).auditEntryWithTarget(act), store.AuditFailed, "unreadable")
		return "", fault.Invalid("id", "not_kept",
			"The full address is no longer stored, or its key is no longer in the key ring.")
	}
	return r.Address(), nil
}
