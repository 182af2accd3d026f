package rig

import (
	"context"

	"sendcode/internal/gates"
)

// flaky loses the first refund.
type Flaky struct {
	gates.Limiter
	Calls *int
}

func (f Flaky) Refund(ctx context.Context, id string, buckets ...string) error {
	if *f.Calls++; *f.Calls == 1 {
		return context.DeadlineExceeded
	}
	return f.Limiter.Refund(ctx, id, buckets...)
}
