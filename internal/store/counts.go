package store

import (
	"context"
	"encoding/binary"
	"hash/fnv"

	"sendcode/internal/recipient"
)

// Bucket names one recipient's counting sends under one policy.
type Bucket struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purposes  []string // those that share the policy, at least one
}

// LockKey hashes a send's app, channel and recipient to the key of the lock on them. Two recipients may share a key; then they only
// wait for each other.
func LockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// ReasonRejected is the reason of a failed send that the mail server or the carrier refused for good, ReasonPaused that of
// one whose channel or purpose is paused. Such sends, and those to suppressed recipients, give their places back, so they are
// bounded by themselves: Begin counts those of a recipient whatever their purpose.
const (
	ReasonRejected = "rejected"
	ReasonPaused   = "paused"
)

// CountsAsRejected reports whether a send that failed for this reason counts in the rule on rejected sends.
func CountsAsRejected(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonPaused
}

// CounterReset ends, for both gates, what counts for a recipient: sends, rejections and failed checks. Their rows stay readable.
type CounterReset interface {
	// ResetCounters ends the counting of the buckets' sends, and of the rejected sends and failed checks of their recipients. A send
	// that is under way is forgiven with all that becomes of it. The act is written with it, or neither. Codes keep the tries that they
	// had: no more guesses are allowed at one code.
	ResetCounters(ctx context.Context, buckets []Bucket, act AuditEntry) error
	// CancelBy is Cancel with the act that it is. Where the verification had ended before, the act is recorded as failed.
	CancelBy(ctx context.Context, id string, act AuditEntry) (bool, error)
}

// AsSend returns a send with the bucket's app, channel and recipient, for LockKey.
func (b Bucket) AsSend() Send { return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient} }
