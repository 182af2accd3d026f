package store

import (
	"time"

	"github.com/google/uuid"
)

// PendingReceipt is a message that a carrier took and has not yet sent a receipt for.
type PendingReceipt struct {
	Carrier string // its name in the configuration
	ID      string // the carrier's
	Send    uuid.UUID
	At      time.Time // when ExpectReceipt added it, on the database's clock
}

func (p *PendingReceipt) Columns() []Column {
	return []Column{
		{"carrier", &p.Carrier, 0},
		{"message_id", &p.ID, 0},
		{"send_id", &p.Send, 0},
		{"at", &p.At, 0},
	}
}

// These say when a carrier is polled for a missing receipt.
const (
	FirstPollPause   = 30 * time.Second // between the first and the second poll
	LongestPollPause = 6 * time.Hour    // after the first PollDoublings pauses
	AwaitReceiptFor  = 72 * time.Hour   // after that it's no longer polled
	PollDoublings    = 10               // pauses before LongestPollPause, each twice as long as the one before
)

// A receipt makes a send Delivered or Undelivered if its message went out or may have. A repeated
// or late one changes nothing, except that Undelivered becomes Delivered. The send still counts in
// the quota. A receipt doesn't prove that the phone is the recipient's.
