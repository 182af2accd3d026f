package quota

import (
	"context"
	"strconv"
	"time"
)

// Record adds events from elsewhere to the bucket; see [Limiter]. A failure may leave some of them written.
func (r *Redis) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	return r.Restore(ctx, History{Bucket: bucket, Keep: keep, Events: events})
}

// Restore adds all events that a log has of the bucket; see [Limiter]. It runs record.lua in steps of at most 1,000 events. If the history
// has an Epoch, the last step marks the bucket as complete for that epoch. After an error, some events may be written.
func (r *Redis) Restore(ctx context.Context, h History) error {
	if err := checkRecord(h.Bucket, h.Keep, h.Events); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	epoch, settled := parseEpoch(h.Epoch), h.settled()
	for len(h.Events) > stepEvents {
		if err := r.writeStep(ctx, h, h.Events[:stepEvents], 0, 0); err != nil {
			return err
		}
		h.Events = h.Events[stepEvents:]
	}
	if len(h.Events) == 0 && epoch == 0 {
		return nil
	}
	return r.writeStep(ctx, h, h.Events, epoch, settled)
}

// stepEvents is how many events are written in one step, so that other callers do not wait for a long history.
const stepEvents = 1000

// settled returns the instant up to which events that the history lacks are taken out of the bucket, µs since 1970; 0: none are.
func (h History) settled() int64 {
	if parseEpoch(h.Epoch) == 0 || len(h.Events) > stepEvents || h.DoubtFor == 0 || h.Read.IsZero() {
		return 0
	}
	return h.Read.Add(-h.DoubtFor).UnixMicro()
}

func (r *Redis) writeStep(ctx context.Context, h History, events []Event, epoch int64, settled int64) error {
	d := divisionOf(h.Bucket, h.Mapping, h.Ahead)
	args := []any{h.Keep.Microseconds(), epoch, h.DoubtFor.Microseconds(), h.Skew.Microseconds(), settled, d.mapping, d.clocks,
		tombstone.Microseconds()}
	for _, e := range events {
		args = append(args, e.ID, e.At.UnixMicro())
	}
	_, err := r.run(ctx, r.record, d.keys([]string{h.Bucket}), args)
	return err
}

// parseEpoch parses an epoch of Decision.Incomplete; 0 for anything else, such as "".
func parseEpoch(epoch string) int64 {
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || n < 0 || n > epochs {
		return 0
	}
	return n
}

// incomplete returns the incomplete scopes and their epochs from the last numbers of take.lua's answer: for each checked bucket 0 if
// it is complete, else the server's epoch.
func (p plan) incomplete(epochs []int64) (scopes map[Scope]string) {
	for _, a := range p.checks {
		if a.scope == "" {
			continue
		}
		if epochs[0] != 0 {
			if scopes == nil {
				scopes = map[Scope]string{}
			}
			scopes[a.scope] = strconv.FormatInt(epochs[0], 10)
		}
		epochs = epochs[1:]
	}
	return scopes
}

// countChecks returns how many buckets the script checks for completeness.
func (p plan) countChecks() (n int) {
	for _, a := range p.checks {
		if a.scope != "" {
			n++
		}
	}
	return n
}
