package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// PendingReceipt is a message that a carrier took, and of which nothing final is known.
type PendingReceipt struct {
	Carrier string    `column:"carrier"`    // its name in the configuration
	ID      string    `column:"message_id"` // the carrier's for it
	Send    uuid.UUID `column:"send_id"`    // that it was
	At      time.Time `column:"at"`         // when it was taken, on the log's clock
}

// Receipts are what carriers tell of text messages, and those that are missing.
type Receipts interface {
	// RecordReceipt notes what a carrier said afterwards became of a text message, Delivered or Undelivered; false: nothing changed.
	RecordReceipt(ctx context.Context, id uuid.UUID, status Status) (bool, error)
	// AwaitReceipt notes a message that a carrier has just taken; it may be asked after a while, or is only looked up where ask is 0.
	// Noted twice, it is one.
	AwaitReceipt(ctx context.Context, a PendingReceipt, ask time.Duration) error
	// SendByMessageID returns the ID of the send whose message the carrier named so, or ErrNotFound.
	SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error)
	// DuePolls returns up to limit messages that are due to be polled, the longest overdue first. The call puts each off to its next
	// poll, after twice the pause of the last time, at most six hours: so no other replica polls it too, and a message whose poller
	// died is polled again. A message that is awaited for three days is given up.
	DuePolls(ctx context.Context, limit int) ([]PendingReceipt, error)
	// StopAwaitingReceipt ends the wait for a receipt of a send.
	StopAwaitingReceipt(ctx context.Context, send uuid.UUID) error
}

// The times of inquiries.
const (
	FirstPollPause  = 30 * time.Second // after the first one
	LastPollPause   = 6 * time.Hour
	AwaitReceiptFor = 72 * time.Hour
	PollDoublings   = 10 // then the pause is the last one
)

// A receipt changes a send that went out, or may have, to Delivered or Undelivered. A repeated or late receipt changes nothing, except
// that Undelivered becomes Delivered if the message arrived after all. The send keeps its place in the quota. A receipt does not prove
// that the phone is the recipient's.
