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
WHERE lifted_at IS NULL AND until > @now AND (@app = '' OR app = @app) AND id IN (
    SELECT id FROM suppressions WHERE lifted_at IS NULL AND until > @now AND channel = @channel AND address = @address
    UNION ALL SELECT y.id FROM suppressions x JOIN suppressions y ON y.server = x.server AND y.words = x.words
    WHERE x.address = @address AND x.channel = @channel AND ` + inBurstSQL("x") + ` AND ` + inBurstSQL("y") + `)
  RETURNING ` + suppressionTable.SelectList()

	// holdBurstsSQL holds the suppressions of every burst that were never held. Callers of each
	// class have bursts of their own, so that strangers' dead addresses hold no suppression of
	// others. Of a large burst it reads no more rows than tell that it is one.
	holdBurstsSQL = `
WITH fresh AS MATERIALIZED (
    SELECT x.id, x.server, x.words, ` + classOfSQL("x") + ` AS class FROM suppressions x
    WHERE x.words <> '' AND x.since > @window AND x.held_until IS NULL AND x.lifted_at IS NULL
)
UPDATE suppressions SET held_until = @held WHERE id IN (
    SELECT f.id FROM fresh f WHERE (f.server, f.words, f.class) IN (
        SELECT g.server, g.words, g.class FROM (SELECT DISTINCT server, words, class FROM fresh) g
        WHERE (SELECT count(DISTINCT r.recipient) FROM (
            SELECT x.recipient FROM suppressions x
            WHERE x.server = g.server AND x.words = g.words AND x.words <> '' AND x.since > @window AND ` + classOfSQL("x") + ` = g.class
            LIMIT 100) r) > @limit))`

	// liftAcceptedSQL lifts a burst once its server has accepted a later mail to one of its
	// recipients. A mail that a stranger asked for lifts strangers' suppressions alone. If the mail
	// that caused the suppression was accepted at first and bounced later, acceptance proves
	// nothing: then only a report of delivery lifts the burst.
	liftAcceptedSQL = `
UPDATE suppressions SET lifted_at = @now, lifted_why = '` + store.LiftedAccepted + `'
WHERE until > @now AND ` + inBurstSQL("suppressions") + ` AND (server, words, ` + classOfSQL("suppressions") + ` = '` +
		string(store.UnknownBrowser) + `') IN (
    SELECT x.server, x.words, lifts.strangers FROM (SELECT true AS strangers UNION ALL SELECT false) lifts CROSS JOIN suppressions x
    JOIN sends s ON s.recipient = x.recipient AND s.logged_at > x.since
    JOIN verifications v ON v.id = s.verification_id AND (lifts.strangers OR v.class <> '` + string(store.UnknownBrowser) + `')
    WHERE ` + inBurstSQL("x") + ` AND s.channel = x.channel AND s.provider = x.server AND s.status = 'sent' AND (s.worst_event = 'delivered'
      OR (SELECT c.status FROM sends c WHERE c.id = x.send_id) = 'failed'))`

	heldBurstsSQL = `
SELECT x.server, x.words, count(DISTINCT x.recipient) FROM suppressions x
WHERE ` + inBurstSQL("x") + ` AND x.held_until > @now
GROUP BY x.server, x.words HAVING max(CASE WHEN EXISTS (
    SELECT 1 FROM verifications v WHERE v.recipient = x.recipient AND v.attempts > 0 AND v.channel = x.channel AND v.approved_at > @known
  ) THEN 1 ELSE 0 END) = 1 ORDER BY 3 DESC, 1, 2 LIMIT 20`
)

// classOfSQL returns the class of the callers whose send caused the suppression x. Without a row of
// their verification it is that of secret keys, which strangers cannot lift.
func classOfSQL(x string) string {
	return `coalesce((SELECT v.class FROM sends c JOIN verifications v ON v.id = c.verification_id WHERE c.id = ` + x + `.send_id), '')`
}

// inBurstSQL returns the condition that the suppression x belongs to a burst of the last BurstReach
// and is not lifted.
func inBurstSQL(x string) string {
	return x + `.lifted_at IS NULL AND ` + x + `.held_until IS NOT NULL AND ` + x + `.words <> '' AND ` + x + `.since > @reach`
}

// burstArgs are the parameters of the statements about bursts.
func burstArgs(now time.Time) Args {
	return Args{
		"now": now, "reach": now.Add(-store.BurstReach), "window": now.Add(-store.BurstWindow),
		"held": now.Add(store.BurstHold), "limit": store.BurstLimit, "known": now.Add(-knownRecipient),
	}
}

// knownRecipient is how long after an approved code HeldBursts assumes that the address works.
const knownRecipient = 90 * 24 * time.Hour

// burstLockKey is the key of the lock that lets one replica at a time hold bursts.
const burstLockKey = 0x6275727374

// HoldBursts holds the suppressions of each burst. Finish and IngestProviderEvent call it after
// they have committed a suppression, so that the last of several at once sees all.
func (db *DB) HoldBursts(ctx context.Context) error {
	return db.Write(ctx, "HoldBursts", func(q Tx) error {
		if err := q.ExecAll(Args{"key": burstLockKey}, db.Dialect.pick(advisoryLockSQL)); err != nil {
			return err
		}
		return q.exec(holdBurstsSQL, burstArgs(q.Now))
	})
}

// SettleBursts holds bursts, for a process that died before it could, and lifts those of which the
// server has accepted a mail since. It returns whether it lifted any.
func (db *DB) SettleBursts(ctx context.Context) (lifted bool, err error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	if err := db.HoldBursts(ctx); err != nil {
		return false, err
	}
	return WriteWithResult(ctx, db, "SettleBursts", func(q Tx) (bool, error) { return q.Change(liftAcceptedSQL, burstArgs(q.Now)) })
}

// HeldBursts returns the bursts held now of which one recipient had an approved code within 90
// days, the largest 20.
func (db *DB) HeldBursts(ctx context.Context) (list []store.HeldBurst, err error) {
	_, err = db.readWithClock(ctx, "HeldBursts", func(q Tx, now time.Time) error {
		list, err = QueryAll(q, func(b *store.HeldBurst) []any { return []any{&b.Server, &b.Words, &b.Recipients} }, heldBurstsSQL,
			burstArgs(now))
		return err
	})
	return list, err
}

// Suppress adds a suppression. False: there is one with this ID already, and nothing was changed.
func (t Tx) Suppress(x store.Suppression) (added bool, err error) {
	insert, args := suppressionTable.InsertSQL(store.InsertedColumn, &x)
	return t.Change(insert+` ON CONFLICT (id) DO NOTHING`, args)
}

// suppressions returns the suppressions with these IDs, oldest first. Unknown IDs are left out.
func (t Tx) suppressions(ids []uuid.UUID) ([]store.Suppression, error) {
	return QueryAll(t, suppressionTable.Destinations, suppressionSQL+` WHERE id `+t.Dialect.inList("ids")+` ORDER BY since, id`,
		Args{"ids": ids})
}

// Suppress adds a suppression that begins now, and returns it. False: a suppression with this ID
// exists, perhaps a lifted one; it is returned unchanged. The audit entry is written in both cases.
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
			out = rows[0] // a row with this ID exists, since Suppress added none
		}
		return err
	})
	if err != nil {
		return store.Suppression{}, false, err
	}
	return out, added, nil
}

// Suppressions returns suppressions, newest first, by Since and then ID, and the time on the
// database's clock.
func (db *DB) Suppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time,
	err error,
) {
	now, err = db.readWithClock(ctx, "Suppressions", func(q Tx, now time.Time) error {
		var c Conditions
		if f.ActiveOrHeld {
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

// LiftSuppressions ends all suppressions of an address that are in force or held now, and all of
// the bursts that they belong to (also of other addresses), and returns them, oldest first. The
// audit entry is written even if there were none. Its Detail becomes their number, and its
// recipient, if it has none, that of one of them.
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
				"reach": q.Now.Add(-store.BurstReach),
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
