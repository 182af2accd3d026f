// Package batch lets calls to a database share transactions: calls that arrive while the writers
// are busy run in the next batch.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
)

const (
	maxBatchSize = 256   // calls in a batch
	minBatchSize = 16    // lower bound of the size of batches after slow batches; see Batcher.Slow
	maxQueued    = 10000 // queued calls; further calls fail with fault.Unavailable

	// While a writer is busy, a second writer starts only when extraWriterQueueLength calls are
	// queued, or when one call has waited for extraWriterWait. An earlier start would make the
	// batches smaller, and each batch costs round trips and a sync of the disk.
	extraWriterQueueLength = 32
	extraWriterWait        = 10 * time.Millisecond
)

var (
	errClosed    = errors.New("closed")
	errQueueFull = errors.New("too many calls wait for the database")
)

// Call is one caller's input and, after its batch has run, the answer.
type Call[In, Answer any] struct {
	In     In
	Key    int64 // calls with the same key never run at the same time
	Answer Answer
	Err    error
	ctx    context.Context // of the caller
	queued bool            // the call is in the queue, and in no batch
	once   sync.Once       // done by SetAnswer
	done   chan struct{}   // closed when Answer and Err are set
}

// NewCall makes a call that no caller submitted. Its context never ends.
func NewCall[In, Answer any](in In, key int64) *Call[In, Answer] {
	return &Call[In, Answer]{In: in, Key: key, ctx: context.Background(), done: make(chan struct{})}
}

// SetAnswer sets the answer of a call. It must be called for each call; a second answer is ignored.
func (c *Call[In, Answer]) SetAnswer(answer Answer, err error) {
	c.once.Do(func() {
		c.Answer, c.Err = answer, err
		close(c.done)
	})
}

// Answered reports whether the call has its answer. If so, its caller may have left with the
// answer.
func (c *Call[In, Answer]) Answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// RoundTripContext returns the context for the round trip of a batch whose first call is c. The
// context has the values of the call's context, so that the round trip belongs to its trace, but it
// does not end with that context.
func (c *Call[In, Answer]) RoundTripContext() context.Context { return context.WithoutCancel(c.ctx) }

// Batcher runs calls in batches. Calls that arrive while a batch runs share the next batch;
// otherwise a call runs immediately. At most one call of each key runs at a time, for two reasons.
// Two calls of one key in the same batch would not see each other's rows. In two batches, the
// second call would wait for the first call's lock and delay its whole batch.
type Batcher[In, Answer any] struct {
	// WaitsOnceBegun: if ctx ends after the call has begun, Submit still waits for the call's end.
	// Set it before the first call.
	WaitsOnceBegun bool
	// Precedence: of the waiting calls, those with the lowest Precedence go into the next batch
	// first. Among equal calls, the oldest go first. nil: all are equal. Set it before the first
	// call.
	Precedence func(In) int
	// MinInterval is the least time between the starts of two batches of one writer. Set it before
	// the first call.
	MinInterval time.Duration
	// Slow: after a batch that took longer than Slow, batches become half as large, so that they do
	// not time out. After a full batch that took less than half of Slow, they become twice as
	// large. 0: the size is fixed. Set it before the first call.
	Slow time.Duration

	run        func([]*Call[In, Answer]) // runs a batch and calls SetAnswer for every call
	maxWriters int                       // most writers at once
	maxSize    int                       // most calls in a batch now
	mu         sync.Mutex
	queued     []*Call[In, Answer]
	busy       map[int64]bool // keys of the calls under way
	writers    sync.WaitGroup
	active     int // writers now
	closed     bool
}

// New makes a batcher with up to maxWriters writers. Each writer runs one batch after the other.
// run must call SetAnswer for every call.
func New[In, Answer any](maxWriters int, run func([]*Call[In, Answer])) *Batcher[In, Answer] {
	return &Batcher[In, Answer]{run: run, maxWriters: maxWriters, maxSize: maxBatchSize, busy: map[int64]bool{}}
}

// Submit queues a call and waits for its answer, within store.WithCallTimeout. If ctx ends before
// the call's batch begins, the call is withdrawn and certainly wrote nothing. If ctx ends later,
// the call goes on and the error wraps fault.Uncertain, unless WaitsOnceBegun is set.
func (batcher *Batcher[In, Answer]) Submit(ctx context.Context, in In, key int64) (none Answer, err error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	x := NewCall[In, Answer](in, key)
	x.ctx = ctx
	if err = ctx.Err(); err == nil {
		err = batcher.enqueue(x)
	}
	if err != nil {
		return none, store.WrapUnavailable(err)
	}
	select {
	case <-x.done:
		return x.Answer, x.Err
	case <-ctx.Done():
	}
	if batcher.withdraw(x) {
		return none, store.WrapUnavailable(fmt.Errorf("before its turn: %w", ctx.Err()))
	}
	if batcher.WaitsOnceBegun {
		<-x.done
	}
	select {
	case <-x.done: // the answer came just as ctx ended
		return x.Answer, x.Err
	default:
		return none, store.WrapUncertain(ctx.Err())
	}
}

// enqueue adds the call to the queue. It starts a writer if none runs or if enough calls wait (see
// extraWriterQueueLength). It fails if the batcher is closed or the queue is full.
func (batcher *Batcher[In, Answer]) enqueue(x *Call[In, Answer]) error {
	batcher.mu.Lock()
	defer batcher.mu.Unlock()
	switch {
	case batcher.closed:
		return errClosed
	case len(batcher.queued) >= maxQueued:
		return errQueueFull
	}
	batcher.queued, x.queued = append(batcher.queued, x), true
	switch {
	case batcher.active == 0 || len(batcher.queued) >= extraWriterQueueLength:
		batcher.startWriter()
	case batcher.active < batcher.maxWriters:
		time.AfterFunc(extraWriterWait, func() {
			batcher.mu.Lock()
			defer batcher.mu.Unlock()
			if x.queued {
				batcher.startWriter()
			}
		})
	}
	return nil
}

// startWriter starts a writer if fewer than maxWriters run. The caller holds the lock.
func (batcher *Batcher[In, Answer]) startWriter() {
	if batcher.active < batcher.maxWriters {
		batcher.active++
		batcher.writers.Go(batcher.runBatches)
	}
}

// withdraw removes a call from the queue. False: its batch has begun already.
func (batcher *Batcher[In, Answer]) withdraw(x *Call[In, Answer]) bool {
	batcher.mu.Lock()
	defer batcher.mu.Unlock()
	i := slices.Index(batcher.queued, x)
	if i < 0 {
		return false
	}
	batcher.queued, x.queued = slices.Delete(batcher.queued, i, i+1), false
	return true
}

// runBatches runs one batch after the other until takeBatch finds no call to run.
func (batcher *Batcher[In, Answer]) runBatches() {
	for {
		began, batch := time.Now(), batcher.takeBatch()
		if len(batch) == 0 {
			return
		}
		batcher.runBatch(batch)
		if left := batcher.releaseKeys(batch, time.Since(began)); left > 0 {
			<-time.After(batcher.MinInterval - time.Since(began))
		}
	}
}

// runBatch runs a batch. If it panics, the calls without an answer fail, and have certainly written
// nothing: a run that may have written recovers from its own panics.
func (batcher *Batcher[In, Answer]) runBatch(batch []*Call[In, Answer]) {
	defer panics.Recover(panics.Batch, func() {
		for _, x := range batch {
			x.SetAnswer(*new(Answer), store.WrapUnavailable(panics.Err))
		}
	})
	batcher.run(batch)
}

// takeBatch removes the next calls with free keys from the queue, marks their keys busy and
// returns the calls. If it returns nil, the calling writer must end: the keys of all queued calls
// are in other writers' batches, and those writers take the calls next.
func (batcher *Batcher[In, Answer]) takeBatch() []*Call[In, Answer] {
	batcher.mu.Lock()
	defer batcher.mu.Unlock()
	if batcher.Precedence != nil && len(batcher.queued) > batcher.maxSize {
		slices.SortStableFunc(batcher.queued,
			func(a, b *Call[In, Answer]) int { return batcher.Precedence(a.In) - batcher.Precedence(b.In) })
	}
	var batch []*Call[In, Answer]
	left := batcher.queued[:0]
	for _, x := range batcher.queued {
		if len(batch) == batcher.maxSize || batcher.busy[x.Key] {
			left = append(left, x)
			continue
		}
		batcher.busy[x.Key], x.queued = true, false
		batch = append(batch, x)
	}
	clear(batcher.queued[len(left):])
	batcher.queued = left
	if len(batch) == 0 {
		batcher.active--
	}
	return batch
}

// releaseKeys frees the keys of a batch, adapts the size of batches to the time that the batch
// took, and returns the number of queued calls.
func (batcher *Batcher[In, Answer]) releaseKeys(batch []*Call[In, Answer], took time.Duration) (waiting int) {
	batcher.mu.Lock()
	defer batcher.mu.Unlock()
	switch {
	case batcher.Slow == 0:
	case took > batcher.Slow:
		batcher.maxSize = max(min(batcher.maxSize, len(batch))/2, minBatchSize)
	case took < batcher.Slow/2 && len(batch) >= batcher.maxSize:
		batcher.maxSize = min(2*batcher.maxSize, maxBatchSize)
	}
	for _, x := range batch {
		delete(batcher.busy, x.Key)
	}
	return len(batcher.queued)
}

// Close refuses new calls and waits until all queued calls have their answers.
func (batcher *Batcher[In, Answer]) Close() {
	batcher.mu.Lock()
	batcher.closed = true
	batcher.mu.Unlock()
	batcher.writers.Wait()
}
