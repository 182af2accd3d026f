package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sendcode/internal/recipient"
)

// Renew implements Log.
func (s *SQLite) Renew(ctx context.Context, lease time.Duration, held []Held) error {
	if err := checkLease(lease, 1); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, h := range held {
			_, err := tx.ExecContext(ctx, `UPDATE sends SET due_at = $1 WHERE id = $2 AND attempt = $3 AND status = 'sending'`,
				µs(now)+lease.Microseconds(), h.ID, h.Attempt)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements Log.
func (s *SQLite) Finish(ctx context.Context, outcome Outcome) (bool, error) {
	o, err := outcome.checked()
	if err != nil {
		return false, err
	}
	done := false
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		result, err := tx.ExecContext(ctx, `
UPDATE sends SET status = $1, reason = $2, provider = $3, provider_code = $4, took = $5, finished_at = $6, due_at = NULL,
       counts = counts AND NOT ($7 AND NOT in_doubt), refund_since = CASE WHEN $7 AND NOT in_doubt THEN $6 END
WHERE id = $8 AND attempt = $9 AND status IN ('queued', 'sending')`,
			o.Status, o.Reason, o.Provider, o.ProviderCode, o.Took.Microseconds(), µs(now), o.Refund, o.ID, o.Attempt)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if done = n > 0; err != nil || !done {
			return err
		}
		if o.Bar.For > 0 {
			err = sqliteBar(ctx, tx, o, now)
		}
		return errors.Join(err, sqliteTell(ctx, tx, o.Tell, o.ID, "", now))
	})
	return done && err == nil, err
}

// Postpone implements Log.
func (s *SQLite) Postpone(ctx context.Context, p Postponement) (bool, error) {
	p, err := p.checked()
	if err != nil {
		return false, err
	}
	return s.one(ctx, `
UPDATE sends SET status = 'queued', reason = $1, provider = $2, provider_code = $3, due_at = $4
WHERE id = $5 AND attempt = $6 AND status IN ('queued', 'sending')`, func(now time.Time) []any {
		return []any{p.Reason, p.Provider, p.ProviderCode, µs(now) + p.After.Microseconds(), p.ID, p.Attempt}
	})
}

// TakeOver implements Log.
func (s *SQLite) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) (work []Work, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT `+sendColumns+`, `+verificationColumns+` FROM sends s JOIN verifications v ON v.id = s.verification_id
WHERE s.due_at IS NOT NULL AND s.due_at <= $1 AND s.channel = $2 ORDER BY s.due_at, s.id LIMIT $3`, µs(now), ch, limit)
		if err != nil {
			return err
		}
		work, err = collect(rows, (*Work).fields)
		if err != nil {
			return err
		}
		for i := range work {
			row := &work[i].Send
			row.InDoubt = row.InDoubt || row.Status == Sending
			row.Status, row.Attempt, row.DueAt = Sending, row.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
			_, err := tx.ExecContext(ctx, `UPDATE sends SET status = $1, attempt = $2, in_doubt = $3, due_at = $4 WHERE id = $5`,
				row.Status, row.Attempt, row.InDoubt, µs(row.DueAt), row.ID)
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

func (w *Work) fields() []any { return append(w.Send.fields(), w.Verification.fields()...) }

// RefundsDue implements Log.
func (s *SQLite) RefundsDue(ctx context.Context, lease time.Duration, limit int) (refunds []Refund, err error) {
	if err := checkLease(lease, limit); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT id, attempt, app, channel, purpose, recipient FROM sends
WHERE refund_since IS NOT NULL AND refund_since <= $1 ORDER BY refund_since, id LIMIT $2`, µs(now)-lease.Microseconds(), limit)
		if err != nil {
			return err
		}
		refunds, err = collect(rows, (*Refund).fields)
		if err != nil {
			return err
		}
		for _, r := range refunds {
			if _, err := tx.ExecContext(ctx, `UPDATE sends SET refund_since = $1 WHERE id = $2`, µs(now), r.ID); err != nil {
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

func (r *Refund) fields() []any {
	return []any{&r.ID, &r.Attempt, &r.App, &r.Channel, &r.Purpose, hashField{&r.Recipient}}
}

// Refunded implements Log.
func (s *SQLite) Refunded(ctx context.Context, held Held) error {
	_, err := s.one(ctx, `UPDATE sends SET refund_since = NULL WHERE id = $1 AND attempt = $2`, func(time.Time) []any {
		return []any{held.ID, held.Attempt}
	})
	return err
}
