package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"sendcode/internal/recipient"
	"sendcode/quota"
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

// CountedRejection returns a rejected send as a limiter counts it: at the time when it ended, on the log's clock.
func CountedRejection(s Send) CountedSend {
	return CountedSend{
		App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock,
		Event: quota.Event{ID: string(s.ID[:]), At: s.FinishedAt},
	}
}

// An administrator may forgive a recipient what was counted: sends, rejections and failed checks count no more, from now
// on and for both gates. What happened stays to be read.

// CounterReset ends what counts for a recipient.
type CounterReset interface {
	// ResetCounters ends the counting of the buckets' sends, and of the rejected sends and failed checks of their recipients. A send
	// that is under way is forgiven with all that becomes of it. The act is written with it, or neither. Codes keep the tries that they
	// had: no more guesses are allowed at one code.
	ResetCounters(ctx context.Context, buckets []Bucket, act AuditEntry) error
	// CancelBy is Cancel with the act that it is. Where the verification had ended before, the act is recorded as failed.
	CancelBy(ctx context.Context, id string, act AuditEntry) (bool, error)
}

// CheckReset validates the arguments of ResetCounters. It returns act as it is stored, and a copy of the buckets in the order in
// which they are locked. Errors wrap ErrBadRequest.
func CheckReset(buckets []Bucket, act AuditEntry) ([]Bucket, AuditEntry, error) {
	buckets = slices.Clone(buckets)
	slices.SortFunc(buckets, func(a, b Bucket) int { return cmp.Compare(LockKey(a.Row()), LockKey(b.Row())) })
	act, err := act.Checked()
	return buckets, act, err
}

// Row returns a send with the bucket's app, channel and recipient, for LockKey.
func (b Bucket) Row() Send { return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient} }
