package sqldb

import (
	"context"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
)

// CountedCodeSQL is the condition that the code of a verification v counts in statistics, for
// pauses of prefixes (store.PrefixPause) and for expiry events: the service checks it, or its
// caller reports the outcome.
const CountedCodeSQL = `(NOT v.caller_checks OR v.reported <> '')`

const reportSQL = `
UPDATE verifications SET reported = @report, approved_at = CASE WHEN @approves THEN @now END, check_key = @key
WHERE id = @id AND masked <> '•••' AND caller_checks AND reported NOT IN (@report, 'approved')`

// confirmSQL changes no value. It is for a call that changes nothing, because only a write's COMMIT
// waits for a synchronous standby, which might lack the rows that were read.
const confirmSQL = `UPDATE verifications SET reported = reported WHERE id = @id`

// Report writes the caller's report on a code that the caller checks, and returns the changed
// verification, or fault.NotFound if no verification has the ID. key is the hash of the report's
// Idempotency-Key, or nil. Report adds the event for ReportApproved, or if AddExpiryEvents may have
// passed the code. A repeated report changes nothing, and neither does a report after an approval.
func (db *DB) Report(ctx context.Context, id string, r store.Report, key []byte, event store.NewEvent) (v store.Verification, err error) {
	if !store.AreValidTexts(id) {
		return v, fault.NotFound
	}
	err = db.Write(ctx, "Report", func(q Tx) error {
		if v, err = q.Verification(id); err != nil {
			return err
		}
		if v.Reported == r || v.Reported == store.ReportApproved {
			return q.exec(confirmSQL, Args{"id": id})
		}
		if err := db.DeleteCountsOfHour(q, v.CreatedAt); err != nil {
			return err
		}
		changed, err := q.Change(reportSQL, Args{"id": id, "report": r, "approves": r == store.ReportApproved, "key": key})
		// AddExpiryEvents writes the event of a code with ReportDue, but may already have passed a
		// code without a report. CallTimeout is half of its delay, and leaves the other half for
		// this commit.
		late := v.Reported == "" && v.CanceledAt.IsZero() && v.ExpiresAt.Before(q.Now.Add(-store.CallTimeout))
		if r == store.ReportFailed {
			event.ID = store.ExpiryEventID(v)
		}
		if changed && err == nil && (r == store.ReportApproved || late) {
			err = q.AddAppEvents(id, "", event)
		}
		if changed && err == nil && r == store.ReportApproved {
			err = q.exec(LiftDisprovedOfRecipientSQL, Args{"now": q.Now, "recipient": v.Recipient})
		}
		if err == nil {
			v, err = q.Verification(id)
		}
		return err
	})
	return v, err
}

// callerCodeSQL selects one of a recipient's verifications whose code the caller checks: the one
// reported with @key, else the newest that is neither reported nor canceled, else the newest.
func (d dialect) callerCodeSQL() string {
	return recipientVerificationsSQL(d, ` AND s.status <> 'failed'`) + ` AND v.caller_checks
ORDER BY (` + checkedWithKeySQL +
		`) IS TRUE DESC, v.canceled_at IS NULL AND v.reported IN ('', 'due') DESC, v.created_at DESC, v.id DESC LIMIT 1`
}

// NewestCallerCode returns the verification to which a report on an app, recipient and purpose
// refers, among those with a send younger than the longest life of a code plus an hour. It ignores
// h.Holder. Error: fault.NotFound.
func (db *DB) NewestCallerCode(ctx context.Context, h store.RecipientVerificationsQuery) (store.Verification, error) {
	return db.firstOfRecipient(ctx, "NewestCallerCode", db.Dialect.callerCodeSQL(), h, store.MaxCodeLife+time.Hour)
}
