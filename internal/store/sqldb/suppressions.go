package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

var (
	suppressionSQL = `SELECT ` + suppressionTable.SelectList() + ` FROM suppressions`

	liftSuppressionsSQL = `
UPDATE suppressions SET lifted_at = @now, lifted_by = @by, lifted_why = @why
WHERE lifted_at IS NULL AND until > @now AND (@app = '' OR app = @app) AND channel = @channel AND address = @address
  RETURNING ` + suppressionTable.SelectList()

	// liftBurstsSQL lifts the suppressions of every burst: if a server refuses many recipients with
	// the same words, the fault may be the server's and not the addresses'. A burst is of one class
	// of callers: dead addresses typed by strangers lift no suppression of others. The statement
	// reads at most 100 rows of a group to decide whether it is a burst.
	liftBurstsSQL = `
WITH fresh AS MATERIALIZED (
    SELECT x.id, x.server, x.words, ` + callerClassSQL("x") + ` AS class FROM suppressions x
    WHERE x.words <> '' AND x.since > @window AND x.lifted_at IS NULL
)
UPDATE suppressions SET lifted_at = @now, lifted_why = '` + store.LiftedBurst + `' WHERE id IN (
    SELECT f.id FROM fresh f WHERE (f.server, f.words, f.class) IN (
        SELECT g.server, g.words, g.class FROM (SELECT DISTINCT server, words, class FROM fresh) g
        WHERE (SELECT count(DISTINCT r.recipient) FROM (
            SELECT x.recipient FROM suppressions x
            WHERE x.server = g.server AND x.words = g.words AND x.words <> '' AND x.since > @window AND ` + callerClassSQL("x") + ` = g.class
            LIMIT 100) r) > @limit))`

	burstsSQL = `
SELECT x.server, x.words, count(DISTINCT x.recipient) FROM suppressions x
WHERE x.lifted_why = '` + store.LiftedBurst + `' AND x.since > @since
GROUP BY x.server, x.words HAVING max(CASE WHEN EXISTS (
    SELECT 1 FROM verifications v WHERE v.recipient = x.recipient AND v.attempts > 0 AND v.channel = x.channel AND v.approved_at > @known
  ) THEN 1 ELSE 0 END) = 1 ORDER BY 3 DESC, 1, 2 LIMIT 20`
)

// LiftDisprovedSQL lifts those suppressions within scope (SQL) whose hard bounce a fact disproves:
// the code was entered, or another server accepted a mail with the same code that didn't bounce.
// The statement reads bounce and fact from rows, so it doesn't matter which was stored first.
func LiftDisprovedSQL(scope string) string {
	return `
UPDATE suppressions SET lifted_at = @now, lifted_why = '` + store.LiftedAccepted + `'
WHERE lifted_at IS NULL AND reason = '` + string(store.CauseHardBounce) + `' AND ` + scope + ` AND EXISTS (
    SELECT 1 FROM sends c JOIN verifications v ON v.id = c.verification_id
    WHERE c.id = suppressions.send_id AND (v.approved_at IS NOT NULL OR v.sends > 1 AND c.provider <> '' AND EXISTS (
        SELECT 1 FROM sends o WHERE o.recipient = c.recipient AND o.logged_at >= v.created_at AND o.verification_id = v.id
          AND o.status = 'sent' AND o.receipt <> 'undelivered' AND NOT EXISTS (
            SELECT 1 FROM suppressions y JOIN sends b ON b.id = y.send_id
            WHERE y.recipient = c.recipient AND y.reason = suppressions.reason AND b.verification_id = v.id AND b.provider = o.provider))))`
}

var LiftDisprovedOfRecipientSQL = LiftDisprovedSQL(`recipient = @recipient`)

// callerClassSQL returns the class of the caller whose send caused the suppression x, or that of
// secret keys if the verification is gone.
func callerClassSQL(x string) string {
	return `coalesce((SELECT v.class FROM sends c JOIN verifications v ON v.id = c.verification_id WHERE c.id = ` + x + `.send_id), '')`
}

// knownRecipient is how long an address is known to work after an approved code.
const knownRecipient = 90 * 24 * time.Hour

// settleLockKey lets one replica at a time settle suppressions.
const settleLockKey = 0x6275727374

// SettleNew lifts the suppression that a send has just caused, if a row disproves it, and those of
// all bursts. Finish and IngestProviderEvent call it after their commit, so that of several sends
// at once the last call sees all. It ignores errors, because SettleSuppressions repeats it.
func (db *DB) SettleNew(ctx context.Context, send uuid.UUID, n store.NewSuppression) {
	if n.For > 0 && n.Cause == store.CauseHardBounce {
		_ = db.settle(ctx, `id = @id`, store.SuppressionID(send, n.Cause))
	}
}

// SettleSuppressions repeats SettleNew for suppressions that began within store.BurstReportedFor,
// in case a process died before SettleNew, or parallel calls didn't see each other's rows.
func (db *DB) SettleSuppressions(ctx context.Context) error {
	return db.settle(ctx, `since > @since`, uuid.Nil)
}

func (db *DB) settle(ctx context.Context, scope string, id uuid.UUID) error {
	return db.Write(ctx, "SettleSuppressions", func(q Tx) error {
		return q.ExecAll(Args{
			"key": settleLockKey, "id": id, "now": q.Now, "since": q.Now.Add(-store.BurstReportedFor), "window": q.Now.Add(-store.BurstWindow),
			"limit": store.BurstLimit,
		}, db.Dialect.pick(advisoryLockSQL), LiftDisprovedSQL(scope), liftBurstsSQL)
	})
}

// LiftedBursts returns the largest 20 bursts within store.BurstReportedFor with a recipient who had
// a code approved within knownRecipient. Bursts of several classes of callers that have the same
// server and words are one.
func (db *DB) LiftedBursts(ctx context.Context) (list []store.Burst, err error) {
	_, err = db.readWithClock(ctx, "LiftedBursts", func(q Tx, now time.Time) error {
		list, err = QueryAll(q, func(b *store.Burst) []any { return []any{&b.Server, &b.Words, &b.Recipients} }, burstsSQL,
			Args{"since": now.Add(-store.BurstReportedFor), "known": now.Add(-knownRecipient)})
		return err
	})
	return list, err
}

// Suppress adds a suppression, unless there is one with the same ID.
func (t Tx) Suppress(x store.Suppression) (added bool, err error) {
	insert, args := suppressionTable.InsertSQL(store.InsertedColumn, &x)
	return t.Change(insert+` ON CONFLICT (id) DO NOTHING`, args)
}

// suppressions returns the suppressions with these IDs, oldest first. It skips unknown IDs.
func (t Tx) suppressions(ids []uuid.UUID) ([]store.Suppression, error) {
	return QueryAll(t, suppressionTable.Destinations, suppressionSQL+` WHERE id `+t.Dialect.inList("ids")+` ORDER BY since, id`,
		Args{"ids": ids})
}

// Suppress adds a suppression that begins now. If there is one with the same ID, even a lifted one,
// Suppress returns it unchanged, and false. It writes the audit entry in both cases.
func (db *DB) Suppress(ctx context.Context, x store.Suppression, lasts time.Duration,
	act *store.AuditEntry,
) (out store.Suppression, added bool, err error) {
	x, act, err = x.Validated(act)
	if err != nil {
		return x, false, err
	}
	err = db.Write(ctx, "Suppress", func(q Tx) error {
		if act != nil {
			if err := q.addAuditEntry(*act); err != nil {
				return err
			}
		}
		x.Since, x.Until = q.Now, q.Now.Add(lasts.Truncate(time.Microsecond))
		out = x
		if added, err = q.Suppress(x); err != nil || added {
			return err
		}
		rows, err := q.suppressions([]uuid.UUID{x.ID})
		if err == nil {
			out = rows[0] // there is one, as Suppress added none
		}
		return err
	})
	if err != nil {
		return store.Suppression{}, false, err
	}
	return out, added, nil
}

// Suppressions returns suppressions sorted by Since and then ID, newest first, with the time on the
// database's clock.
func (db *DB) Suppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time,
	err error,
) {
	now, err = db.readWithClock(ctx, "Suppressions", func(q Tx, now time.Time) error {
		var c Conditions
		if f.Active {
			c.Add("lifted_at IS NULL AND until > ?", now)
		}
		if f.Recipient != nil {
			c.Add("recipient = ?", *f.Recipient)
		}
		c.addBefore("since, id", f.Before)
		list, err = QueryAll(q, suppressionTable.Destinations, suppressionSQL+c.Where()+
			fmt.Sprintf(` ORDER BY since DESC, id DESC LIMIT %d`, f.Limit), c.Args)
		return err
	})
	return list, now, err
}

// LiftSuppressions ends an address's suppressions in force, and returns them, oldest first. The
// audit entry is written even if there are none; see store.AuditEntry.WithLiftedSuppressions.
func (db *DB) LiftSuppressions(ctx context.Context, l store.LiftSuppressionsRequest, act *store.AuditEntry) (lifted []store.Suppression,
	err error,
) {
	if l, act, err = l.Validated(act); err != nil {
		return nil, err
	}
	lifted, err = WriteWithResult(ctx, db, "LiftSuppressions", func(q Tx) ([]store.Suppression, error) {
		list, err := QueryAll(q, suppressionTable.Destinations, liftSuppressionsSQL,
			Args{
				"by": l.By, "why": l.Why, "channel": l.Channel, "address": l.Address, "app": l.App, "now": q.Now,
			})
		if err != nil || act == nil {
			return list, err
		}
		return list, q.addAuditEntry(act.WithLiftedSuppressions(list))
	})
	slices.SortFunc(lifted, func(a, b store.Suppression) int {
		return cmp.Or(a.Since.Compare(b.Since),
			compareIDs(a.ID, b.ID))
	})
	return lifted, err
}
