package store

import (
	"cmp"
	"context"
	"slices"
)

// An administrator may forgive a recipient what was counted: sends, rejections and failed checks count no more, from now
// on and for both gates. What happened stays to be read.

// CounterReset is the part of the log that forgets what counts.
type CounterReset interface {
	// ResetCounters has everything that counts in the buckets count no more: their sends, and of their recipients, apps and channels
	// the rejected sends and the failed checks. A send that is under way is forgiven with all that becomes of it. The act is written with it,
	// or neither. Codes keep the tries that they had: no more guesses are allowed at one code.
	ResetCounters(ctx context.Context, buckets []Bucket, act AuditEntry) error
	// CancelBy is Cancel with the act that it is. Where the verification had ended before, the act is recorded as failed.
	CancelBy(ctx context.Context, id string, act AuditEntry) (bool, error)
}

// CheckReset says what is wrong with the arguments of a call of ResetCounters.
func CheckReset(buckets []Bucket, act AuditEntry) ([]Bucket, AuditEntry, error) {
	if len(buckets) == 0 {
		return nil, act, Bad("nothing to forgive")
	}
	for _, b := range buckets {
		if err := b.Check(); err != nil {
			return nil, act, err
		}
	}
	buckets = slices.Clone(buckets)
	slices.SortFunc(buckets, func(a, b Bucket) int { return cmp.Compare(LockKey(a.Row()), LockKey(b.Row())) })
	act, err := act.Checked()
	return buckets, act, err
}

// Row is what a bucket's lock is named after.
func (b Bucket) Row() Send { return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient} }
