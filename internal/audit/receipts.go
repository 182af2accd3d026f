package audit

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What a carrier says afterwards changes a send that went out, or may have: to Delivered, or to Undelivered. It never goes
// back from there: a repeated or late word changes nothing, but that a message which was told to be lost did arrive after
// all. Whatever it is, the send keeps its place in the quota; and it proves nothing of who holds the phone.

// statusColumn is a send's status with its receipt, which may have come before the outcome.
const statusColumn = `CASE WHEN s.receipt <> '' AND s.status IN ('sent', 'unknown') THEN s.receipt ELSE s.status END`

// The statements are the same in both databases. What was lost is a failure at once, also where the outcome is still to come.
const (
	receiveSQL = `
UPDATE sends SET receipt = $1 WHERE id = $2 AND channel = 'sms' AND status IN ('sending', 'sent', 'unknown')
   AND (receipt = '' OR receipt = 'undelivered' AND $1 = 'delivered')`
	lostSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT 'undelivered', s.logged_at, s.id, coalesce(s.finished_at, s.logged_at), false, s.app, s.channel, s.recipient
FROM sends s WHERE s.id = $1 AND s.receipt = 'undelivered' ON CONFLICT DO NOTHING`
)

// deliveredSQL notes in Postgres the minute in which there is a delivered message.
const deliveredSQL = `
INSERT INTO minutes (field, value, minute) SELECT 'receipt', 'delivered', date_trunc('minute', s.logged_at) FROM sends s WHERE s.id = $1 ON CONFLICT DO NOTHING`

func checkReceipt(status Status) error {
	if status != Delivered && status != Undelivered {
		return bad("a receipt says delivered or undelivered")
	}
	return nil
}

// Receive implements Log.
func (p *Postgres) Receive(ctx context.Context, id uuid.UUID, status Status) (changed bool, err error) {
	if err := checkReceipt(status); err != nil {
		return false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, receiveSQL, string(status), id)
		if changed = tag.RowsAffected() > 0; err != nil || !changed {
			return err
		}
		statement := deliveredSQL
		if status == Undelivered {
			statement = lostSQL
		}
		_, err = tx.Exec(ctx, statement, id)
		return err
	})
	return changed && err == nil, err
}

// Receive implements Log.
func (s *SQLite) Receive(ctx context.Context, id uuid.UUID, status Status) (changed bool, err error) {
	if err := checkReceipt(status); err != nil {
		return false, err
	}
	return s.oneAnd(ctx, receiveSQL, func(time.Time) []any { return []any{string(status), id} },
		func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
			if status != Undelivered {
				return nil
			}
			_, err := tx.ExecContext(ctx, lostSQL, id)
			return err
		})
}

// Receive implements Log.
func (m *Memory) Receive(ctx context.Context, id uuid.UUID, status Status) (changed bool, err error) {
	if err := checkReceipt(status); err != nil {
		return false, err
	}
	_, lost, err := m.enter(ctx, "Receive")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	row, ok := m.rows[id]
	if !ok || row.Channel != "sms" || row.Status != Sending && row.Status != Sent && row.Status != Unknown && row.receipt == "" {
		return false, nil
	}
	if row.receipt != "" && (row.receipt != Undelivered || status != Delivered) {
		return false, nil
	}
	row.receipt = status
	row.received()
	return true, nil
}

// received brings status and receipt together, whichever came first.
func (r *memoryRow) received() {
	if r.receipt != "" && (r.Status == Sent || r.Status == Unknown || r.Status == Undelivered) {
		r.Status = r.receipt
	}
}
