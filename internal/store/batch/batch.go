// Package batch lets several calls to a database share one transaction. Goroutines called writers
// run the batches. Calls that arrive while all writers are busy run together in the next batch.
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

// SetAnswer sets the answer of a call. The function that runs a batch must set an answer for each
// call. If a call already has an answer, SetAnswer does nothing.
func (c *Call[In, Answer]) SetAnswer(answer Answer, err error) {
	c.once.Do(func() {
		c.Answer, c.Err = answer, err
		close(c.done)
	})
}

// Answered reports whether the call has its answer. If so, Submit may already have returned the
// answer to the caller.
func (c *Call[In, Answer]) Answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// RoundTripContext returns the context for the round trip of a batch whose first call is c. The
// context has the values of the caller's context, so that the round trip belongs to the caller's
// trace. But it does not end when the caller's context ends.
func (c *Call[In, Answer]) RoundTripContext() context.Context { return context.WithoutCancel(c.ctx) }

// Batcher runs calls in batches. A call that arrives while no batch runs begins immediately. Calls
// that arrive while a batch runs share the next batch.
//
// Calls with the same key never run at the same time, for two reasons. In the same batch, two calls
// with one key would not see each other's rows. In two parallel batches, the second call would wait
// for the first call's lock and delay its whole batch.
type Batcher[In, Answer any] struct {
	// WaitsOnceBegun: if ctx ends after the call's batch has begun, Submit still waits until the
	// call has an answer. Set the field before the first call.
	WaitsOnceBegun bool
	// Precedence: calls with the lowest Precedence go into the next batch first. Among calls with
	// the same Precedence, the oldest calls go first. If Precedence is nil, the oldest calls go
	// first. Set the field before the first call.
	Precedence func(In) int
	// MinInterval is the least time between the starts of two batches of one writer. Set it before
	// the first call.
	MinInterval time.Duration
	// Slow: if a batch takes longer than Slow, the size of later batches is halved, so that they do
	// not time out. If a full batch takes less than half of Slow, the size is doubled. If Slow is
	// 0, the size is fixed. Set the field before the first call.
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

// New makes a batcher with up to maxWriters writers. Each writer runs its batches one after
// another. The function run must call SetAnswer for every call.
func New[In, Answer any](maxWriters int, run func([]*Call[In, Answer])) *Batcher[In, Answer] {
	return &Batcher[In, Answer]{run: run, maxWriters: maxWriters, maxSize: maxBatchSize, busy: map[int64]bool{}}
}

// Submit queues a call and waits for the answer, at most for the time that store.WithCallTimeout
// allows. If ctx ends before the call's batch begins, Submit withdraws the call, which has
// certainly written nothing. If ctx ends later, the call continues. Then, if WaitsOnceBegun is
// false, Submit returns an error that wraps fault.Uncertain.
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

// runBatch runs a batch. If the function run panics, every call without an answer fails with
// fault.Unavailable. These calls have certainly written nothing, because run itself recovers from
// any panic after a possible write.
func (batcher *Batcher[In, Answer]) runBatch(batch []*Call[In, Answer]) {
	defer panics.Recover(panics.Batch, func() {
		for _, x := range batch {
			x.SetAnswer(*new(Answer), store.WrapUnavailable(panics.Err))
		}
	})
	batcher.run(batch)
}

// takeBatch takes the next calls with free keys from the queue, marks the keys as busy and returns
// the calls. If takeBatch returns nil, the writer that called it must end. In this case, the queue
// is empty, or all its calls have keys that are busy in the batches of other writers. Those writers
// run the queued calls later.
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
