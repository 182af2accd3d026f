package quota

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Each lane makes one round trip at a time. With two lanes, one round trip can be under way while
// the callers of the other read their answers. If one lane hangs, the other still works.
const (
	roundTripLanes = 2   // round trips at once
	maxBatch       = 256 // calls in one round trip
)

// callBatcher lets calls that arrive while all lanes are busy share the next round trip. If a lane
// is free, a call runs at once.
type callBatcher struct {
	limiter *Redis

	mu      sync.Mutex
	waiting []*scriptCall
	busy    int // lanes in use
}

type scriptCall struct {
	ctx    context.Context
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd    // nil after a panic
	done   chan struct{} // closed when answer is set
}

// run returns the script's answer. If ctx ends first, a queued script doesn't run, but a script
// that was sent may still run.
func (c *callBatcher) run(ctx context.Context, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	x := c.takeLaneOrQueue(ctx, script, keys, args)
	if x == nil {
		defer c.releaseLane()
		cmd := script.Run(ctx, c.limiter.client, keys, args...)
		return cmd, cmd.Err()
	}
	select {
	case <-x.done:
		if x.answer == nil {
			return nil, errPanic
		}
		return x.answer, x.answer.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// takeLaneOrQueue returns nil if it took a free lane, otherwise the queued call.
func (c *callBatcher) takeLaneOrQueue(ctx context.Context, script *redis.Script, keys []string, args []any) *scriptCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy < roundTripLanes {
		c.busy++
		return nil
	}
	x := &scriptCall{ctx: ctx, script: script, keys: keys, args: args, done: make(chan struct{})}
	c.waiting = append(c.waiting, x)
	return x
}

// releaseLane never blocks: if calls are queued, another goroutine takes over the lane.
func (c *callBatcher) releaseLane() {
	if batch := c.nextBatchOrReleaseLane(); batch != nil {
		go func() {
			for ; batch != nil; batch = c.nextBatchOrReleaseLane() {
				c.runBatch(batch)
			}
		}()
	}
}

// nextBatchOrReleaseLane returns the oldest queued calls. If there are none, it releases the lane
// and returns nil.
func (c *callBatcher) nextBatchOrReleaseLane() []*scriptCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch)
	if n == 0 {
		c.busy--
		return nil
	}
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
	return batch
}

// runBatch runs the calls whose context hasn't ended in one round trip, and wakes their callers.
// Scripts that Redis doesn't have yet are loaded and run again.
func (c *callBatcher) runBatch(batch []*scriptCall) {
	defer func() {
		for _, x := range batch {
			close(x.done)
		}
	}()
	defer c.limiter.recoverTo(func() {
		for _, x := range batch {
			x.answer = nil
		}
	})
	// The round trip belongs to the trace of the oldest call, whose end must not cancel the others.
	oldest := context.WithoutCancel(batch[0].ctx)
	ctx, cancel := context.WithTimeout(oldest, c.limiter.Budget)
	defer cancel()
	batch = slices.DeleteFunc(batch, (*scriptCall).canceled)
	unknown := c.roundTrip(ctx, batch)
	if len(unknown) > 0 {
		one := unknown[0]
		one.answer = one.script.Run(ctx, c.limiter.client, one.keys, one.args...)
		for _, x := range c.roundTrip(ctx, unknown[1:]) { // Redis still lacks the scripts of these calls
			x.answer = x.script.Run(ctx, c.limiter.client, x.keys, x.args...)
		}
	}
}

// roundTrip stores the answers, and returns the calls whose script Redis didn't have.
func (c *callBatcher) roundTrip(ctx context.Context, batch []*scriptCall) (unknown []*scriptCall) {
	if len(batch) == 0 {
		return nil
	}
	shared := c.limiter.client.Pipeline()
	for _, x := range batch {
		x.answer = x.script.EvalSha(ctx, shared, x.keys, x.args...)
	}
	_, _ = shared.Exec(ctx) // each call has its own error
	for _, x := range batch {
		if err := x.answer.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, x)
		}
	}
	return unknown
}

func (s *scriptCall) canceled() bool { return s.ctx.Err() != nil }
