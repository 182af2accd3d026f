package verification

import (
	"context"
	"time"
)

// Bounds of counting ahead what statistics are asked for: a little at each tick, as with what is old.
const (
	countHours = 4
	countEvery = time.Minute // once all is counted
	forever    = 100 * 365 * 24 * time.Hour
)

// countAhead has the log count some of the hours that are over. Tick after tick, until all are counted.
func (o *outbox) countAhead(ctx context.Context) {
	now := o.Now()
	if now.Before(o.countNext) {
		return
	}
	keep := o.Terms().Retention
	if keep == 0 {
		keep = forever
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	n, err := o.Log.CountHours(ctx, keep, countHours)
	if err != nil && ctx.Err() == nil {
		o.Logger.Warn("hours that are over could not be counted; statistics read their rows", "error", err)
	}
	if n < countHours {
		o.countNext = now.Add(countEvery)
	}
}
