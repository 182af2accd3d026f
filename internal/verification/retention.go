package verification

import (
	"context"
	"time"

	"sendcode/internal/store"
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
	gone, err := o.Log.Expire(ctx, keep, sweepRows)
	o.sweep.gone += gone.Rows
	if gone.Partition != "" {
		o.Logger.Info("a partition with rows older than the log keeps them is gone", "partition", gone.Partition)
	}
	switch {
	case err != nil:
		if ctx.Err() == nil {
			o.Logger.Warn("old rows could not be deleted", "error", err)
		}
	case gone.More:
		return
	case o.sweep.gone > 0:
		o.Logger.Info("rows older than the log keeps them are gone", "count", o.sweep.gone)
		o.sweep.gone = 0
	}
	o.sweep.next = now.Add(sweepEvery)
}

// Room for the rows to come is made every ten minutes, months ahead; where there is less than that, at every tick until there is, and
// somebody is told.
const (
	roomEvery = 10 * time.Minute
	roomAhead = 2 // months, less is an alarm
	tellEvery = 10 * time.Minute
)

// ahead is what this process knows of the room that there is.
type ahead struct {
	next, told time.Time
}

func (o *outbox) makeRoom(ctx context.Context) {
	now := o.Now()
	if now.Before(o.ahead.next) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	until, err := o.Log.EnsurePartitions(ctx)
	if err == nil && (until.IsZero() || store.MonthsAhead(until, now) >= roomAhead) {
		o.ahead.next = now.Add(roomEvery)
		return
	}
	if ctx.Err() == nil && now.Sub(o.ahead.told) >= tellEvery {
		o.ahead.told = now
		o.Logger.Error("the log has little room for rows to come; without a partition for them no code can be sent", "until", until, "error", err)
	}
}
