// Package batch lets calls to a database share transactions: what arrives while the writers are busy runs in the next batch.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sendcode/internal/store"
)

const (
	maxShared  = 256   // calls in a batch
	maxWaiting = 10000 // queued calls; further calls fail with fault.Unavailable
)

var (
	errClosed = errors.New("closed")
	errFull   = errors.New("too many calls wait for the database")
)

// Call is one call in a batcher.
type Call[In, Answer any] struct {
	In     In
	Key    int64 // calls with the same key never run at the same time
	Answer Answer
	Err    error
	done   chan struct{} // closed when Answer and Err are set
}

// NewCall makes a call as Submit does.
func NewCall[In, Answer any](in In, key int64) *Call[In, Answer] {
	return &Call[In, Answer]{In: in, Key: key, done: make(chan struct{})}
}

// Finish sets the answer of a call, once.
func (x *Call[In, Answer]) Finish(answer Answer, err error) {
	x.Answer, x.Err = answer, err
	close(x.done)
}

// Batcher runs calls in batches: calls that arrive while all writers are busy share the next one. With a free writer, a call runs
// at once; it never waits for others to join. At most one call of each key is under way at a time. Two in one batch would not see each
// other's rows; in two batches, the second would wait for the first one's lock and delay all calls of its batch.
type Batcher[In, Answer any] struct {
	// Waits: Submit does not leave a call that has begun, even if its ctx ends. Set it before the first call.
	Waits bool

	run     func([]*Call[In, Answer]) // runs a batch and calls Finish for every call
	most    int                       // most writers at once
	mu      sync.Mutex
	queued  []*Call[In, Answer]
	busy    map[int64]bool // keys of the calls under way
	writers sync.WaitGroup
	active  int // writers now
	closed  bool
}

// New makes a batcher of up to most writers, each of which runs one batch after the other. run must call Finish for every call.
func New[In, Answer any](most int, run func([]*Call[In, Answer])) *Batcher[In, Answer] {
	return &Batcher[In, Answer]{run: run, most: most, busy: map[int64]bool{}}
}

// Submit queues a call and waits for its answer. If ctx ends before its batch begins, the call is withdrawn and surely wrote nothing.
// If ctx ends later, the write goes on and the error wraps fault.Uncertain, unless c.Waits is set.
func (c *Batcher[In, Answer]) Submit(ctx context.Context, in In, key int64) (none Answer, err error) {
	x := NewCall[In, Answer](in, key)
	if err = ctx.Err(); err == nil {
		err = c.enqueue(x)
	}
	if err != nil {
		return none, store.Unavailable(err)
	}
	select {
	case <-x.done:
		return x.Answer, x.Err
	case <-ctx.Done():
	}
	if c.withdraw(x) {
		return none, store.Unavailable(fmt.Errorf("before its turn: %w", ctx.Err()))
	}
	if c.Waits {
		<-x.done
	}
	select {
	case <-x.done: // the answer came at the same time
		return x.Answer, x.Err
	default:
		return none, store.Uncertain(ctx.Err())
	}
}

// enqueue adds the call to the queue and starts a writer if fewer than the limit run. It fails if the batcher is closed or the
// queue is full.
func (c *Batcher[In, Answer]) enqueue(x *Call[In, Answer]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case len(c.queued) >= maxWaiting:
		return errFull
	}
	c.queued = append(c.queued, x)
	if c.active < c.most {
		c.active++
		c.writers.Go(c.runBatches)
	}
	return nil
}

// withdraw removes a call from the queue. False: its round trip has begun already.
func (c *Batcher[In, Answer]) withdraw(x *Call[In, Answer]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queued, x)
	if i < 0 {
		return false
	}
	c.queued = slices.Delete(c.queued, i, i+1)
	return true
}

// runBatches makes one round trip after the other until take returns no call.
func (c *Batcher[In, Answer]) runBatches() {
	for {
		batch := c.takeBatch()
		if len(batch) == 0 {
			return
		}
		c.run(batch)
		c.release(batch)
	}
}

// takeBatch removes the oldest calls with free keys from the queue, marks their keys busy and returns the calls. If there are none, it
// returns nil, and the calling writer must end: all calls that are left have a key of another writer's batch, which takes them next.
func (c *Batcher[In, Answer]) takeBatch() []*Call[In, Answer] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*Call[In, Answer]
	left := c.queued[:0]
	for _, x := range c.queued {
		if len(batch) == maxShared || c.busy[x.Key] {
			left = append(left, x)
			continue
		}
		c.busy[x.Key] = true
		batch = append(batch, x)
	}
	clear(c.queued[len(left):])
	c.queued = left
	if len(batch) == 0 {
		c.active--
	}
	return batch
}

// release frees the keys of a batch that got its answers.
func (c *Batcher[In, Answer]) release(batch []*Call[In, Answer]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range batch {
		delete(c.busy, x.Key)
	}
}

// Close refuses new calls and waits until all queued calls have their answers.
func (c *Batcher[In, Answer]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.writers.Wait()
}
