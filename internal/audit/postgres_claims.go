package audit

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A claim that is taken, or that waited for another to be committed, is read by statements of their own: they see what
// was committed meanwhile, the send too.
const (
	forgetSQL = `
DELETE FROM claims WHERE key IN (
    SELECT key FROM claims WHERE made_at <= {{now}} - $1 * interval '1 microsecond' AND key <> $2 ORDER BY made_at LIMIT $3
    FOR UPDATE SKIP LOCKED)`

	claimSQL = `
INSERT INTO claims AS k (key, fingerprint, send_id, made_at, held_until)
SELECT $1, $2, $3, clock.now, clock.now + $4 * interval '1 microsecond' FROM (SELECT {{now}} AS now) AS clock
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, held_until = excluded.held_until,
    send_id = CASE WHEN k.made_at <= excluded.made_at - $5 * interval '1 microsecond' THEN excluded.send_id ELSE k.send_id END,
    made_at = CASE WHEN k.made_at <= excluded.made_at - $5 * interval '1 microsecond' THEN excluded.made_at ELSE k.made_at END
WHERE k.made_at <= excluded.made_at - $5 * interval '1 microsecond'
   OR k.held_until <= excluded.made_at AND k.fingerprint = excluded.fingerprint`

	readClaimSQL = `SELECT {{now}}, k.fingerprint, k.send_id FROM claims k WHERE k.key = $1`
)

var (
	claimedSendSQL = `SELECT ` + sendColumns + ` FROM sends s WHERE s.id = (SELECT k.send_id FROM claims k WHERE k.key = $1)`

	claimedVerificationSQL = `
SELECT ` + verificationColumns + ` FROM verifications v
WHERE v.id = (SELECT s.verification_id FROM sends s WHERE s.id = (SELECT k.send_id FROM claims k WHERE k.key = $1))`
)

// Claim implements Log.
func (p *Postgres) Claim(ctx context.Context, c Claim) (out Claimed, err error) {
	if err := c.check(); err != nil {
		return Claimed{}, err
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		out, err = p.claim(ctx, conn, c)
		return err
	})
	return out, err
}

func (p *Postgres) claim(ctx context.Context, conn *pgxpool.Conn, c Claim) (Claimed, error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(p.sql(forgetSQL), c.Life.Microseconds(), c.Key[:], forgotten)
	b.Queue(p.sql(claimSQL), c.Key[:], c.Fingerprint[:], c.SendID, c.Lease.Microseconds(), c.Life.Microseconds())
	b.Queue(p.sql(readClaimSQL), c.Key[:])
	b.Queue(claimedSendSQL, c.Key[:])
	b.Queue(claimedVerificationSQL, c.Key[:])
	b.Queue("COMMIT")
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	for range 2 { // begin, what is forgotten
		if _, err := results.Exec(); err != nil {
			return Claimed{}, err
		}
	}
	tag, err := results.Exec()
	if err != nil {
		return Claimed{}, err
	}
	out, err := readClaim(results, c, tag.RowsAffected() > 0)
	if err != nil {
		return Claimed{}, err
	}
	_, err = results.Exec() // commit
	return out, err
}

// readClaim reads the claim and what came of it. One that is gone was given up by its holder at this moment: whoever asks
// again may have it.
func readClaim(results pgx.BatchResults, c Claim, held bool) (Claimed, error) {
	var row claimRow
	var now time.Time
	var s Send
	var v Verification
	found := true
	for i, fields := range [][]any{{timeField{&now}, &row.fingerprint, &row.sendID}, s.fields(), v.fields()} {
		switch err := results.QueryRow().Scan(fields...); {
		case errors.Is(err, pgx.ErrNoRows):
			found = found && i > 0
		case err != nil:
			return Claimed{}, err
		}
	}
	if !found {
		return Claimed{State: ClaimBusy}, nil
	}
	return row.claimed(c, held, s, v, now), nil
}

// Release implements Log.
func (p *Postgres) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	statement := p.sql(`UPDATE claims SET held_until = {{now}} WHERE key = $1 AND send_id = $2`)
	if forget {
		statement = `DELETE FROM claims WHERE key = $1 AND send_id = $2`
	}
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, statement, key[:], id)
		return err
	})
}
