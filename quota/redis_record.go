package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Events returns the newest events of the bucket; see [Limiter].
func (r *Redis) Events(ctx context.Context, bucket string) ([]Event, time.Time, error) {
	if err := checkBuckets([]string{bucket}); err != nil {
		return nil, time.Time{}, err
	}
	ctx, cancel := r.withBudget(ctx)
	defer cancel()
	cmd, err := r.runScript(ctx, r.events, []string{bucket}, []any{MaxEvents})
	if err != nil {
		return nil, time.Time{}, err
	}
	texts, err := cmd.StringSlice()
	if err != nil || len(texts)%2 == 0 {
		return nil, time.Time{}, fmt.Errorf("%w: an answer of %d texts: %w", ErrUnavailable, len(texts), err)
	}
	now, err := parseInstant(texts[0])
	events := make([]Event, 0, len(texts)/2)
	for e := range slices.Chunk(texts[1:], 2) {
		at, wrong := parseInstant(e[1])
		if wrong != nil {
			err = wrong
		}
		events = append(events, Event{e[0], at})
	}
	return events, now, err
}

func parseInstant(text string) (time.Time, error) {
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return microsToTime(at), nil
}

// recordBatchSize is how many events one run of the script writes at most, so that other callers do
// not wait for a long history.
const recordBatchSize = 1000

// Record sets the instants of events in the bucket, in steps of at most 1,000; see [Limiter]. After
// a failure some of the events may be written.
func (r *Redis) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	if err := checkRecord(bucket, keep, events); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	for some := range slices.Chunk(events, recordBatchSize) {
		args := []any{keep.Microseconds(), tombstoneLife.Microseconds()}
		for _, e := range some {
			args = append(args, e.ID, e.At.UnixMicro())
		}
		if _, err := r.runScript(ctx, r.record, []string{bucket}, args); err != nil {
			return err
		}
	}
	return nil
}
