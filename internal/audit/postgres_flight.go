package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/recipient"
)

// one runs a statement that changes at most one row, and says whether it did.
func (p *Postgres) one(ctx context.Context, statement string, args ...any) (changed bool, err error) {
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, p.sql(statement), args...)
		changed = err == nil && tag.RowsAffected() > 0
		return err
	})
	return changed, err
}

// Renew implements Log.
func (p *Postgres) Renew(ctx context.Context, lease time.Duration, held []Held) error {
	if err := checkLease(lease, 1); err != nil {
		return err
	}
	if len(held) == 0 {
		return nil
	}
	ids, attempts := make([][16]byte, len(held)), make([]int32, len(held))
	for i, h := range held {
		ids[i], attempts[i] = h.ID, int32(h.Attempt)
	}
	first, last := span(ids)
	_, err := p.one(ctx, `
UPDATE sends s SET due_at = {{now}} + $1 * interval '1 microsecond'
FROM unnest($2::uuid[], $3::int[]) AS held(id, attempt)
WHERE s.id = held.id AND s.attempt = held.attempt AND s.status = 'sending' AND s.id BETWEEN $4 AND $5`, lease.Microseconds(), ids, attempts, first, last)
	return err
}

// TakeOver implements Log.
func (p *Postgres) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) ([]Work, error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	// SKIP LOCKED: what another replica takes at this moment is its own, and what is being finished is no longer due.
	return changeRows(ctx, p, (*Work).fields, `
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS now
), due AS MATERIALIZED (
    SELECT s.id, s.due_at AS since FROM sends s
    WHERE s.due_at IS NOT NULL AND s.due_at <= (SELECT now FROM clock) AND s.channel = $3
    ORDER BY s.due_at, s.id LIMIT $1 FOR UPDATE OF s SKIP LOCKED
), taken AS (
    UPDATE sends s SET status = 'sending', attempt = s.attempt + 1, in_doubt = s.in_doubt OR s.status = 'sending',
           due_at = clock.now + $2 * interval '1 microsecond'
    FROM due, clock
    WHERE s.id = due.id
    RETURNING due.since, s.*
)
SELECT `+sendColumns+`, `+verificationColumns+`
FROM taken s JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = s.verification_id LIMIT 1) v ON true
ORDER BY s.since, s.id`, limit, lease.Microseconds(), string(ch))
}

// RefundsDue implements Log.
func (p *Postgres) RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]Refund, error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	return changeRows(ctx, p, (*Refund).fields, `
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS now
), due AS MATERIALIZED (
    SELECT s.id, s.refund_since AS since FROM sends s
    WHERE s.refund_since IS NOT NULL AND s.refund_since <= (SELECT now FROM clock) - $2 * interval '1 microsecond'
    ORDER BY s.refund_since, s.id LIMIT $1 FOR UPDATE OF s SKIP LOCKED
), leased AS (
    UPDATE sends s SET refund_since = clock.now FROM due, clock WHERE s.id = due.id
    RETURNING due.since, s.*
)
SELECT id, attempt, app, channel, purpose, recipient FROM leased ORDER BY since, id`, limit, lease.Microseconds())
}

// changeRows runs a statement that changes rows and tells of them.
func changeRows[T any](ctx context.Context, p *Postgres, fields func(*T) []any, statement string, args ...any) (list []T, err error) {
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, p.sql(statement), args...)
		list, err = pgx.CollectRows(rows, scanned(fields))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func scanned[T any](fields func(*T) []any) pgx.RowToFunc[T] {
	return func(row pgx.CollectableRow) (x T, err error) {
		err = row.Scan(fields(&x)...)
		return x, err
	}
}

// Refunded implements Log.
func (p *Postgres) Refunded(ctx context.Context, held Held) error {
	_, err := p.one(ctx, `UPDATE sends SET refund_since = NULL WHERE id = $1 AND attempt = $2 AND refund_since IS NOT NULL`, held.ID, held.Attempt)
	return err
}
