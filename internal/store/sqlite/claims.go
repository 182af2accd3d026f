package sqlite

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

const (
	claimIdempotencyKeySQL = `
INSERT INTO idempotency_keys AS k (key, fingerprint, send_id, created_at, held_until)
SELECT @key, @fingerprint, @send, clock.now, clock.now + @lease FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, held_until = excluded.held_until,
    send_id = CASE WHEN k.created_at <= excluded.created_at - @life THEN excluded.send_id ELSE k.send_id END,
    created_at = CASE WHEN k.created_at <= excluded.created_at - @life THEN excluded.created_at ELSE k.created_at END
WHERE k.created_at <= excluded.created_at - @life
   OR k.held_until <= excluded.created_at AND k.fingerprint = excluded.fingerprint`

	readIdempotencyClaimSQL = `SELECT k.fingerprint, k.send_id FROM idempotency_keys k WHERE k.key = @key`
)

// ClaimIdempotencyKey implements sqldb.PerDatabase.
func (db *DB) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	defer db.Observe(&ctx, "claim", "claim")()
	return sqldb.WriteWithResult(ctx, &db.DB, "ClaimIdempotencyKey", func(q sqldb.Tx) (out store.IdempotencyClaimAnswer, err error) {
		args := sqldb.Args{
			"key": c.Key, "fingerprint": c.Fingerprint, "send": c.SendID,
			"lease": store.IdempotencyClaimLease(), "life": store.IdempotencyKeyLife,
		}
		held, err := q.Change(claimIdempotencyKeySQL, args)
		if err != nil {
			return out, err
		}
		var row store.IdempotencyClaimRow
		_, err = q.Run(readIdempotencyClaimSQL, args, func(read sqldb.Scan) error { return read(&row.Fingerprint, &row.SendID) })
		if err != nil {
			return out, err
		}
		send, v, err := sendAndVerification(q, row.SendID)
		if err != nil {
			return out, err
		}
		return row.Answer(c, held, send, v, q.Now), nil
	})
}

// sendAndVerification returns the zero value for a missing row, without an error.
func sendAndVerification(q sqldb.Tx, id uuid.UUID) (send store.Send, v store.Verification, err error) {
	if send, err = q.Send(id); err == nil {
		v, err = q.Verification(send.VerificationID)
	}
	if errors.Is(err, fault.NotFound) {
		err = nil
	}
	return send, v, err
}

// ReleaseIdempotencyKey implements sqldb.PerDatabase.
func (db *DB) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	defer db.Observe(&ctx, "release", "release")()
	statement := `UPDATE idempotency_keys SET held_until = @now WHERE key = @key AND send_id = @id`
	if forget {
		statement = `DELETE FROM idempotency_keys WHERE key = @key AND send_id = @id`
	}
	return db.Engine.Write(ctx, "ReleaseIdempotencyKey", sqldb.InOrder, func(q sqldb.Tx) error {
		_, err := q.Change(statement, sqldb.Args{"key": key, "id": id})
		return err
	})
}
