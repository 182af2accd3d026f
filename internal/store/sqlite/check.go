package sqlite

import (
	"context"
	"database/sql"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

// Attempt implements Verifications.
func (s *DB) Attempt(ctx context.Context, id string) (v store.Verification, counted bool, at time.Time, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		at = now
		v, err = sqliteVerification(ctx, tx, id)
		if err != nil || !gate.Pending(v, now) {
			return err
		}
		out, err := sqliteLockedOut(ctx, tx, v, now)
		if err != nil || out.Wait > 0 {
			return err
		}
		v.Attempts++
		counted = true
		_, err = tx.ExecContext(ctx, `UPDATE verifications SET attempts = $1 WHERE id = $2`, v.Attempts, id)
		return err
	})
	if err != nil {
		return store.Verification{}, false, time.Time{}, err
	}
	return v, counted, at, nil
}
