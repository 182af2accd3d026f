package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sendcode/internal/store"
)

// Bounds of a batcher. With two writers, one uses the database while the other waits for the disk; more writers would add contention and
// make the batches smaller.
const (
	maxWriters = 2
	maxShared  = 256   // calls in one round trip
	maxWaiting = 10000 // queued calls; further calls fail with fault.Unavailable
)

var (
	errClosed = errors.New("closed")
	errFull   = errors.New("too many calls wait for the database")
)

// waiting is one call in a batcher.
type waiting[In, Answer any] struct {
	in     In
	held   store.Held // the row and attempt that it writes
	key    int64      // calls with the same key never run at the same time
	answer Answer
	err    error
	done   chan struct{} // closed when answer and err are set
}

// The types of calls: Begin, Finish, Postpone and AppEventEnded. The key of a Begin is that of the recipient's advisory lock, the key of
// the others is rowKey of their row.
type (
	call       = waiting[store.Intent, store.Begun]
	ending     = waiting[store.Outcome, bool]
	postponing = waiting[store.Postponement, bool]
	eventEnd   = waiting[store.AppEventEnd, bool]
)

// batcher runs calls in batches: calls that arrive while all writers are busy share the next round trip. With a free writer, a call runs
// at once; it never waits for others to join. At most one call of each key is under way at a time. Two in one batch would not see each
// other's rows; in two batches, the second would wait for the first one's lock and delay all calls of its batch.
type batcher[In, Answer any] struct {
	run     func([]*waiting[In, Answer]) // makes one round trip and calls finish for every call
	most    int                          // most writers at once
	mu      sync.Mutex
	queued  []*waiting[In, Answer]
	busy    map[int64]bool // keys of the calls under way
	writers sync.WaitGroup
	active  int // writers now
	closed  bool
}

func newBatcher[In, Answer any](most int, run func([]*waiting[In, Answer])) *batcher[In, Answer] {
	return &batcher[In, Answer]{run: run, most: most, busy: map[int64]bool{}}
}

func (x *waiting[In, Answer]) finish(answer Answer, err error) {
	x.answer, x.err = answer, err
	close(x.done)
}

// submit queues a call and waits for its answer. If ctx ends before its round trip begins, the call is withdrawn and surely wrote
// nothing. If ctx ends later, the write goes on and the error wraps fault.Uncertain.
func (c *batcher[In, Answer]) submit(ctx context.Context, in In, held store.Held, key int64) (none Answer, err error) {
	x := &waiting[In, Answer]{in: in, held: held, key: key, done: make(chan struct{})}
	if err = ctx.Err(); err == nil {
		err = c.enqueue(x)
	}
	if err != nil {
		return none, store.Unavailable(err)
	}
	select {
	case <-x.done:
		return x.answer, x.err
	case <-ctx.Done():
	}
	if c.withdraw(x) {
		return none, store.Unavailable(fmt.Errorf("before its turn: %w", ctx.Err()))
	}
	select {
	case <-x.done: // the answer came at the same time
		return x.answer, x.err
	default:
		return none, store.Uncertain(ctx.Err())
	}
}

// enqueue adds the call to the queue and starts a writer if fewer than the limit run. It fails if the batcher is closed or the
// queue is full.
func (c *batcher[In, Answer]) enqueue(x *waiting[In, Answer]) error {
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
func (c *batcher[In, Answer]) withdraw(x *waiting[In, Answer]) bool {
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
func (c *batcher[In, Answer]) runBatches() {
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
func (c *batcher[In, Answer]) takeBatch() []*waiting[In, Answer] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*waiting[In, Answer]
	left := c.queued[:0]
	for _, x := range c.queued {
		if len(batch) == maxShared || c.busy[x.key] {
			left = append(left, x)
			continue
		}
		c.busy[x.key] = true
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
func (c *batcher[In, Answer]) release(batch []*waiting[In, Answer]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range batch {
		delete(c.busy, x.key)
	}
}

// close refuses new calls and waits until all queued calls have their answers.
func (c *batcher[In, Answer]) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.writers.Wait()
}
