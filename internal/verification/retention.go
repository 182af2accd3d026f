package verification

import (
	"context"
	"time"
)

// Bounds of letting go of old rows: a little at each tick, so that nothing else waits for it.
const (
	sweepRows  = 500
	sweepEvery = 10 * time.Minute // once nothing old is left
)

// sweep is how far this process has come with what is old.
type sweep struct {
	gone int // since the last time that nothing was left
	next time.Time
}

// expire lets go of some of the rows that are older than the terms keep them. Tick after tick, until none is left.
func (o *outbox) expire(ctx context.Context) {
	keep, now := o.Terms().Retention, o.Now()
	if keep == 0 || now.Before(o.sweep.next) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	n, err := o.Log.Expire(ctx, keep, sweepRows)
	o.sweep.gone += n
	switch {
	case err != nil:
		if ctx.Err() == nil {
			o.Logger.Warn("old rows could not be deleted", "error", err)
		}
	case n == sweepRows:
		return
	case o.sweep.gone > 0:
		o.Logger.Info("rows older than the log keeps them are gone", "count", o.sweep.gone)
		o.sweep.gone = 0
	}
	o.sweep.next = now.Add(sweepEvery)
}
