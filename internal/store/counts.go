package store

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// SendBucket identifies the sends to one recipient that the rules of one policy count together.
type SendBucket struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purposes  []string // all purposes with this policy, at least one
}

// RecipientLockKey returns the key of the lock on a recipient. The key is a hash of the send's app,
// channel and recipient. If two recipients have the same key, their sends wait for each other.
func RecipientLockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// Reasons of failed sends:
//
//   - ReasonRejected: the mail server or the carrier refused the message for good
//   - ReasonOptedOut: the person asked the carrier to send nothing more
//   - ReasonCarrierLimit: the carrier takes nothing more for this number for a while
//   - ReasonBlocked: the recipient is on the block list
//   - ReasonPaused: the channel, the purpose or the prefix was paused
//   - ReasonEnded: the verification was approved, canceled or locked while the send waited
//
// A failed send is refunded, so the usual rules do not count it. Two other rules bound the number
// of failed sends to a recipient, over all purposes. The rule on failures counts a failure of the
// address (Outcome.BadAddress) for a day; see Intent.RejectionRules. The rule "backoff" counts
// other failures for an hour, only in the limiter; see CountsTowardBackoffRule.
const (
	ReasonRejected     = "rejected"
	ReasonOptedOut     = "opted_out"
	ReasonCarrierLimit = "carrier_limit"
	ReasonBlocked      = "blocked"
	ReasonPaused       = "paused"
	ReasonEnded        = "ended"
)

// CountsAsRejected reports whether a send with this reason may have failed because the address
// takes no messages.
func CountsAsRejected(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonOptedOut
}

// CountsTowardBackoffRule reports whether the rule "backoff" counts a send that failed for this
// reason. The rule does not count a send that an administrator or the caller ended.
func CountsTowardBackoffRule(reason string) bool {
	return reason != ReasonEnded && reason != ReasonErased
}

// FailedSend is a failed send, of one class of callers.
type FailedSend struct {
	ID      uuid.UUID
	EndedAt time.Time // on the database's clock
	Purpose string
	// CountsTowardBackoffRule says whether the rule "backoff" counts the send. The rule counts the
	// send if the function CountsTowardBackoffRule returns true for its reason. But the rule does
	// not count a send that a reset removed. It also does not count a send if the recipient was
	// sent a message after the send ended.
	CountsTowardBackoffRule bool
	Paused                  bool // a pause stopped it
	PauseInForce            bool // a pause of the send's prefix and class is in force now
}

// FailedSendsQuery selects the FailedSends of a recipient that ended less than Within ago.
type FailedSendsQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Class     Class
	Within    time.Duration
}

// AsSend returns a send with the bucket's app, channel and recipient, for RecipientLockKey.
func (b SendBucket) AsSend() Send {
	return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient}
}
