// Package batch lets several calls to a database share one transaction.
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
	maxBatchSize = 256
	minBatchSize = 16    // what slow batches may shrink to; see Batcher.Slow
	maxQueued    = 10000 // further calls fail with fault.Unavailable

	// While a writer is busy, a second one starts only when extraWriterQueueLength calls are
	// queued, or when a call has waited for extraWriterWait. Starting earlier would make the
	// batches smaller, and each costs round trips and a sync of the disk.
	extraWriterQueueLength = 32
	extraWriterWait        = 10 * time.Millisecond
)

var (
	errClosed    = errors.New("closed")
	errQueueFull = errors.New("too many calls wait for the database")
)

// Call is one caller's input and, after its batch has run, its answer.
type Call[In, Answer any] struct {
	In     In
	Key    int64 // calls with the same key never run at the same time
	Answer Answer
	Err    error
	ctx    context.Context // the caller's context
	queued bool            // the call is in no batch yet
	once   sync.Once       // guards SetAnswer
	done   chan struct{}   // closed when Answer and Err are set
}

// NewCall makes a call whose context never ends. Only calls that run without a batcher need it;
// Submit makes its own calls.
func NewCall[In, Answer any](in In, key int64) *Call[In, Answer] {
	return &Call[In, Answer]{In: in, Key: key, ctx: context.Background(), done: make(chan struct{})}
}

// SetAnswer answers the call, unless it has an answer. The function that runs a batch must answer
// each call.
func (c *Call[In, Answer]) SetAnswer(answer Answer, err error) {
	c.once.Do(func() {
		c.Answer, c.Err = answer, err
		close(c.done)
	})
}

// Answered reports whether the call has its answer, with which Submit may have returned already.
func (c *Call[In, Answer]) Answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// RoundTripContext returns the context for the round trip of a batch whose first call is c: it
// belongs to the caller's trace, but doesn't end with the caller's context.
func (c *Call[In, Answer]) RoundTripContext() context.Context { return context.WithoutCancel(c.ctx) }

// Batcher runs calls in batches. A call that finds no writer busy runs at once; those that arrive
// meanwhile share the next batch.
//
// Calls with the same key never run at the same time. In one batch, they wouldn't see each other's
// rows. In two parallel batches, the second would wait for the first one's lock and hold up its
// whole batch. Set the fields before the first call.
type Batcher[In, Answer any] struct {
	// WaitsOnceBegun makes Submit wait for the answer even if ctx ends, once the call's batch has
	// begun.
	WaitsOnceBegun bool
	// Precedence, if set, puts the calls with the lowest value into the next batch. Otherwise, and
	// among equals, the oldest go first.
	Precedence func(In) int
	// MinInterval is the least time between the starts of a writer's batches while calls are
	// queued.
	MinInterval time.Duration
	// Slow, if set, is how long a batch may take: after a longer one, batches get half as large, so
	// that they don't time out. A full batch within half of Slow doubles the size again.
	Slow time.Duration

	run        func([]*Call[In, Answer]) // must answer every call
	maxWriters int
	maxSize    int // present upper bound of the calls in a batch
	mu         sync.Mutex
	queued     []*Call[In, Answer]
	busy       map[int64]bool // keys of the calls under way
	writers    sync.WaitGroup
	active     int // number of running writers
	closed     bool
}

// New makes a batcher of up to maxWriters goroutines, each of which runs one batch after another.
// run must call SetAnswer for every call.
func New[In, Answer any](maxWriters int, run func([]*Call[In, Answer])) *Batcher[In, Answer] {
	return &Batcher[In, Answer]{run: run, maxWriters: maxWriters, maxSize: maxBatchSize, busy: map[int64]bool{}}
}

// Submit queues a call and waits for the answer, as long as store.WithCallTimeout allows. If ctx
// ends before the call's batch begins, the call is withdrawn and has certainly written nothing. If
// it ends later, the call goes on and, unless WaitsOnceBegun, the error is fault.Uncertain.
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

// enqueue starts a writer if none runs or enough calls wait. It fails if the batcher is closed or
// the queue is full.
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

// startWriter must be called with mu held.
func (batcher *Batcher[In, Answer]) startWriter() {
	if batcher.active < batcher.maxWriters {
		batcher.active++
		batcher.writers.Go(batcher.runBatches)
	}
}

// withdraw returns false if the call's batch has begun.
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

// runBatch fails the calls without an answer with fault.Unavailable if run panics. They have
// certainly written nothing, because run recovers from any panic after a possible write.
func (batcher *Batcher[In, Answer]) runBatch(batch []*Call[In, Answer]) {
	defer panics.Recover(panics.Batch, func() {
		for _, x := range batch {
			x.SetAnswer(*new(Answer), store.WrapUnavailable(panics.Err))
		}
	})
	batcher.run(batch)
}

// takeBatch takes the next calls with free keys. If there are none, it returns nil and its writer
// must end: the writers that hold the keys will run what is queued.
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

// releaseKeys also adapts the size of batches to the time that this batch took.
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

// Close refuses new calls and waits until all queued ones are answered.
func (batcher *Batcher[In, Answer]) Close() {
	batcher.mu.Lock()
	batcher.closed = true
	batcher.mu.Unlock()
	batcher.writers.Wait()
}
