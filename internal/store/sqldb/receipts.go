package sqldb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

const awaitSQL = `
INSERT INTO pending_receipts (carrier, message_id, send_id, at, ask_at)
SELECT @carrier, @message, @send, clock.now, clock.now + @ask FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (carrier, message_id) DO NOTHING`

// duePollsSQL returns the messages that are due, and schedules the next poll of each: after FirstPollPause, doubled with each poll, and
// after PollDoublings polls LastPollPause.
var duePollsSQL = `
UPDATE pending_receipts SET asked = asked + 1, ask_at = @now + CASE WHEN asked < @doublings THEN @first * (1 << asked) ELSE @last END
WHERE (carrier, message_id) IN (
    SELECT carrier, message_id FROM pending_receipts WHERE ask_at <= (SELECT @now) ORDER BY ask_at, carrier, message_id LIMIT @limit {{skip locked}})
RETURNING ` + pendingReceiptTable.selectList()

// AwaitReceipt implements Receipts.
func (db *DB) AwaitReceipt(ctx context.Context, a store.PendingReceipt, ask time.Duration) error {
	if !store.ValidTexts(a.Carrier, a.ID) { // the ID is text from a carrier
		return store.BadRequestf("a text is not plain UTF-8 of at most %d bytes", store.MaxText)
	}
	_, err := db.runOne(ctx, awaitSQL, Args{"carrier": a.Carrier, "message": a.ID, "send": a.Send, "ask": nullIfZero(ask)}) // NULL: never polled
	return err
}

// SendByMessageID implements Receipts.
func (db *DB) SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error) {
	a, err := readFirstRow(ctx, db, pendingReceiptTable.destinations,
		`SELECT `+pendingReceiptTable.selectList()+` FROM pending_receipts WHERE carrier = @carrier AND message_id = @message`, Args{"carrier": carrier, "message": id})
	return a.Send, err
}

// DuePolls implements Receipts.
func (db *DB) DuePolls(ctx context.Context, limit int) (list []store.PendingReceipt, err error) {
	err = db.Run(ctx,
		&Step{Statement: `DELETE FROM pending_receipts WHERE at <= (SELECT @now - @await)`, Args: Args{"await": store.AwaitReceiptFor}},
		&Step{Statement: duePollsSQL, Each: AppendTo(&list, pendingReceiptTable.destinations), Args: Args{
			"first": store.FirstPollPause, "last": store.LastPollPause, "doublings": store.PollDoublings, "limit": limit,
		}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.PendingReceipt) int { // oldest first
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// StopAwaitingReceipt implements Receipts.
func (db *DB) StopAwaitingReceipt(ctx context.Context, send uuid.UUID) error {
	_, err := db.runOne(ctx, `DELETE FROM pending_receipts WHERE send_id = @send`, Args{"send": send})
	return err
}
