package audit

import (
	"encoding/binary"
	"hash/fnv"
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

// before places the rows as a gate does that decides at an instant of a clock.
func before(rows []past, within time.Duration, clock string, at, now time.Time) []quota.Event {
	in := Intent{Rules: []quota.Rule{{Window: within.Truncate(time.Microsecond)}}, Send: Send{Clock: clock, TakenAt: at}}
	events := history(in, now, rows)
	shift := taken(in, now).Sub(instant(in, now))
	for i := range events {
		events[i].At = events[i].At.Add(shift)
	}
	return events
}

// lockKey names a recipient's buckets. Two recipients with one key only wait for each other.
func lockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
