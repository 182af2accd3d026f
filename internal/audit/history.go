package audit

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

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

func (b Bucket) check() error {
	if len(b.Purposes) == 0 || !storable(b.App, string(b.Channel)) || !storable(b.Purposes...) {
		return bad("a bucket names its app, channel and purposes")
	}
	return nil
}

// History implements Log.
func (m *Memory) History(ctx context.Context, b Bucket, within time.Duration) (events []quota.Event, now time.Time, err error) {
	if err := b.check(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "History")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	for _, r := range m.buckets[memoryBucket{b.App, b.Channel, b.Recipient}] {
		if r.Counts && slices.Contains(b.Purposes, r.Purpose) && now.Sub(r.LoggedAt) < within.Truncate(time.Microsecond) {
			events = append(events, quota.Event{ID: string(r.ID[:]), At: r.LoggedAt})
		}
	}
	return ordered(events), now, nil
}

// lockKey names a recipient's buckets. Two recipients with one key only wait for each other.
func lockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
