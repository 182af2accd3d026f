package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// The claim and its send are read by separate statements after claimSQL. That may have waited for another transaction, and statements after
// it also see what that transaction committed.
const (
	forgetSQL = `
DELETE FROM claims WHERE key {{among}}
    SELECT key FROM claims WHERE made_at <= (SELECT @now - @life) AND key <> @key ORDER BY made_at LIMIT @forgotten {{skip locked}} {{end}}`

	claimSQL = `
INSERT INTO claims AS k (key, fingerprint, send_id, made_at, held_until)
SELECT @key, @fingerprint, @send, clock.now, clock.now + @lease FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, held_until = excluded.held_until,
    send_id = CASE WHEN k.made_at <= excluded.made_at - @life THEN excluded.send_id ELSE k.send_id END,
    made_at = CASE WHEN k.made_at <= excluded.made_at - @life THEN excluded.made_at ELSE k.made_at END
WHERE k.made_at <= excluded.made_at - @life
   OR k.held_until <= excluded.made_at AND k.fingerprint = excluded.fingerprint`

	readClaimSQL = `SELECT @now, k.fingerprint, k.send_id FROM claims k WHERE k.key = @key`
)

var (
	claimedSendSQL = `SELECT ` + SendColumns + ` FROM sends s WHERE s.id = (SELECT k.send_id FROM claims k WHERE k.key = @key)`

	claimedVerificationSQL = `
SELECT ` + VerificationColumns + ` FROM verifications v
WHERE v.id = (SELECT s.verification_id FROM sends s WHERE s.id = (SELECT k.send_id FROM claims k WHERE k.key = @key))`
)

// Claim implements IdempotencyKeys.
func (db *DB) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var now time.Time
	var row store.ClaimRow
	var s store.Send
	var v store.Verification
	args := Args{
		"key": c.Key, "fingerprint": c.Fingerprint, "send": c.SendID, "lease": c.Lease, "life": c.Life, "forgotten": store.ClaimsForgotten,
	}
	forget, claim := &Step{Statement: forgetSQL, Args: args}, &Step{Statement: claimSQL, Args: args}
	read := &Step{Statement: readClaimSQL, Args: args, Each: func(read Scan) error {
		return read(TimeField{&now}, &row.Fingerprint, &row.SendID)
	}}
	err := db.Run(ctx, forget, claim, read,
		&Step{Statement: claimedSendSQL, Args: args, Each: func(read Scan) error { return read(SendFields(&s)...) }},
		&Step{Statement: claimedVerificationSQL, Args: args, Each: func(read Scan) error { return read(VerificationFields(&v)...) }})
	switch {
	case err != nil:
		return store.Claimed{}, err
	case read.Changed == 0: // another request has just released and deleted the claim
		return store.Claimed{State: store.ClaimBusy}, nil
	}
	return row.Claimed(c, claim.Changed > 0, s, v, now), nil
}

// Release implements IdempotencyKeys.
func (db *DB) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	statement := `UPDATE claims SET held_until = @now WHERE key = @key AND send_id = @id`
	if forget {
		statement = `DELETE FROM claims WHERE key = @key AND send_id = @id`
	}
	_, err := db.runOne(ctx, statement, Args{"key": key, "id": id})
	return err
}
