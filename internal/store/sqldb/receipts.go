package sqldb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const awaitReceiptSQL = `
INSERT INTO pending_receipts (carrier, message_id, send_id, at, ask_at)
SELECT @carrier, @message, @send, clock.now, clock.now + CAST(@ask AS interval) FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (carrier, message_id) DO NOTHING`

// duePollsSQL returns the messages whose poll is due, and schedules their next poll. The first
// pause between polls is FirstPollPause, each of the next ones is twice as long as the one before,
// and all after the first PollDoublings pauses are LongestPollPause.
func (d dialect) duePollsSQL() string {
	return `
UPDATE pending_receipts SET asked = asked + 1,
  ask_at = @now + CASE WHEN asked < @doublings THEN CAST(@first AS interval) * (1 << asked) ELSE CAST(@last AS interval) END
WHERE (carrier, message_id) IN (
    ` + d.lockRows(`SELECT carrier, message_id FROM pending_receipts WHERE ask_at <= (SELECT @now)
    ORDER BY ask_at, carrier, message_id LIMIT @limit`) + `)
RETURNING ` + pendingReceiptTable.SelectList()
}

// ExpectReceipt adds a message that a carrier has just accepted. With a firstPollAfter of 0 it is
// never polled, and only SendByMessageID finds it. A message that was added before stays as it is.
func (db *DB) ExpectReceipt(ctx context.Context, a store.PendingReceipt, firstPollAfter time.Duration) error {
	if !store.AreValidTexts(a.Carrier, a.ID) { // the carrier chose the ID
		return store.BadRequestf("a text is not plain UTF-8 of at most %d bytes", store.MaxTextBytes)
	}
	// NULL for @ask makes ask_at NULL, which is never due
	_, err := db.runOne(ctx, "ExpectReceipt", awaitReceiptSQL,
		Args{"carrier": a.Carrier, "message": a.ID, "send": a.Send, "ask": sqlgen.NullIfZero(firstPollAfter)})
	return err
}

// SendByMessageID returns the send of a carrier's message. Error: fault.NotFound if no receipt of
// it is awaited.
func (db *DB) SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error) {
	a, err := readFirst(ctx, db, "SendByMessageID", pendingReceiptTable.Destinations,
		`SELECT `+pendingReceiptTable.SelectList()+
			` FROM pending_receipts WHERE carrier = @carrier AND message_id = @message`,
		Args{"carrier": carrier, "message": id})
	return a.Send, err
}

// TakeDuePolls takes the longest overdue messages, and returns them in the order in which carriers
// accepted them. It schedules each message's next poll, so that no other replica polls the message
// now. If the caller dies, the message is polled at that next time. TakeDuePolls deletes messages
// that have waited for store.AwaitReceiptFor.
func (db *DB) TakeDuePolls(ctx context.Context, limit int) (list []store.PendingReceipt, err error) {
	err = db.Run(ctx,
		"TakeDuePolls", InOrder, &Statement{
			SQL:  `DELETE FROM pending_receipts WHERE at <= (SELECT @now - CAST(@await AS interval))`,
			Args: Args{"await": store.AwaitReceiptFor},
		},
		&Statement{SQL: db.Dialect.duePollsSQL(), Each: AppendTo(&list, pendingReceiptTable.Destinations), Args: Args{
			"first": store.FirstPollPause, "last": store.LongestPollPause, "doublings": store.PollDoublings,
			"limit": limit,
		}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.PendingReceipt) int { // oldest first
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

func (db *DB) StopAwaitingReceipt(ctx context.Context, carrier string, send uuid.UUID) error {
	_, err := db.runOne(ctx, "StopAwaitingReceipt", `DELETE FROM pending_receipts WHERE send_id = @send AND carrier = @carrier`,
		Args{"send": send, "carrier": carrier})
	return err
}
