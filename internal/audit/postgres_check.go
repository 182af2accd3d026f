package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Attempt implements Log.
func (p *Postgres) Attempt(ctx context.Context, id string) (v Verification, counted bool, now time.Time, err error) {
	if !storable(id) {
		return v, false, now, ErrNotFound
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		// Two statements of one transaction: the second has a snapshot of its own, so it also sees tries that the first
		// had to wait for.
		var b pgx.Batch
		b.Queue(p.sql(`
UPDATE verifications SET attempts = attempts + 1
WHERE id = $1 AND attempts < max_attempts AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}`), id)
		b.Queue(p.sql(`SELECT {{now}}, `+verificationColumns+` FROM verifications v WHERE v.id = $1`), id)
		results := conn.SendBatch(ctx, &b)
		defer results.Close()
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		counted = tag.RowsAffected() > 0
		if err := results.QueryRow().Scan(append([]any{timeField{&now}}, v.fields()...)...); err != nil {
			return found(err)
		}
		return results.Close() // the commit
	})
	if err != nil {
		return Verification{}, false, time.Time{}, err
	}
	return v, counted, now, nil
}

// Cancel implements Log.
func (p *Postgres) Cancel(ctx context.Context, id string) (bool, error) {
	if !storable(id) {
		return false, nil
	}
	return p.one(ctx, `
UPDATE verifications SET canceled_at = {{now}}
WHERE id = $1 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}`, id)
}

// Newest implements Log.
func (p *Postgres) Newest(ctx context.Context, h Holding) (v Verification, err error) {
	if err := h.check(); err != nil {
		return v, err
	}
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return found(conn.QueryRow(ctx, p.sql(newestSQL+` AND v.attempts < v.max_attempts AND v.expires_at > {{now}}
ORDER BY v.created_at DESC, v.id DESC LIMIT 1`), h.Recipient[:], h.App, string(h.Channel), h.Purpose, h.Holder).Scan(v.fields()...))
	})
	if err != nil {
		return Verification{}, err
	}
	return v, nil
}

// Approve implements Log.
func (p *Postgres) Approve(ctx context.Context, id string) (bool, error) {
	if !storable(id) {
		return false, nil
	}
	return p.one(ctx, `
UPDATE verifications SET approved_at = {{now}}
WHERE id = $1 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}`, id)
}
