package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Claim implements Log.
func (s *SQLite) Claim(ctx context.Context, c Claim) (out Claimed, err error) {
	if err := c.check(); err != nil {
		return Claimed{}, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		out, err = sqliteClaim(ctx, tx, c, now)
		return err
	})
	return out, err
}

func sqliteClaim(ctx context.Context, tx *sql.Tx, c Claim, now time.Time) (Claimed, error) {
	ended := µs(now.Add(-c.Life))
	for _, x := range []struct {
		statement string
		args      []any
	}{
		{`DELETE FROM claims WHERE key = $1 AND made_at <= $2`, []any{c.Key[:], ended}},
		{`DELETE FROM claims WHERE key IN (SELECT key FROM claims WHERE made_at <= $1 ORDER BY made_at LIMIT $2)`, []any{ended, forgotten}},
	} {
		if _, err := tx.ExecContext(ctx, x.statement, x.args...); err != nil {
			return Claimed{}, err
		}
	}
	result, err := tx.ExecContext(ctx, `
INSERT INTO claims (key, fingerprint, send_id, made_at, held_until) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (key) DO UPDATE SET held_until = excluded.held_until
WHERE claims.held_until <= excluded.made_at AND claims.fingerprint = excluded.fingerprint`,
		c.Key[:], c.Fingerprint[:], c.SendID, µs(now), µs(now.Add(c.Lease)))
	if err != nil {
		return Claimed{}, err
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return Claimed{}, err
	}
	row, err := first(ctx, tx, (*claimRow).fields, `SELECT fingerprint, send_id FROM claims WHERE key = $1`, c.Key[:])
	if err != nil {
		return Claimed{}, err
	}
	send, err := sqliteSend(ctx, tx, row.sendID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Claimed{}, err
	}
	v, err := sqliteVerification(ctx, tx, send.VerificationID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Claimed{}, err
	}
	return row.claimed(c, changed > 0, send, v, now), nil
}

func (r *claimRow) fields() []any { return []any{&r.fingerprint, &r.sendID} }

// Release implements Log.
func (s *SQLite) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	statement := `UPDATE claims SET held_until = $3 WHERE key = $1 AND send_id = $2`
	if forget {
		statement = `DELETE FROM claims WHERE key = $1 AND send_id = $2 AND $3 > 0`
	}
	_, err := s.one(ctx, statement, func(now time.Time) []any { return []any{key[:], id, µs(now)} })
	return err
}
