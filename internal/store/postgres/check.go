package postgres

import (
	"context"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
)

// Checks of one recipient's codes are counted one after the other, under a lock: else two checks could both pass the bound on failed
// checks. The lock is a separate statement, so that the snapshot of the next statement is younger than the lock.
const (
	lockTriesSQL = `
SELECT pg_advisory_xact_lock(hashtextextended(v.app || chr(31) || v.channel || chr(31) || encode(v.recipient, 'hex'), 1))
FROM verifications v WHERE v.id = @id`

	countTrySQL = `
UPDATE verifications v SET attempts = v.attempts + 1, checks = v.checks || CASE WHEN v.checks = '' THEN '' ELSE ',' END
  || CAST(extract(epoch FROM @now) * 1000000 AS bigint) || ' ' || CAST(@network AS text)
WHERE v.id = @id AND v.attempts < v.max_attempts AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.expires_at > @now
  AND (SELECT coalesce(sum(greatest(0, o.attempts - o.forgiven - CASE WHEN o.approved_at IS NULL THEN 0 ELSE 1 END)), 0)
    FROM verifications o
       WHERE o.recipient = v.recipient AND o.app = v.app AND o.channel = v.channel AND o.class = v.class AND o.attempts > 0
         AND o.expires_at > (SELECT @now - CAST(@day AS interval))) < @limit
  AND (SELECT coalesce(sum(o.attempts - o.forgiven), 0) FROM verifications o
       WHERE o.recipient = v.recipient AND o.app = v.app AND o.channel = v.channel AND o.attempts > 0
         AND o.approved_at IS NULL
         AND o.expires_at > greatest((SELECT @now - CAST(@row AS interval)), (
             SELECT max(a.approved_at) FROM verifications a
             WHERE a.recipient = v.recipient AND a.app = v.app AND a.channel = v.channel AND a.attempts > 0
               AND a.expires_at > (SELECT @now - CAST(@row AS interval))))) < @row_limit`
)

var triedSQL = `SELECT @now, ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id = @id`

// Attempt implements sqldb.Native, in one round trip.
func (p *DB) Attempt(ctx context.Context, id, network string) (v store.Verification, counted bool, now time.Time, err error) {
	if !store.ValidTexts(id, network) {
		return v, false, now, fault.NotFound
	}
	args := sqldb.Args{"id": id, "network": network, "day": gate.FailureWindow, "limit": gate.FailureLimit, "row": gate.RowWindow,
		"row_limit": gate.RowLimit}
	count := &sqldb.Step{Statement: countTrySQL, Args: args}
	read := &sqldb.Step{Statement: triedSQL, Args: args, Each: func(read sqldb.Scan) error {
		return read(append([]any{sqldb.TimeField{To: &now}}, sqldb.VerificationFields(&v)...)...)
	}}
	err = p.Run(ctx, &sqldb.Step{Statement: lockTriesSQL, Args: args}, count, read)
	if err == nil && read.Changed == 0 {
		err = fault.NotFound
	}
	if err != nil {
		return store.Verification{}, false, time.Time{}, err
	}
	return v, count.Changed > 0, now, nil
}
