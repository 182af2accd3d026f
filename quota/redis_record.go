package quota

import (
	"context"
	"slices"
	"time"
)

// recordBatchSize bounds the events of one run of the script, so that a long history doesn't keep
// other callers waiting.
const recordBatchSize = 1000

// Record implements [Limiter], in steps of at most 1,000 events. After a failure, some of the
// events may be written.
func (r *Redis) Record(ctx context.Context, bucket string, keep time.Duration, events []AgedEvent) error {
	if err := checkRecord(bucket, keep, events); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	for some := range slices.Chunk(events, recordBatchSize) {
		args := []any{keep.Microseconds(), (tombstoneLife - resetSlack).Microseconds()}
		for _, e := range some {
			asOf := int64(0)
			if !e.AsOf.IsZero() {
				asOf = e.AsOf.UnixMicro()
			}
			args = append(args, e.ID, ceil(e.Age, time.Microsecond), asOf)
		}
		if _, err := r.runScript(ctx, r.record, []string{bucket}, args); err != nil {
			return err
		}
	}
	return nil
}
