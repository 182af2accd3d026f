package quota

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"
)

// Record writes history found elsewhere; see [Limiter]. A failure may leave a part of it written.
func (r *Redis) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	return r.history(ctx, History{Bucket: bucket, Keep: keep, Events: events})
}

// Restore writes all that a log has and marks the bucket as complete; see [Limiter].
func (r *Redis) Restore(ctx context.Context, h History) error {
	return r.history(ctx, h)
}

// history marks the bucket with the last step, if the history names the life that it was read for.
func (r *Redis) history(ctx context.Context, h History) error {
	if err := checkRecord(h.Bucket, h.Keep, h.Events); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	const most = 1000 // events in one step, so that other callers do not wait for a long history
	life := lifeNumber(h.Life)
	for len(h.Events) > most {
		if err := r.step(ctx, h, h.Events[:most], 0); err != nil {
			return err
		}
		h.Events = h.Events[most:]
	}
	if len(h.Events) == 0 && (life == 0 || h.Settle > 0) {
		return nil
	}
	return r.step(ctx, h, h.Events, life)
}

func (r *Redis) step(ctx context.Context, h History, events []Event, life uint64) error {
	args := []any{h.Keep.Microseconds(), life, h.Settle.Microseconds()}
	for _, e := range events {
		args = append(args, e.ID, e.At.UnixMicro())
	}
	return r.write(ctx, r.record, []string{h.Bucket}, args...)
}

const bits = 28 // that a mark has room for

// lifeNumber is 0 for what no script has told.
func lifeNumber(life string) uint64 {
	n, err := strconv.ParseUint(life, 10, bits)
	if err != nil {
		return 0
	}
	return n
}

// sourceNumber is the same in every process.
func sourceNumber(source string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(source))
	return h.Sum32() % (1 << bits)
}

// incomplete reads what the scripts say of the buckets that they were asked about: 0, or the life of the server.
func (p plan) incomplete(lives []int64) (scopes map[Scope]string) {
	for _, a := range p.asks {
		if a.scope == "" {
			continue
		}
		if lives[0] != 0 {
			if scopes == nil {
				scopes = map[Scope]string{}
			}
			scopes[a.scope] = strconv.FormatInt(lives[0], 10)
		}
		lives = lives[1:]
	}
	return scopes
}

// asked is how many buckets are asked about.
func (p plan) asked() (n int) {
	for _, a := range p.asks {
		if a.scope != "" {
			n++
		}
	}
	return n
}
