package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
)

// The claim and its send are read by separate statements after claimSQL. That may have waited for another transaction, and statements after
// it also see what that transaction committed.
const (
	oldKeysSQL = `
    SELECT key FROM idempotency_keys WHERE created_at <= (SELECT @now - CAST(@life AS interval)) AND key <> @key
    ORDER BY created_at LIMIT @forgotten`

	claimSQL = `
INSERT INTO idempotency_keys AS k (key, fingerprint, send_id, created_at, held_until)
SELECT @key, @fingerprint, @send, clock.now, clock.now + CAST(@lease AS interval) FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, held_until = excluded.held_until,
    send_id = CASE WHEN k.created_at <= excluded.created_at - CAST(@life AS interval) THEN excluded.send_id ELSE k.send_id END,
    created_at = CASE WHEN k.created_at <= excluded.created_at - CAST(@life AS interval) THEN excluded.created_at ELSE k.created_at END
WHERE k.created_at <= excluded.created_at - CAST(@life AS interval)
   OR k.held_until <= excluded.created_at AND k.fingerprint = excluded.fingerprint`

	readClaimSQL = `SELECT @now, k.fingerprint, k.send_id FROM idempotency_keys k WHERE k.key = @key`
)

var (
	claimedSendSQL = `SELECT ` + SendColumns + ` FROM sends s WHERE s.id = (SELECT k.send_id FROM idempotency_keys k WHERE k.key = @key)`

	claimedVerificationSQL = `
SELECT ` + VerificationColumns + ` FROM verifications v
WHERE v.id = (SELECT s.verification_id FROM sends s WHERE s.id = (SELECT k.send_id FROM idempotency_keys k WHERE k.key = @key))`
)

// Claim claims an idempotency key for a request; see the type Claim. While another request holds the claim, the answer is ClaimBusy. If
// its lease has ended and there is no send, the next request with the same fingerprint gets the claim.
func (db *DB) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var now time.Time
	var row store.ClaimRow
	var s store.Send
	var v store.Verification
	args := Args{
		"key": c.Key, "fingerprint": c.Fingerprint, "send": c.SendID, "lease": c.Lease, "life": c.Life, "forgotten": store.ClaimsForgotten,
	}
	forget := &Step{Statement: `DELETE FROM idempotency_keys WHERE key ` + db.Dialect.among(db.Dialect.locked(oldKeysSQL)), Args: args}
	claim := &Step{Statement: claimSQL, Args: args}
	read := &Step{Statement: readClaimSQL, Args: args, Each: func(read Scan) error {
		return read(columns.Into(&now), &row.Fingerprint, &row.SendID)
	}}
	err := db.Run(ctx, forget, claim, read,
		&Step{Statement: claimedSendSQL, Args: args, Each: func(read Scan) error { return read(sendFields(&s)...) }},
		&Step{Statement: claimedVerificationSQL, Args: args, Each: func(read Scan) error { return read(VerificationFields(&v)...) }})
	switch {
	case err != nil:
		return store.Claimed{}, err
	case read.Changed == 0: // another request has just released and deleted the claim
		return store.Claimed{State: store.ClaimBusy}, nil
	}
	return row.Claimed(c, claim.Changed > 0, s, v, now), nil
}

// Release ends the lease of a claim that led to no send, so that the next request can get the claim at once. With forget it deletes the
// claim, so that the key can also be used for a different request. It changes nothing if the claim has another SendID than id.
func (db *DB) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	statement := `UPDATE idempotency_keys SET held_until = @now WHERE key = @key AND send_id = @id`
	if forget {
		statement = `DELETE FROM idempotency_keys WHERE key = @key AND send_id = @id`
	}
	_, err := db.runOne(ctx, statement, Args{"key": key, "id": id})
	return err
}
