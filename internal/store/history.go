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
	Purposes  []string // those that share the policy, at least one
}

// Check says what is wrong with it, in an error that wraps ErrBadRequest.
func (b Bucket) Check() error {
	if len(b.Purposes) == 0 || !Storable(b.App, string(b.Channel)) || !Storable(b.Purposes...) {
		return Bad("a bucket names its app, channel and purposes")
	}
	return nil
}

// LockKey names a recipient's buckets. Two recipients with one key only wait for each other.
func LockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
