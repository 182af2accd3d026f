package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	ids, attempts := make([][16]byte, len(held)), make([]int32, len(held))
	for i, h := range held {
		ids[i], attempts[i] = h.ID, int32(h.Attempt)
	}
	_, err := p.one(ctx, `
UPDATE sends s SET due_at = {{now}} + $1 * interval '1 microsecond'
FROM unnest($2::uuid[], $3::int[]) AS held(id, attempt)
WHERE s.id = held.id AND s.attempt = held.attempt AND s.status = 'sending'`, lease.Microseconds(), ids, attempts)
	return err
}

// Finish implements Log.
func (p *Postgres) Finish(ctx context.Context, outcome Outcome) (bool, error) {
	o, err := outcome.checked()
	if err != nil {
		return false, err
	}
	return p.one(ctx, `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE sends s SET status = $3, reason = $4, provider = $5, provider_code = $6, took = $7, finished_at = clock.now, due_at = NULL,
       counts = s.counts AND NOT ($8 AND NOT s.in_doubt),
       refund_since = CASE WHEN $8 AND NOT s.in_doubt THEN clock.now END
FROM clock
WHERE s.id = $1 AND s.attempt = $2 AND s.status IN ('queued', 'sending')`,
		o.ID, o.Attempt, string(o.Status), o.Reason, o.Provider, o.ProviderCode, o.Took.Microseconds(), o.Refund)
}

// Postpone implements Log.
func (p *Postgres) Postpone(ctx context.Context, q Postponement) (bool, error) {
	q, err := q.checked()
	if err != nil {
		return false, err
	}
	return p.one(ctx, `
UPDATE sends s SET status = 'queued', reason = $3, provider = $4, provider_code = $5, due_at = {{now}} + $6 * interval '1 microsecond'
WHERE s.id = $1 AND s.attempt = $2 AND s.status IN ('queued', 'sending')`,
		q.ID, q.Attempt, q.Reason, q.Provider, q.ProviderCode, q.After.Microseconds())
}

// TakeOver implements Log.
func (p *Postgres) TakeOver(ctx context.Context, lease time.Duration, limit int) ([]Work, error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	// SKIP LOCKED: what another replica takes at this moment is its own, and what is being finished is no longer due.
	return changeRows(ctx, p, (*Work).fields, `
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS now
), due AS MATERIALIZED (
    SELECT s.id, s.due_at AS since FROM sends s
    WHERE s.due_at IS NOT NULL AND s.due_at <= (SELECT now FROM clock)
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
ORDER BY s.since, s.id`, limit, lease.Microseconds())
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

// Approve implements Log.
func (p *Postgres) Approve(ctx context.Context, id string) (bool, error) {
	if !storable(id) {
		return false, nil
	}
	return p.one(ctx, `
UPDATE verifications SET approved_at = {{now}}
WHERE id = $1 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}`, id)
}

// Refused implements Log.
func (p *Postgres) Refused(ctx context.Context, refusals []Send) error {
	rows, err := merged(refusals)
	if err != nil || len(rows) == 0 {
		return err
	}
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch // one transaction
		for ; len(rows) > 0; rows = rows[min(len(rows), maxRefusals):] {
			b.Queue(p.sql(refusedSQL), refusalParameters(rows[:min(len(rows), maxRefusals)])...)
		}
		return conn.SendBatch(ctx, &b).Close()
	})
}

// maxRefusals is how many rows one statement writes.
const maxRefusals = 1000

const refusedSQL = `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip, status,
                   attempt, counts, taken_at, clock, logged_at, finished_at, blocked_by, retry_after, requests)
SELECT r.id, r.verification_id, 0, r.app, r.channel, r.purpose, r.recipient, r.masked, r.locale, r.reference, r.ip, 'refused',
       0, false, coalesce(r.taken_at, clock.now), r.clock, clock.now, clock.now, r.blocked_by, r.retry_after, r.requests
FROM (SELECT {{now}} AS now OFFSET 0) clock,
     unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::timestamptz[], $12::text[], $13::text[], $14::bigint[], $15::int[])
     AS r(id, verification_id, app, channel, purpose, recipient, masked, locale, reference, ip,
          taken_at, clock, blocked_by, retry_after, requests)
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + excluded.requests, retry_after = excluded.retry_after
WHERE sends.status = 'refused'`

func refusalParameters(rows []Send) []any {
	text := func(part func(Send) string) []string { return each(rows, part) }
	return []any{
		each(rows, func(s Send) [16]byte { return s.ID }),
		text(func(s Send) string { return s.VerificationID }),
		text(func(s Send) string { return s.App }),
		text(func(s Send) string { return string(s.Channel) }),
		text(func(s Send) string { return s.Purpose }),
		each(rows, func(s Send) []byte { return s.Recipient[:] }),
		text(func(s Send) string { return s.To }),
		text(func(s Send) string { return s.Locale }),
		text(func(s Send) string { return s.Reference }),
		text(func(s Send) string { return s.IP }),
		each(rows, func(s Send) *time.Time {
			if s.Clock == LogClock {
				return nil
			}
			return known(s.TakenAt)
		}),
		text(func(s Send) string { return s.Clock }),
		text(func(s Send) string { return s.BlockedBy }),
		each(rows, func(s Send) int64 { return s.RetryAfter.Microseconds() }),
		each(rows, func(s Send) int32 { return int32(s.Count) }),
	}
}

// each makes one parameter out of one part of every row.
func each[R, T any](rows []R, part func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = part(r)
	}
	return list
}
