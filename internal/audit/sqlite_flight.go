package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sendcode/internal/recipient"
)

// Renew implements Outbox.
func (s *SQLite) Renew(ctx context.Context, lease time.Duration, held []Held) error {
	if err := checkLease(lease, 1); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, h := range held {
			_, err := tx.ExecContext(ctx, `UPDATE flights SET due_at = $1 WHERE id = $2 AND attempt = $3 AND NOT queued`,
				µs(now)+lease.Microseconds(), h.ID, h.Attempt)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements Outbox.
func (s *SQLite) Finish(ctx context.Context, outcome Outcome) (bool, error) {
	o, err := outcome.checked()
	if err != nil {
		return false, err
	}
	return s.oneAnd(ctx, `DELETE FROM flights WHERE id = $1 AND attempt = $2`, func(time.Time) []any { return []any{o.ID, o.Attempt} },
		func(ctx context.Context, tx *sql.Tx, now time.Time) error { return sqliteFinish(ctx, tx, o, now) })
}

// sqliteFinish ends a send that the outcome's attempt held.
func sqliteFinish(ctx context.Context, tx *sql.Tx, o Outcome, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
UPDATE sends SET status = $1, reason = $2, provider = $3, provider_code = $4, took = $5, finished_at = $6, counts = counts AND NOT ($7 AND NOT in_doubt)
WHERE id = $8`, o.Status, o.Reason, o.Provider, o.ProviderCode, o.Took.Microseconds(), µs(now), o.Refund, o.ID)
	if err == nil && o.Status != Sent {
		_, err = tx.ExecContext(ctx, sqliteFailedSQL, o.ID)
	}
	if err == nil && o.Refund {
		_, err = tx.ExecContext(ctx, `INSERT INTO refunds (id, since, attempt) SELECT id, $1, attempt FROM sends WHERE id = $2 AND NOT in_doubt`, µs(now), o.ID)
	}
	if err == nil && o.Bar.For > 0 {
		err = sqliteBar(ctx, tx, o, now)
	}
	return errors.Join(err, sqliteTell(ctx, tx, o.Tell, o.ID, "", now))
}

const sqliteFailedSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at, status = 'failed' AND reason IN (` + failureReasons + `) AND NOT forgiven, app, channel, recipient
FROM sends WHERE id = $1 ON CONFLICT DO NOTHING`

// Postpone implements Outbox.
func (s *SQLite) Postpone(ctx context.Context, p Postponement) (bool, error) {
	p, err := p.checked()
	if err != nil {
		return false, err
	}
	return s.oneAnd(ctx, `UPDATE flights SET queued = 1, due_at = $1 WHERE id = $2 AND attempt = $3`, func(now time.Time) []any {
		return []any{µs(now) + p.After.Microseconds(), p.ID, p.Attempt}
	}, func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `UPDATE sends SET status = 'queued', reason = $1, provider = $2, provider_code = $3 WHERE id = $4`, p.Reason, p.Provider, p.ProviderCode, p.ID)
		return err
	})
}

// TakeOver implements Outbox.
func (s *SQLite) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) (work []Work, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT `+sendColumns+`, `+verificationColumns+` FROM flights f CROSS JOIN sends s ON s.id = f.id JOIN verifications v ON v.id = s.verification_id
WHERE f.due_at <= $1 AND f.channel = $2 ORDER BY f.due_at, f.id LIMIT $3`, µs(now), ch, limit)
		if err != nil {
			return err
		}
		work, err = collect(rows, workFields)
		if err != nil {
			return err
		}
		for i := range work {
			row := &work[i].Send
			row.InDoubt = row.InDoubt || row.Status == Sending
			row.Status, row.Attempt, row.DueAt = Sending, row.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
			_, err := tx.ExecContext(ctx, `UPDATE flights SET attempt = $1, queued = 0, due_at = $2 WHERE id = $3`, row.Attempt, µs(row.DueAt), row.ID)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE sends SET status = $1, attempt = $2, in_doubt = $3 WHERE id = $4`, row.Status, row.Attempt, row.InDoubt, row.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return work, nil
}

// RefundsDue implements Outbox.
func (s *SQLite) RefundsDue(ctx context.Context, lease time.Duration, limit int) (refunds []Refund, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT r.id, r.attempt, s.app, s.channel, s.purpose, s.recipient FROM refunds r CROSS JOIN sends s ON s.id = r.id
WHERE r.since <= $1 ORDER BY r.since, r.id LIMIT $2`, µs(now)-lease.Microseconds(), limit)
		if err != nil {
			return err
		}
		refunds, err = collect(rows, refundFields)
		if err != nil {
			return err
		}
		for _, r := range refunds {
			if _, err := tx.ExecContext(ctx, `UPDATE refunds SET since = $1 WHERE id = $2`, µs(now), r.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refunds, nil
}

func refundFields(r *Refund) []any {
	return []any{&r.ID, &r.Attempt, &r.App, &r.Channel, &r.Purpose, hashField{&r.Recipient}}
}

// Refunded implements Outbox.
func (s *SQLite) Refunded(ctx context.Context, held Held) error {
	_, err := s.one(ctx, refundedSQL, func(time.Time) []any {
		return []any{held.ID, held.Attempt}
	})
	return err
}
