package quota

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Bounds of a pipe. Of two round trips one is under way while callers read what the other has brought; and where one
// hangs, the other still serves.
const (
	lanes     = 2
	maxShared = 256 // calls in one round trip
)

// pipe lets calls that arrive while others are under way share the next round trip. A caller alone goes at once, on its
// own: there is no time for which it would wait for others.
type pipe struct {
	client redis.UniversalClient

	mu      sync.Mutex
	waiting []*call
	busy    int // lanes
}

// call is one script on its way.
type call struct {
	ctx    context.Context
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd
	done   chan struct{} // closed when the answer is there
}

// run gives what the script says. When ctx ends first, the script may run all the same, unless it was still waiting.
func (p *pipe) run(ctx context.Context, script *redis.Script, keys []string, args []any) (*redis.Cmd, error) {
	x := p.enter(ctx, script, keys, args)
	if x == nil {
		defer p.leave()
		cmd := script.Run(ctx, p.client, keys, args...)
		return cmd, cmd.Err()
	}
	select {
	case <-x.done:
		return x.answer, x.answer.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter takes a free lane, or waits in line.
func (p *pipe) enter(ctx context.Context, script *redis.Script, keys []string, args []any) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy < lanes {
		p.busy++
		return nil
	}
	x := &call{ctx: ctx, script: script, keys: keys, args: args, done: make(chan struct{})}
	p.waiting = append(p.waiting, x)
	return x
}

// leave gives the lane to those who came meanwhile. Who was alone in it is not kept waiting for them.
func (p *pipe) leave() {
	if batch := p.next(); batch != nil {
		go func() {
			for ; batch != nil; batch = p.next() {
				p.share(batch)
			}
		}()
	}
}

// next is who goes next, in the order of coming; nil gives the lane up.
func (p *pipe) next() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.waiting), maxShared)
	if n == 0 {
		p.busy--
		return nil
	}
	batch := p.waiting[:n:n]
	if p.waiting = p.waiting[n:]; len(p.waiting) == 0 {
		p.waiting = nil
	}
	return batch
}

// share runs the scripts in one round trip, and those again that Redis did not know, after it has learned them.
func (p *pipe) share(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), budget) // each caller has its own beside
	defer cancel()
	batch = slices.DeleteFunc(batch, (*call).gone)
	unknown := p.trip(ctx, batch)
	if len(unknown) > 0 {
		one := unknown[0]
		one.answer = one.script.Run(ctx, p.client, one.keys, one.args...)
		for _, x := range p.trip(ctx, unknown[1:]) { // another script
			x.answer = x.script.Run(ctx, p.client, x.keys, x.args...)
		}
	}
	for _, x := range batch {
		close(x.done)
	}
}

// trip returns the calls whose script Redis did not know, and so did not run.
func (p *pipe) trip(ctx context.Context, batch []*call) (unknown []*call) {
	if len(batch) == 0 {
		return nil
	}
	shared := p.client.Pipeline()
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

// gone reports whether the caller has given up before its turn: then nothing was asked for it.
func (x *call) gone() bool { return x.ctx.Err() != nil }
