package api

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"sendcode/internal/events"
	"sendcode/quota"
)

// Limiter stores used signatures, for all replicas if they share it. Implementation: quota.Limiter.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
}

// signatures detects repeated signatures of provider events. Each used signature is a bucket with a limit of one event, which lasts
// longer than a request with its time is accepted.
type signatures struct {
	limiter Limiter
	spare   Limiter // in this process; used while limiter is unavailable
}

// onceRule admits each signature once. Its window covers the accepted age, clocks of providers that are ahead, and replicas whose clocks
// differ by a minute.
var onceRule = quota.Rule{Name: "once", Scope: "signature", Limit: 1, Window: 2*events.MaxAge + time.Minute}

const signatureTimeout = time.Second

// use marks a signature as used; fresh is false if it was used before. undo removes the mark, so that the provider may repeat the request.
// Error: of both limiters.
func (s signatures) use(ctx context.Context, provider, signature string) (undo func(), fresh bool, err error) {
	id, bucket := rand.Text(), quota.Bucket("provider", provider, signature)
	r := quota.Request{ID: id, Rules: []quota.Rule{onceRule}, Buckets: map[quota.Scope]string{onceRule.Scope: bucket}}
	undo = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signatureTimeout)
		defer cancel()
		_ = s.limiter.Refund(ctx, id, bucket) // if it fails, the provider's repetition is rejected as used
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
