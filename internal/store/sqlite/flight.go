package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Renew implements Outbox.
func (s *DB) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	if err := store.CheckLease(lease, 1); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, h := range held {
			_, err := tx.ExecContext(ctx, `UPDATE flights SET due_at = $1 WHERE id = $2 AND attempt = $3 AND NOT queued`,
				sqldb.Micros(now)+lease.Microseconds(), h.ID, h.Attempt)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements Outbox.
func (s *DB) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	o, err := outcome.Checked()
	if err != nil {
		return false, err
	}
	return s.oneAnd(ctx, `DELETE FROM flights WHERE id = $1 AND attempt = $2`, func(time.Time) []any { return []any{o.ID, o.Attempt} },
		func(ctx context.Context, tx *sql.Tx, now time.Time) error { return sqliteFinish(ctx, tx, o, now) })
}

// sqliteFinish ends a send that the outcome's attempt held.
func sqliteFinish(ctx context.Context, tx *sql.Tx, o store.Outcome, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
UPDATE sends SET status = $1, reason = $2, provider = $3, provider_code = $4, took = $5, finished_at = $6,
  counts = counts AND NOT ($7 AND NOT in_doubt)
WHERE id = $8`, o.Status, o.Reason, o.Provider, o.ProviderCode, o.Took.Microseconds(), sqldb.Micros(now), o.Refund, o.ID)
	if err == nil && o.Status != store.Sent {
		_, err = tx.ExecContext(ctx, sqliteFailedSQL, o.ID)
	}
	if err == nil && o.Refund {
		_, err = tx.ExecContext(ctx, `INSERT INTO refunds (id, since, attempt)
  SELECT id, $1, attempt FROM sends WHERE id = $2 AND NOT in_doubt`, sqldb.Micros(now), o.ID)
	}
	if err == nil && o.Suppress.For > 0 {
		err = sqliteBar(ctx, tx, o, now)
	}
	return errors.Join(err, sqliteTell(ctx, tx, o.Event, o.ID, "", now))
}

const sqliteFailedSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at,
  status = 'failed' AND reason IN (` + sqldb.FailureReasons + `) AND NOT forgiven, app, channel, recipient
FROM sends WHERE id = $1 ON CONFLICT DO NOTHING`

// Postpone implements Outbox.
func (s *DB) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	p, err := p.Checked()
	if err != nil {
		return false, err
	}
	return s.oneAnd(ctx, `UPDATE flights SET queued = 1, due_at = $1 WHERE id = $2 AND attempt = $3`, func(now time.Time) []any {
		return []any{sqldb.Micros(now) + p.After.Microseconds(), p.ID, p.Attempt}
	}, func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `UPDATE sends SET status = 'queued', reason = $1, provider = $2, provider_code = $3
  WHERE id = $4`, p.Reason, p.Provider, p.ProviderCode, p.ID)
		return err
	})
}

// TakeOver implements Outbox.
func (s *DB) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) (work []store.Work, err error) {
	if err := store.CheckLease(lease, limit); err != nil {
		return nil, err
	}
	if due, err := s.any(ctx, `SELECT EXISTS (SELECT 1 FROM flights WHERE due_at <= $1
  AND channel = $2)`, sqldb.Micros(store.Micro(s.now())), ch); err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT `+sqldb.SendColumns+`, `+sqldb.VerificationColumns+` FROM flights f
  CROSS JOIN sends s ON s.id = f.id JOIN verifications v ON v.id = s.verification_id
WHERE f.due_at <= $1 AND f.channel = $2 ORDER BY f.expires_at, f.id LIMIT $3`, sqldb.Micros(now), ch, limit)
		if err != nil {
			return err
		}
		work, err = sqldb.Collect(rows, sqldb.WorkFields)
		if err != nil {
			return err
		}
		for i := range work {
			row := &work[i].Send
			row.InDoubt = row.InDoubt || row.Status == store.Sending
			row.Status, row.Attempt, row.DueAt = store.Sending, row.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
			_, err := tx.ExecContext(ctx, `UPDATE flights SET attempt = $1, queued = 0, due_at = $2
  WHERE id = $3`, row.Attempt, sqldb.Micros(row.DueAt), row.ID)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE sends SET status = $1, attempt = $2, in_doubt = $3
  WHERE id = $4`, row.Status, row.Attempt, row.InDoubt, row.ID)
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

// any runs a look that says whether there is something to do: most looks of a job find nothing, and then no transaction has to begin.
func (s *DB) any(ctx context.Context, query string, args ...any) (found bool, err error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return false, store.Unavailable(sqliteCause(err))
	}
	list, err := sqldb.Collect(rows, func(x *bool) []any { return []any{x} })
	return len(list) > 0 && list[0], store.Unavailable(sqliteCause(err))
}

// RefundsDue implements Outbox.
func (s *DB) RefundsDue(ctx context.Context, lease time.Duration, limit int) (refunds []store.Refund, err error) {
	if err := store.CheckLease(lease, limit); err != nil {
		return nil, err
	}
	if due, err := s.any(ctx, `SELECT EXISTS (SELECT 1 FROM refunds WHERE since <= $1)`,
		sqldb.Micros(store.Micro(s.now()))-lease.Microseconds()); err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
SELECT r.id, r.attempt, s.app, s.channel, s.purpose, s.recipient FROM refunds r CROSS JOIN sends s ON s.id = r.id
WHERE r.since <= $1 ORDER BY r.since, r.id LIMIT $2`, sqldb.Micros(now)-lease.Microseconds(), limit)
		if err != nil {
			return err
		}
		refunds, err = sqldb.Collect(rows, sqldb.RefundFields)
		if err != nil {
			return err
		}
		for _, r := range refunds {
			if _, err := tx.ExecContext(ctx, `UPDATE refunds SET since = $1 WHERE id = $2`, sqldb.Micros(now), r.ID); err != nil {
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

// Refunded implements Outbox.
func (s *DB) Refunded(ctx context.Context, held store.Held) error {
	_, err := s.one(ctx, sqldb.RefundedSQL, func(time.Time) []any {
		return []any{held.ID, held.Attempt}
	})
	return err
}
