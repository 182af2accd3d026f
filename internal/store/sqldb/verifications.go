package sqldb

import (
	"context"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

const cancelSQL = `
UPDATE verifications SET canceled_at = @now
WHERE id = @id AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > @now`

// Cancel cancels a verification and, in the same transaction, adds the events. It returns
// false if the verification has ended or is unknown.
func (db *DB) Cancel(ctx context.Context, id string, events ...store.NewEvent) (bool, error) {
	if !store.AreValidTexts(id) {
		return false, nil
	}
	return WriteWithResult(ctx, db, "Cancel", func(q Tx) (bool, error) { return q.cancel(id, events) })
}

func (t Tx) cancel(id string, events []store.NewEvent) (bool, error) {
	ok, err := t.Change(cancelSQL, Args{"id": id})
	if err != nil {
		return false, err
	}
	if !ok {
		return false, t.exec(confirmSQL, Args{"id": id})
	}
	return true, t.AddAppEvents(id, "", events...)
}

// setCanceledIfOpenSQL is an assignment for UPDATE verifications.
const setCanceledIfOpenSQL = `
    canceled_at = CASE WHEN approved_at IS NULL AND canceled_at IS NULL AND expires_at > @now THEN @now ELSE canceled_at END`

const notMeSQL = `
UPDATE verifications SET not_me_at = @now,` + setCanceledIfOpenSQL + `
WHERE id = @id AND not_me_at IS NULL`

// ReportNotMe records that the recipient didn't ask for the verification, cancels it unless it is
// approved or expired, and adds the event with the status that it then has. It returns
// fault.NotFound if no verification has the ID. A repeated call changes nothing.
func (db *DB) ReportNotMe(ctx context.Context, id string, event store.NewEvent) (store.Verification, error) {
	return WriteWithResult(ctx, db, "ReportNotMe", func(q Tx) (store.Verification, error) {
		first, err := q.Change(notMeSQL, Args{"id": id})
		if err != nil {
			return store.Verification{}, err
		}
		v, err := q.Verification(id)
		switch {
		case err != nil:
			return v, err
		case !first:
			return v, q.exec(confirmSQL, Args{"id": id})
		case !v.ApprovedAt.IsZero():
			event.Status = "approved"
		case v.CanceledAt.IsZero():
			event.Status = "expired"
		}
		return v, q.AddAppEvents(id, "", event)
	})
}

const redeemSQL = `
UPDATE verifications SET redeemed_at = coalesce(redeemed_at, @now), redeemed_by = @by
WHERE id = @id AND approved_at IS NOT NULL AND (redeemed_at IS NULL OR redeemed_by = @by)`

// Redeem records that the proof of an approved verification was redeemed. keyHash is the hash of
// the request's Idempotency-Key, or nil. Redeem returns false if another request redeemed the proof
// before, or if the verification is unknown or not approved. A repetition with the same key writes
// the same again, because only a write waits for a synchronous standby, which may lack the first
// write.
func (db *DB) Redeem(ctx context.Context, id string, keyHash []byte) (bool, error) {
	if !store.AreValidTexts(id) {
		return false, nil
	}
	return db.runOne(ctx, "Redeem", redeemSQL, Args{"id": id, "by": keyHash})
}

// SetCheckKeySQL is for a check with store.CheckAnswer.KeyReused, which doesn't count.
const SetCheckKeySQL = `UPDATE verifications SET check_key = @key WHERE id = @id AND masked <> '•••'`

// CancelByAdministrator is Cancel with an audit entry. The entry's outcome is AuditFailed if the
// verification has ended or is unknown. For an ID that isn't valid text, no entry is written.
func (db *DB) CancelByAdministrator(ctx context.Context, id string, act store.AuditEntry, events ...store.NewEvent) (bool, error) {
	act, err := act.Validated()
	if err != nil || !store.AreValidTexts(id) {
		return false, err
	}
	return WriteWithResult(ctx, db, "CancelByAdministrator", func(q Tx) (bool, error) {
		ok, err := q.cancel(id, events)
		if err != nil {
			return false, err
		}
		if !ok {
			act = act.AsFailedBecauseEnded()
		}
		return ok, q.addAuditEntry(act)
	})
}

// recipientVerificationsSQL selects the verifications of an app, channel, recipient and purpose
// with a send s at most @life old; sends is a further condition on s, or "".
func recipientVerificationsSQL(d dialect, sends string) string {
	return `
SELECT ` + VerificationColumns + ` FROM verifications v
WHERE v.id ` + d.inSubquery(`
    SELECT s.verification_id FROM sends s
    WHERE s.recipient <= @recipient AND (s.recipient, s.logged_at) > (@recipient, (SELECT @now - CAST(@life AS interval)))
      AND (s.app = @app AND s.channel = @channel AND s.purpose = @purpose`+sends+`) IS TRUE`) + `
  AND v.recipient = @recipient AND v.app = @app AND v.channel = @channel AND v.purpose = @purpose`
}

// verificationToCheckSQL selects the holder's verification whose last counted check had @key, else
// the newest pending one.
func (d dialect) verificationToCheckSQL() string {
	return recipientVerificationsSQL(d, "") + ` AND v.holder = @holder
  AND (` + checkedWithKeySQL + ` OR v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > @now)
ORDER BY (` + checkedWithKeySQL + `) IS TRUE DESC, v.created_at DESC, v.id DESC LIMIT 1`
}

const checkedWithKeySQL = `substr(v.check_key, 1, 32) = @key` // 32 is store.CheckKeyHashSize

// VerificationToCheck returns the holder's verification whose last counted check had h.CheckKey,
// else the newest pending one. Error: fault.NotFound.
func (db *DB) VerificationToCheck(ctx context.Context, h store.RecipientVerificationsQuery) (store.Verification, error) {
	if err := h.Validate(); err != nil {
		return store.Verification{}, err
	}
	// An approved check may be repeated as long as the proof is valid (proof.Life, some minutes),
	// and the approval may come at the very end of the code's life. So an hour is added to the
	// longest life.
	return db.firstOfRecipient(ctx, "VerificationToCheck", db.Dialect.verificationToCheckSQL(), h, rowrules.ResendWithin+time.Hour)
}

// firstOfRecipient runs a statement of recipientVerificationsSQL. Error: fault.NotFound.
func (db *DB) firstOfRecipient(
	ctx context.Context, name, statement string, h store.RecipientVerificationsQuery, life time.Duration,
) (store.Verification, error) {
	found, err := readAllShared(ctx, db, name, VerificationFields, statement,
		Args{
			"recipient": h.Recipient, "app": h.App, "channel": h.Channel, "purpose": h.Purpose, "holder": h.Holder,
			"key": h.CheckKey, "life": life,
		})
	if err != nil {
		return store.Verification{}, err
	}
	if len(found) == 0 {
		return store.Verification{}, fault.NotFound
	}
	return found[0], nil
}

// VerificationsWithChecks returns the verifications of v's recipient, app and channel with checks,
// of all classes of callers, unless they expired more than rowrules.ConsecutiveFailedCheckWindow
// before now.
func (t Tx) VerificationsWithChecks(v store.Verification, now time.Time) ([]store.Verification, error) {
	return QueryAll(t, VerificationFields, `
SELECT `+VerificationColumns+` FROM verifications v
WHERE v.recipient = @recipient AND v.app = @app AND v.channel = @channel AND v.attempts > 0 AND v.expires_at > @after`,
		Args{"recipient": v.Recipient, "app": v.App, "channel": v.Channel, "after": now.Add(-rowrules.ConsecutiveFailedCheckWindow)})
}

// Lockout returns the lockout of v's recipient and class after failed checks.
func (db *DB) Lockout(ctx context.Context, v store.Verification) (out store.Lockout, err error) {
	_, err = db.readWithClock(ctx, "Lockout", func(q Tx, now time.Time) error {
		list, err := q.VerificationsWithChecks(v, now)
		out = rowrules.LockoutOf(list, v.Class, now)
		return err
	})
	return out, err
}
