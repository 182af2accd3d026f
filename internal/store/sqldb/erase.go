package sqldb

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// personalTable has the statements of Erase and ForgetDueErased for a table with data about
// recipients. If one is empty, that method leaves the table as it is.
type personalTable struct{ Erase, Forget string }

// personalTables returns all tables with data about recipients. Erase removes everything about
// @recipient but the hash, and Forget removes the hash. TestEveryColumnIsErased fails if a table is
// missing.
func (d dialect) personalTables() []personalTable {
	// the sends are locked first, as in ResetCounters
	ofSends := ` AND recipient = @recipient AND id ` + d.inSubquery(`
    SELECT s.verification_id FROM sends s WHERE s.recipient = @recipient`+d.pick(dialectSQL{Postgres: ` FOR NO KEY UPDATE`}))
	return []personalTable{
		{
			// A send that waits for its next attempt ends now. A send with an attempt under way
			// ends when the attempt does.
			Erase: `
DELETE FROM outbox WHERE queued = true AND id ` + d.inSubquery(`
    SELECT s.id FROM sends s WHERE s.recipient = @recipient AND s.status = 'queued' AND s.masked <> '•••'`),
		},
		{
			// A caller's code says nothing about its recipient, but is no longer needed.
			Erase: `
UPDATE outbox SET sealed = NULL WHERE sealed IS NOT NULL AND id ` + d.inSubquery(`
    SELECT s.id FROM sends s WHERE s.recipient = @recipient AND s.status = 'sending' AND s.masked <> '•••'`),
		},
		{
			Erase: `
UPDATE sends SET status = CASE WHEN in_doubt THEN 'unknown' ELSE 'failed' END, reason = 'erased', finished_at = @now
WHERE recipient = @recipient AND status = 'queued' AND masked <> '•••'
  AND NOT EXISTS (SELECT 1 FROM outbox f WHERE f.id = sends.id)`,
		},
		{
			Erase: `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT s.status, s.logged_at, s.id, s.finished_at, false, s.app, s.channel, s.recipient
FROM sends s WHERE s.recipient = @recipient AND s.reason = 'erased' ON CONFLICT DO NOTHING`,
		},
		// Verifications are found through the index of sends. So here and in DeleteAged, no send
		// may lose its recipient or be deleted before its verification.
		{Forget: `UPDATE verifications SET recipient = @none WHERE masked = '•••'` + ofSends},
		{Erase: eraseRowsSQL(SendTable, store.InsertedByBegin), Forget: forgetHashSQL("sends")},
		{
			// This comes after the sends. If a Begin adds a send in between, the send stays
			// unmasked, so that a second Erase finds it.
			Erase: `
UPDATE verifications SET ` + VerificationTable.EraseSetList(store.InsertedByBegin) + `, checks = '', check_key = NULL,` + setCanceledIfOpenSQL + `
WHERE masked <> '•••'` + ofSends,
		},
		{Erase: eraseRowsSQL(RefusalTable, store.InsertedByRefusal), Forget: forgetHashSQL("refusals")},
		{
			// After the sends, because a failure keeps its hash as long as its send does.
			Forget: `
UPDATE failures SET recipient = @none
WHERE recipient = @recipient AND NOT EXISTS (SELECT 1 FROM sends s WHERE s.id = failures.id AND s.recipient = @recipient)`,
		},
		{
			Erase:  `UPDATE audit_recipients SET masked = '•••' WHERE recipient = @recipient AND masked <> '•••'`,
			Forget: `UPDATE audit_recipients SET recipient = NULL WHERE recipient = @recipient AND masked = '•••'`,
		},
		{
			// Erase has nothing to remove: a row has only the hash, the channel and times.
			Forget: `DELETE FROM carrier_holds WHERE recipient = @recipient AND until <= @now`,
		},
		{
			// Until it ends, a suppression needs the hash to stop messages.
			Erase: `
UPDATE suppressions SET masked = '•••', detail = CASE WHEN reason = 'manual' THEN '' ELSE detail END, lifted_why = '', words = ''
WHERE recipient = @recipient AND masked <> '•••'`,
			Forget: `
UPDATE suppressions SET recipient = @none, address = @none
WHERE recipient = @recipient AND masked = '•••' AND (lifted_at IS NOT NULL OR until <= @now)`,
		},
	}
}

func eraseRowsSQL[T any](t sqlgen.Table[T], flags store.ColumnFlags) string {
	return `
UPDATE ` + t.Name + ` SET ` + t.EraseSetList(flags) + ` WHERE recipient = @recipient AND masked <> '•••'`
}

func forgetHashSQL(table string) string {
	return `UPDATE ` + table + ` SET recipient = @none WHERE recipient = @recipient AND masked = '•••'`
}

const (
	// addErasureSQL stores when the hash is due to be deleted. If the recipient is erased again,
	// the new time holds for the rows of the first erasure too.
	addErasureSQL = `
INSERT INTO erasures (recipient, forget_at) VALUES (@recipient, @until)
ON CONFLICT (recipient) DO UPDATE SET forget_at = excluded.forget_at`

	dueErasureSQL = `SELECT recipient FROM erasures WHERE forget_at <= @now ORDER BY forget_at LIMIT 1`

	putOffErasureSQL = `
UPDATE erasures SET forget_at = (SELECT max(x.until) FROM suppressions x WHERE x.recipient = @recipient AND x.masked = '•••')
WHERE recipient = @recipient AND EXISTS (SELECT 1 FROM suppressions x WHERE x.recipient = @recipient AND x.masked = '•••')`

	endErasureSQL = `DELETE FROM erasures WHERE recipient = @recipient AND forget_at <= @now`
)

// eraseLockKey is the key of an advisory lock that Erase takes exclusively, and that transactions
// that write refusals share. So either the erasure sees a transaction's refusals, or the
// transaction sees the erasure.
const eraseLockKey = 0x6572617365

var (
	shareEraseLockSQL = dialectSQL{Postgres: `SELECT pg_advisory_xact_lock_shared(@key)`}

	// erasedAtSQL reads when recipients were erased, from the entries of Erase.
	erasedAtSQL = `
SELECT p.recipient, max(a.at) FROM audit_recipients p JOIN audit_entries a ON a.id = p.entry
WHERE a.action = '` + store.ErasureAction + `' AND a.at <= @now AND p.recipient IN (SELECT e.recipient FROM erasures e WHERE e.recipient `
	ofRecipientsSQL = dialectSQL{`= ANY (CAST(@recipients AS bytea[]))`, `IN (SELECT unhex(value) FROM json_each(@recipients))`}
)

// MaskErased masks refusals from before their recipient's erasure; the caller writes them in the
// same transaction. Refusals of a person who came back stay unmasked. The time of a refusal is that
// of its ID, which only estimates the database's clock, so refusals of the first second after the
// erasure are masked too.
func (t Tx) MaskErased(refusals []store.SendOrRefusal) error {
	of := sqlgen.MapSlice(refusals, func(r store.SendOrRefusal) recipient.Hash { return r.Recipient })
	if err := t.ExecAll(Args{"key": eraseLockKey}, t.Dialect.pick(shareEraseLockSQL)); err != nil {
		return err
	}
	erased := map[recipient.Hash]time.Time{}
	var h recipient.Hash
	var at time.Time
	_, err := t.Run(erasedAtSQL+t.Dialect.pick(ofRecipientsSQL)+`) GROUP BY p.recipient`, Args{"recipients": of, "now": t.Now},
		func(read Scan) error {
			err := read(sqlgen.ScannerFor(&h), sqlgen.ScannerFor(&at))
			erased[h] = at
			return err
		})
	for i, r := range refusals {
		if store.TimeOfID(r.ID).Before(erased[r.Recipient].Truncate(time.Millisecond).Add(time.Second)) {
			refusals[i].Mask()
		}
	}
	return err
}

// ExecAll runs the statements that aren't empty, in order, up to the first error.
func (t Tx) ExecAll(args Args, statements ...string) error {
	for _, statement := range statements {
		if statement == "" {
			continue
		}
		if err := t.exec(statement, args); err != nil {
			return err
		}
	}
	return nil
}

// Erase removes everything about the recipient but the keyed hash, which ForgetDueErased deletes
// after keep. It cancels the recipient's codes, and ends the sends that wait for their next
// attempt, with ReasonErased and without a refund: as Unknown if in doubt, otherwise Failed. An
// attempt under way goes on. The audit entry, in the same transaction, has the hash until
// ForgetDueErased.
func (db *DB) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act store.AuditEntry) error {
	if h == store.NoRecipient {
		return store.BadRequestf("no recipient to erase")
	}
	act.What, act.Recipient, act.To = store.ErasureAction, h, store.ErasedMask
	act, err := act.Validated()
	if err != nil {
		return err
	}
	err = db.Write(ctx, "Erase", func(q Tx) error {
		if err := q.ExecAll(Args{"key": eraseLockKey}, q.Dialect.pick(advisoryLockSQL)); err != nil {
			return err
		}
		if err := db.BeforeErase(q, h); err != nil {
			return err
		}
		statements := sqlgen.MapSlice(q.Dialect.personalTables(), func(p personalTable) string { return p.Erase })
		args := Args{
			"recipient": h, "now": q.Now, "until": q.Now.Add(keep.Truncate(time.Microsecond)),
			"empty": []byte{},
		}
		if err := q.ExecAll(args, append(statements, addErasureSQL)...); err != nil {
			return err
		}
		return q.addAuditEntry(act)
	})
	if err != nil {
		return err
	}
	return db.PurgeDeleted(ctx)
}

// ForgetDueErased deletes the hashes that Erase left and that are due, each recipient's in its own
// transaction, at most 100 in one call. A suppression in force keeps the hash until it ends. It
// returns how many were due.
func (db *DB) ForgetDueErased(ctx context.Context) (n int, err error) {
	for due := true; due && n < 100; {
		due, err = WriteWithPrecedence(ctx, db, "ForgetDueErased", Behind, Tx.forgetDueErased)
		if due {
			n++
		}
	}
	return n, errors.Join(err, db.PurgeDeleted(ctx)) // also deletes what an earlier erasure could not purge because of a reader
}

// forgetDueErased forgets the recipient that is due the longest. It returns false if none is due.
func (t Tx) forgetDueErased() (due bool, err error) {
	if err := t.ExecAll(nil, t.Dialect.pick(LongTimeoutSQL)); err != nil {
		return false, err
	}
	h, err := queryFirst(t, func(h *recipient.Hash) []any { return []any{sqlgen.ScannerFor(h)} }, t.Dialect.lockRows(dueErasureSQL), nil)
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	statements := sqlgen.MapSlice(t.Dialect.personalTables(), func(p personalTable) string { return p.Forget })
	return true, t.ExecAll(Args{"recipient": h, "none": store.NoRecipient}, append(statements, putOffErasureSQL, endErasureSQL)...)
}
