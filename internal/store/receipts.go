package store

import (
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
