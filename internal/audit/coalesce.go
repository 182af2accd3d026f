package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Bounds of the coalescer. Two writers keep the database busy while one of them waits for its disk; more add contention
// and make the round trips smaller.
const (
	maxWriters = 2
	maxShared  = 256   // intents in one round trip
	maxWaiting = 10000 // calls; beyond them the log is away, for all that callers can tell
)

var (
	errClosed = errors.New("closed")
	errFull   = errors.New("too many calls wait for the log")
)

// call is one Begin on its way.
type call struct {
	in     Intent
	key    int64 // of the advisory lock
	answer Begun
	err    error
	done   chan struct{} // closed when answer and err are there
}

// coalescer lets calls that arrive while a round trip is under way share the next one. A caller alone goes at once, for
// there is no window in which it would wait for others. Of the calls with one key at most one is under way, in all
// round trips together: two in one statement would not see each other's row, and in two statements the second would
// hold up everybody that shares its round trip.
type coalescer struct {
	run func([]*call) // one round trip: answers every call, by finish

	mu      sync.Mutex
	waiting []*call
	busy    map[int64]bool // keys under way
	writers sync.WaitGroup
	active  int
	closed  bool
}

func newCoalescer(run func([]*call)) *coalescer {
	return &coalescer{run: run, busy: map[int64]bool{}}
}

func newCall(in Intent, key int64) *call {
	return &call{in: in, key: key, done: make(chan struct{})}
}

func (c *call) finish(answer Begun, err error) {
	c.answer, c.err = answer, err
	close(c.done)
}

// do waits for the call's answer. When ctx ends before its round trip, the call is withdrawn and certainly wrote
// nothing. When ctx ends later, the write goes on, and what came of it is not known here.
func (c *coalescer) do(ctx context.Context, x *call) (Begun, error) {
	if err := ctx.Err(); err != nil {
		return Begun{}, unavailable(err)
	}
	if err := c.enqueue(x); err != nil {
		return Begun{}, unavailable(err)
	}
	select {
	case <-x.done:
		return x.answer, x.err
	case <-ctx.Done():
	}
	if c.withdraw(x) {
		return Begun{}, unavailable(fmt.Errorf("before its turn: %w", ctx.Err()))
	}
	select {
	case <-x.done: // both at once: the answer is worth more
		return x.answer, x.err
	default:
		return Begun{}, uncertain(ctx.Err())
	}
}

func (c *coalescer) enqueue(x *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case len(c.waiting) >= maxWaiting:
		return errFull
	}
	c.waiting = append(c.waiting, x)
	if c.active < maxWriters {
		c.active++
		c.writers.Go(c.write)
	}
	return nil
}

func (c *coalescer) withdraw(x *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, x)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// write makes round trips until nothing is left that it could take.
func (c *coalescer) write() {
	for {
		batch := c.take()
		if len(batch) == 0 {
			return
		}
		c.run(batch)
		c.release(batch)
	}
}

// take takes the oldest calls whose keys are free. It ends the writer where there are none: those that are left have
// keys in the other writer's hands, who looks again when it is done.
func (c *coalescer) take() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*call
	left := c.waiting[:0]
	for _, x := range c.waiting {
		if len(batch) == maxShared || c.busy[x.key] {
			left = append(left, x)
			continue
		}
		c.busy[x.key] = true
		batch = append(batch, x)
	}
	clear(c.waiting[len(left):])
	c.waiting = left
	if len(batch) == 0 {
		c.active--
	}
	return batch
}

func (c *coalescer) release(batch []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range batch {
		delete(c.busy, x.key)
	}
}

// close refuses new calls and waits until those that are there have their answers.
func (c *coalescer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.writers.Wait()
}
