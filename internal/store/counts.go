package store

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// SendBucket names the sends to one recipient that the rules of one policy count together.
type SendBucket struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purposes  []string // all purposes with the same policy; at least one
}

// RecipientLockKey returns the key of the lock on a recipient, a hash of app, channel and
// recipient. Sends to recipients with the same key wait for each other.
func RecipientLockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// These are reasons of failed sends. Unless such a send is in doubt, it is refunded, so the usual
// rules don't count it.
// Two other rules bound the failed sends to a recipient, over all purposes: Intent.RejectionRules
// count failures of the address (Outcome.BadAddress) for a day, and the rule "backoff" counts
// others for an hour, only in the limiter.
const (
	ReasonRejected     = "rejected"
	ReasonOptedOut     = "opted_out"
	ReasonCarrierLimit = "carrier_limit"
	ReasonBlocked      = "blocked"
	ReasonPaused       = "paused"
	ReasonEnded        = "ended"
)

// CountsAsRejected reports whether the reason may be that the address takes no messages.
func CountsAsRejected(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonOptedOut
}

// CountsTowardBackoffRule reports whether a failure with this reason, but without
// Outcome.BadAddress, counts for the rule backoff. It returns false if an administrator or the
// caller ended the send.
func CountsTowardBackoffRule(reason string) bool {
	return reason != ReasonEnded && reason != ReasonErased
}

// FailedSend is a send that a FailedSendsQuery found.
type FailedSend struct {
	ID      uuid.UUID
	EndedAt time.Time // on the database's clock
	Purpose string
	// CountsTowardBackoffRule is the result of the function of this name for the reason, but false
	// after a reset, or if the recipient was sent a message after this send ended.
	CountsTowardBackoffRule bool
	Paused                  bool // a pause stopped it
	PauseInForce            bool // a pause of the send's prefix and class is in force
}

// FailedSendsQuery selects the failed sends to a recipient that ended less than Within ago.
type FailedSendsQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Class     Class
	Within    time.Duration
}

// AsSend returns a send of the bucket, for RecipientLockKey.
func (b SendBucket) AsSend() Send {
	return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient}
}
