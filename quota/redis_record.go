package quota

import (
	"context"
	"hash/fnv"
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
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	const most = 1000 // events in one step, so that other callers do not wait for a long history
	epoch := parseEpoch(h.Epoch)
	for len(h.Events) > most {
		if err := r.writeStep(ctx, h, h.Events[:most], 0); err != nil {
			return err
		}
		h.Events = h.Events[most:]
	}
	if len(h.Events) == 0 && (epoch == 0 || h.DoubtFor > 0) {
		return nil
	}
	return r.writeStep(ctx, h, h.Events, epoch)
}

func (r *Redis) writeStep(ctx context.Context, h History, events []Event, epoch uint64) error {
	args := []any{h.Keep.Microseconds(), epoch, h.DoubtFor.Microseconds()}
	for _, e := range events {
		args = append(args, e.ID, e.At.UnixMicro())
	}
	return r.write(ctx, r.record, []string{h.Bucket}, args...)
}

const epochBits = 28 // size of an epoch in the score of a mark

// parseEpoch parses an epoch of take.lua's answer; 0 for anything else, such as "".
func parseEpoch(epoch string) uint64 {
	n, err := strconv.ParseUint(epoch, 10, epochBits)
	if err != nil {
		return 0
	}
	return n
}

// sourceNumber hashes the name of a source to a number of epochBits bits, the same in every process.
func sourceNumber(source string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(source))
	return h.Sum32() % (1 << epochBits)
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
