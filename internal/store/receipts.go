package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// PendingReceipt is a message that a carrier took and whose receipt has not come yet.
type PendingReceipt struct {
	Carrier string    `column:"carrier"`    // its name in the configuration
	ID      string    `column:"message_id"` // the carrier's ID of the message
	Send    uuid.UUID `column:"send_id"`    // ID of the send
	At      time.Time `column:"at"`         // when AwaitReceipt added it, on the log's clock
}

// Receipts records receipts, and the messages whose receipts are still missing.
type Receipts interface {
	// RecordReceipt records the receipt of a text message; status is Delivered or Undelivered. False: nothing was changed, since the send
	// did not go out or has a receipt already. Undelivered may still become Delivered.
	RecordReceipt(ctx context.Context, id uuid.UUID, status Status) (bool, error)
	// AwaitReceipt adds a message that a carrier has just taken. It is due for its first poll after ask; 0: it is never polled, and only
	// SendByMessageID finds it. If the message was added before, nothing is changed.
	AwaitReceipt(ctx context.Context, a PendingReceipt, ask time.Duration) error
	// SendByMessageID returns the ID of the send whose message has this ID at the carrier, or fault.NotFound if none is awaited.
	SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error)
	// DuePolls takes the up to limit messages that are longest overdue for a poll, and returns them in the order in which carriers took
	// them. It schedules the next poll of each, after a pause that doubles up to six hours. So no other replica polls them now, and
	// they are polled again if the caller dies. It gives up messages that have waited for three days.
	DuePolls(ctx context.Context, limit int) ([]PendingReceipt, error)
	// StopAwaitingReceipt ends the wait for a receipt of a send.
	StopAwaitingReceipt(ctx context.Context, send uuid.UUID) error
}

// The times of polls.
const (
	FirstPollPause  = 30 * time.Second // between the first and the second poll
	LastPollPause   = 6 * time.Hour    // longest pause between two polls
	AwaitReceiptFor = 72 * time.Hour
	PollDoublings   = 10 // number of pauses that start at FirstPollPause and double; all later ones are LastPollPause
)

// A receipt changes a send that went out, or may have, to Delivered or Undelivered. A repeated or late receipt changes nothing, except
// that Undelivered becomes Delivered if the message arrived after all. The send still counts in the quota. A receipt does not prove that
// the phone is the recipient's.
