package sqlite

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Renew implements Outbox.
func (s *DB) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	return s.Write(ctx, func(q sqldb.Tx) error {
		for _, h := range held {
			_, err := change(q, `UPDATE flights SET due_at = $1 WHERE id = $2 AND attempt = $3 AND NOT queued`,
				q.Now.UnixMicro()+lease.Microseconds(), h.ID, h.Attempt)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements Outbox.
func (s *DB) Finish(ctx context.Context, outcome store.Outcome) (held bool, err error) {
	o := outcome.Sanitized()
	err = s.Write(ctx, func(q sqldb.Tx) error {
		held, err = change(q, `DELETE FROM flights WHERE id = $1 AND attempt = $2`, o.ID, o.Attempt)
		if err != nil || !held {
			return err
		}
		return finish(q, o)
	})
	return held && err == nil, err
}

// finish writes the outcome of a send: its row, and the failure, refund, suppression and event that follow from it.
func finish(q sqldb.Tx, o store.Outcome) error {
	now := q.Now.UnixMicro()
	_, err := change(q, `
UPDATE sends SET status = $1, reason = $2, provider = $3, provider_code = $4, took = $5, finished_at = $6,
  counts = counts AND NOT ($7 AND NOT in_doubt)
WHERE id = $8`, o.Status, o.Reason, o.Provider, o.ProviderCode, o.Took.Microseconds(), now, o.Refund, o.ID)
	if err == nil && o.Status != store.Sent {
		_, err = change(q, failedSQL, o.ID)
	}
	if err == nil && o.Refund {
		_, err = change(q, `INSERT INTO refunds (id, since, attempt) SELECT id, $1, attempt FROM sends WHERE id = $2 AND NOT in_doubt`, now, o.ID)
	}
	if err == nil && o.Suppress.For > 0 {
		err = suppress(q, o)
	}
	if err == nil && o.Event.Type != "" {
		_, err = change(q, tellSQL, o.Event.ID, o.Event.Type, o.Event.Test, now, o.ID)
	}
	return err
}

const (
	failedSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at,
  status = 'failed' AND reason IN (` + sqldb.FailureReasons + `) AND NOT forgiven, app, channel, recipient
FROM sends WHERE id = $1 ON CONFLICT DO NOTHING`

	// tellSQL writes the event of a send that has just ended.
	tellSQL = `
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT $1, s.app, $2, s.id, s.verification_id, s.status, s.reason, $3, $4, $4 FROM sends s
  WHERE s.id = $5`
)

// suppress adds the suppression that the outcome asks for (Suppress.For > 0), in Finish's transaction.
func suppress(q sqldb.Tx, o store.Outcome) error {
	row, err := sendOf(q, o.ID)
	if err != nil {
		return err
	}
	_, err = q.Suppress(store.ProviderEvent{HeardAt: q.Now, Detail: o.ProviderCode}.Suppression(o.Suppress, row))
	return err
}

// Postpone implements Outbox.
func (s *DB) Postpone(ctx context.Context, postponement store.Postponement) (bool, error) {
	p := postponement.Sanitized()
	return sqldb.Writing(ctx, &s.DB, func(q sqldb.Tx) (bool, error) {
		held, err := change(q, `UPDATE flights SET queued = 1, due_at = $1 WHERE id = $2 AND attempt = $3`,
			q.Now.UnixMicro()+p.After.Microseconds(), p.ID, p.Attempt)
		if err != nil || !held {
			return false, err
		}
		return change(q, `UPDATE sends SET status = 'queued', reason = $1, provider = $2, provider_code = $3 WHERE id = $4`,
			p.Reason, p.Provider, p.ProviderCode, p.ID)
	})
}

// TakeOver implements Outbox.
func (s *DB) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) ([]store.Work, error) {
	due, err := s.anyDue(ctx, `SELECT EXISTS (SELECT 1 FROM flights WHERE due_at <= @now AND channel = @channel)`, sqldb.Args{"channel": ch})
	if err != nil || !due {
		return nil, err
	}
	return sqldb.Writing(ctx, &s.DB, func(q sqldb.Tx) ([]store.Work, error) {
		work, err := rows(q, sqldb.WorkFields, `
SELECT `+sqldb.SendColumns+`, `+sqldb.VerificationColumns+` FROM flights f
  CROSS JOIN sends s ON s.id = f.id JOIN verifications v ON v.id = s.verification_id
WHERE f.due_at <= $1 AND f.channel = $2 ORDER BY f.expires_at, f.id LIMIT $3`, q.Now.UnixMicro(), ch, limit)
		for i := 0; i < len(work) && err == nil; i++ {
			row := &work[i].Send
			row.InDoubt = row.InDoubt || row.Status == store.Sending
			row.Status, row.Attempt, row.DueAt = store.Sending, row.Attempt+1, q.Now.Add(lease.Truncate(time.Microsecond))
			err = takeOver(q, *row)
		}
		return work, err
	})
}

func takeOver(q sqldb.Tx, s store.Send) error {
	_, err := change(q, `UPDATE flights SET attempt = $1, queued = 0, due_at = $2 WHERE id = $3`, s.Attempt, s.DueAt.UnixMicro(), s.ID)
	if err != nil {
		return err
	}
	_, err = change(q, `UPDATE sends SET status = $1, attempt = $2, in_doubt = $3 WHERE id = $4`, s.Status, s.Attempt, s.InDoubt, s.ID)
	return err
}

// anyDue reports whether the query finds a row. Most calls find none, and then no write transaction has to begin.
func (s *DB) anyDue(ctx context.Context, query string, args sqldb.Args) (bool, error) {
	found, err := sqldb.ReadAll(ctx, &s.DB, sqldb.OneColumn[bool], query, args)
	return err == nil && found[0], err
}

// RefundsDue implements Outbox.
func (s *DB) RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	due, err := s.anyDue(ctx, `SELECT EXISTS (SELECT 1 FROM refunds WHERE since <= @now - @lease)`, sqldb.Args{"lease": lease})
	if err != nil || !due {
		return nil, err
	}
	return sqldb.Writing(ctx, &s.DB, func(q sqldb.Tx) ([]store.Refund, error) {
		refunds, err := rows(q, sqldb.RefundFields, `
SELECT r.id, r.attempt, s.app, s.channel, s.purpose, s.recipient FROM refunds r CROSS JOIN sends s ON s.id = r.id
WHERE r.since <= $1 ORDER BY r.since, r.id LIMIT $2`, q.Now.UnixMicro()-lease.Microseconds(), limit)
		for i := 0; i < len(refunds) && err == nil; i++ {
			_, err = change(q, `UPDATE refunds SET since = $1 WHERE id = $2`, q.Now.UnixMicro(), refunds[i].ID)
		}
		return refunds, err
	})
}

// AppEventEnded implements AppEvents.
func (s *DB) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	end = end.Sanitized()
	return sqldb.Writing(ctx, &s.DB, func(q sqldb.Tx) (bool, error) {
		return change(q, `
UPDATE app_events SET state = $1, answer = $2, due_at = CASE WHEN $1 = 'pending' THEN $3 + $4 END,
  ended_at = CASE WHEN $1 <> 'pending' THEN $3 END
WHERE id = $5 AND attempt = $6 AND due_at IS NOT NULL`,
			string(end.State), end.Answer, q.Now.UnixMicro(), end.After.Microseconds(), end.ID, end.Attempt)
	})
}
