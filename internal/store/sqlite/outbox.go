package sqlite

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// RenewLeases implements sqldb.PerDatabase.
func (db *DB) RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error {
	defer db.Observe(&ctx, "renew", "renew")()
	return db.Engine.Write(ctx, "RenewLeases", sqldb.InOrder, func(q sqldb.Tx) error {
		for _, h := range held {
			if _, err := q.Change(
				`UPDATE outbox SET due_at = @now + @lease WHERE id = @id AND attempt = @attempt AND NOT queued`,
				sqldb.Args{"lease": lease, "id": h.ID, "attempt": h.Attempt}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish implements sqldb.PerDatabase.
func (db *DB) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	defer db.Observe(&ctx, "finish", "finish")()
	o := outcome.Sanitized()
	done, err := sqldb.WriteWithPrecedence(ctx, &db.DB, "Finish", sqldb.Ahead, func(q sqldb.Tx) (bool, error) {
		held, err := q.Change(`DELETE FROM outbox WHERE id = @id AND attempt = @attempt`,
			sqldb.Args{"id": o.ID, "attempt": o.Attempt})
		if err != nil || !held {
			return false, err
		}
		return true, finish(q, o)
	})
	if done {
		db.SettleNew(ctx, o.ID, o.Suppress)
	}
	return done, err
}

// finish writes the outcome, with its failure, refund, suppression and event, if it has them.
func finish(q sqldb.Tx, o store.Outcome) error {
	statements := []string{endSendSQL}
	if o.Status != store.Sent {
		statements = append(statements, addFailureSQL)
	}
	if o.Refund {
		statements = append(statements, addRefundSQL)
	}
	if o.Event.Type != "" {
		statements = append(statements, addEventSQL)
	}
	args := sqldb.Args{
		"id": o.ID, "status": o.Status, "reason": o.Reason, "provider": o.Provider,
		"code": o.ProviderCode, "took": o.Took,
		"refund": o.Refund, "event": o.Event.ID, "type": o.Event.Type, "test": o.Event.Test,
		"bad": o.BadAddress,
	}
	if err := q.ExecAll(args, statements...); err != nil || o.Suppress.For <= 0 {
		return err
	}
	row, err := q.Send(o.ID)
	if err != nil {
		return err
	}
	_, err = q.Suppress(store.ProviderEvent{HeardAt: q.Now, Detail: o.ProviderCode}.Suppression(o.Suppress, row))
	return err
}

const (
	endSendSQL = `
UPDATE sends SET status = @status, reason = @reason, provider = @provider, provider_code = @code, took = @took, finished_at = @now,
  counts = counts AND NOT (@refund AND NOT in_doubt)
WHERE id = @id`

	addFailureSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at, status = 'failed' AND @bad AND NOT was_reset, app, channel, recipient
FROM sends WHERE id = @id ON CONFLICT DO NOTHING`

	addRefundSQL = `INSERT INTO refunds (id, since, attempt) SELECT id, @now, attempt FROM sends WHERE id = @id AND NOT in_doubt`

	// addEventSQL is for a send that has just ended.
	addEventSQL = `
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT @event, s.app, @type, s.id, s.verification_id, s.status, s.reason, @test, @now, @now FROM sends s WHERE s.id = @id`
)

// Postpone implements sqldb.PerDatabase.
func (db *DB) Postpone(ctx context.Context, postponement store.Postponement) (bool, error) {
	defer db.Observe(&ctx, "postpone", "postpone")()
	p := postponement.Sanitized()
	args := sqldb.Args{
		"id": p.ID, "attempt": p.Attempt, "after": p.After, "reason": p.Reason, "provider": p.Provider,
		"code": p.ProviderCode,
	}
	return sqldb.WriteWithPrecedence(ctx, &db.DB, "Postpone", sqldb.Ahead, func(q sqldb.Tx) (bool, error) {
		held, err := q.Change(
			`UPDATE outbox SET queued = 1, due_at = @now + @after WHERE id = @id AND attempt = @attempt`, args)
		if err != nil || !held {
			return false, err
		}
		return q.Change(`
UPDATE sends SET status = 'queued', reason = @reason, provider = @provider, provider_code = @code WHERE id = @id`, args)
	})
}

// TakeOver implements sqldb.PerDatabase.
func (db *DB) TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer db.Observe(&ctx, "take_over", "take_over")()
	return db.takeOver(ctx, "TakeOver", q, lease, limit, `f.due_at <= @now`)
}

// TakeOverWithExpiredCode implements sqldb.PerDatabase.
func (db *DB) TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer db.Observe(&ctx, "take_over", "take_over")()
	return db.takeOver(ctx, "TakeOverWithExpiredCode", q, lease, limit, `f.due_at <= @now AND f.expires_at <= @now`)
}

func (db *DB) takeOver(ctx context.Context, name string, queue store.Queue, lease time.Duration, limit int,
	which string,
) ([]store.Work, error) {
	which += ` AND f.channel = @channel AND f.stranger = @stranger`
	args := sqldb.Args{"channel": queue.Channel, "stranger": queue.Strangers, "limit": limit}
	due, err := db.anyDue(ctx, name, `SELECT EXISTS (SELECT 1 FROM outbox f WHERE `+which+`)`, args)
	if err != nil || !due {
		return nil, err
	}
	return sqldb.WriteWithResult(ctx, &db.DB, name, func(q sqldb.Tx) ([]store.Work, error) {
		work, err := sqldb.QueryAll(q, sqldb.WorkAndCodeDestinations, `
SELECT f.sealed, `+sqldb.SendColumns+`, `+sqldb.VerificationColumns+` FROM outbox f
  CROSS JOIN sends s ON s.id = f.id JOIN verifications v ON v.id = s.verification_id
WHERE `+which+` ORDER BY f.expires_at, f.id LIMIT @limit`, args)
		for i := 0; i < len(work) && err == nil; i++ {
			row := &work[i].Send
			work[i].Now = q.Now
			row.InDoubt = row.InDoubt || row.Status == store.Sending
			row.Status, row.Attempt, row.DueAt = store.Sending, row.Attempt+1,
				q.Now.Add(lease.Truncate(time.Microsecond))
			err = q.ExecAll(sqldb.Args{"id": row.ID, "attempt": row.Attempt, "due": row.DueAt, "doubt": row.InDoubt},
				`UPDATE outbox SET attempt = @attempt, queued = 0, due_at = @due WHERE id = @id`,
				`UPDATE sends SET status = 'sending', attempt = @attempt, in_doubt = @doubt WHERE id = @id`)
		}
		return work, err
	})
}

// anyDue saves a write transaction if the query finds no row, which is usual.
func (db *DB) anyDue(ctx context.Context, name, query string, args sqldb.Args) (bool, error) {
	found, err := sqldb.ReadAll(ctx, &db.DB, name, sqldb.OneColumn[bool], query, args)
	return err == nil && found[0], err
}

// LeaseDueRefunds implements sqldb.PerDatabase.
func (db *DB) LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	defer db.Observe(&ctx, "refunds_due", "refunds_due")()
	due, err := db.anyDue(ctx, "LeaseDueRefunds", `SELECT EXISTS (SELECT 1 FROM refunds WHERE since <= @now - @lease)`,
		sqldb.Args{"lease": lease})
	if err != nil || !due {
		return nil, err
	}
	return sqldb.WriteWithResult(ctx, &db.DB, "LeaseDueRefunds", func(q sqldb.Tx) ([]store.Refund, error) {
		refunds, err := sqldb.QueryAll(q, sqldb.RefundFields, `
SELECT r.id, r.attempt, `+sqldb.RefundColumns+` FROM refunds r CROSS JOIN sends s ON s.id = r.id
LEFT JOIN verifications v ON v.id = s.verification_id WHERE r.since <= @now - @lease ORDER BY r.since, r.id LIMIT @limit`,
			sqldb.Args{"lease": lease, "limit": limit})
		for i := 0; i < len(refunds) && err == nil; i++ {
			err = q.ExecAll(sqldb.Args{"id": refunds[i].ID}, `UPDATE refunds SET since = @now WHERE id = @id`)
		}
		return refunds, err
	})
}

// ConfirmRefund implements sqldb.PerDatabase.
func (db *DB) ConfirmRefund(ctx context.Context, held store.AttemptID) error {
	defer db.Observe(&ctx, "write", "ConfirmRefund")()
	_, err := sqldb.WriteWithPrecedence(ctx, &db.DB, "ConfirmRefund", sqldb.InOrder, func(q sqldb.Tx) (bool, error) {
		return q.Change(`DELETE FROM refunds WHERE id = @id AND attempt = @attempt`, sqldb.Args{"id": held.ID, "attempt": held.Attempt})
	})
	return err
}

// EndAppEventAttempt implements sqldb.PerDatabase.
func (db *DB) EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error) {
	defer db.Observe(&ctx, "app_event_ended", "app_event_ended")()
	e := end.Sanitized()
	return sqldb.WriteWithPrecedence(ctx, &db.DB, "EndAppEventAttempt", sqldb.Ahead, func(q sqldb.Tx) (bool, error) {
		return q.Change(`
UPDATE app_events SET state = @state, answer = @answer, due_at = CASE WHEN @state = 'pending' THEN @now + @after END,
  ended_at = CASE WHEN @state <> 'pending' THEN @now END
WHERE id = @id AND attempt = @attempt AND due_at IS NOT NULL`,
			sqldb.Args{"state": e.State, "answer": e.Answer, "after": e.After, "id": e.ID, "attempt": e.Attempt})
	})
}
