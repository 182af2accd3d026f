package store

import (
	"time"

	"github.com/google/uuid"
)

// PendingReceipt is a message that a carrier took, and whose receipt is still missing.
type PendingReceipt struct {
	Carrier string    // its name in the configuration
	ID      string    // the carrier's ID of the message
	Send    uuid.UUID // ID of the send
	At      time.Time // when ExpectReceipt added it, on the database's clock
}

// Columns returns the columns of the row.
func (p *PendingReceipt) Columns() []Column {
	return []Column{
		{"carrier", &p.Carrier, 0},
		{"message_id", &p.ID, 0},
		{"send_id", &p.Send, 0},
		{"at", &p.At, 0},
	}
}

// When a carrier is polled for a missing receipt.
const (
	FirstPollPause   = 30 * time.Second // between the first and the second poll
	LongestPollPause = 6 * time.Hour    // longest pause between two polls
	AwaitReceiptFor  = 72 * time.Hour   // after this time, the carrier is polled no longer
	PollDoublings    = 10               // number of pauses until LongestPollPause, each twice as long as the one before
)

// A receipt changes the status of a send to Delivered or Undelivered. It does so only for a send
// whose message went out or may have gone out. A repeated or late receipt changes nothing, except
// that Undelivered becomes Delivered. The send still counts in the quota. A receipt does not prove
// that the phone belongs to the recipient.
