package store

import (
	"encoding/binary"
	"hash/fnv"

	"sendcode/internal/recipient"
)

// Bucket names one recipient's counting sends under one policy.
type Bucket struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purposes  []string // all purposes with this policy, at least one
}

// LockKey returns the key of the lock on a recipient: a hash of the send's app, channel and recipient. Two recipients may have the same
// key; then their sends wait for each other.
func LockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// Reasons of failed sends. ReasonRejected: the mail server or the carrier refused the message for good. ReasonPaused: the channel, the
// purpose or the prefix was paused. Such sends, and those with ReasonSuppressed, are refunded. So that they are not unlimited, a rule
// of its own counts them, over all purposes of a recipient; see Intent.Rejections.
const (
	ReasonRejected = "rejected"
	ReasonPaused   = "paused"
)

// CountsAsRejected reports whether the rule on rejected sends counts a send that failed for this reason.
func CountsAsRejected(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonPaused
}

// AsSend returns a send with the bucket's app, channel and recipient, for LockKey.
func (b Bucket) AsSend() Send { return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient} }
