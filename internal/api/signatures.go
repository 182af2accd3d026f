package api

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"sendcode/internal/events"
	"sendcode/quota"
)

// Limiter remembers used signatures, for all replicas where it is theirs. Implementation: quota.Limiter.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
}

// signatures are those that were used. One is kept until no request with its time is accepted any more: each is a bucket with room
// for one event.
type signatures struct {
	limiter Limiter
	spare   Limiter // of this process, while the limiter is away
}

// onceRule outlives a signature of a clock that is ahead by as much as is accepted, and replicas whose clocks differ by a minute.
var onceRule = quota.Rule{Name: "once", Scope: "signature", Limit: 1, Window: 2*events.MaxAge + time.Minute}

const signatureTimeout = time.Second

// use is false for a signature that was used before. With undo it is as if it had not been.
func (s signatures) use(ctx context.Context, provider, signature string) (undo func(), fresh bool, err error) {
	id, bucket := rand.Text(), quota.Bucket("provider", provider, signature)
	r := quota.Request{ID: id, Rules: []quota.Rule{onceRule}, Buckets: map[quota.Scope]string{onceRule.Scope: bucket}}
	undo = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signatureTimeout)
		defer cancel()
		_ = s.limiter.Refund(ctx, id, bucket) // where that fails, the provider's next try counts as a repetition
		_ = s.spare.Refund(ctx, id, bucket)
	}
	limited, cancel := context.WithTimeout(ctx, signatureTimeout)
	defer cancel()
	d, err := s.limiter.Take(limited, r)
	if errors.Is(err, quota.ErrUnavailable) {
		d, err = s.spare.Take(ctx, r)
	}
	return undo, d.Admitted, err
}
