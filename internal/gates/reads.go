package gates

import (
	"context"
	"strings"
	"sync"
	"time"

	"sendcode/internal/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

const (
	// Reads of the same rows for refusals begin minReadSpacing apart on average; up to readBurst of
	// them may follow each other without a pause.
	minReadSpacing = 20 * time.Millisecond
	readBurst      = 32

	// maximum numbers of reads for refusals under way at once. Together they are fewer than one
	// shared statement of ReadHistory holds. With the round trip they bound the number of
	// recipients whose waits are computed in a second: some 900 at 150 ms
	maxReadsOfStrangers, maxReadsOfOthers = 100, 150
)

// sharedReads lets refusals that need the same rows share a read, so that a flood on one recipient
// costs few reads. A refusal joins only a read that has not begun. So the read sees every send that
// was answered before the refused request came. Reads of the same rows run one after another. Safe
// for concurrent use.
type sharedReads struct {
	// slots of the reads under way, for strangers and for others: reads for refusals never fill the
	// statement that calls of ReadHistory share
	strangers, others chan struct{}

	mu sync.Mutex
	// by buckets: when the next read begins if all reads begin minReadSpacing apart
	turns   recentMap[time.Time]
	waiting map[readKey]*sharedRead   // reads that have not begun
	busy    map[readKey]chan struct{} // of reads under way; closed when the read has ended
}

// readKey is the key of reads that can be shared: the rows, and whether strangers need them.
type readKey struct {
	buckets, purposes  string
	counting, rejected time.Duration
	stranger           bool
}

// sharedRead is a read and its answer. history and err are set before done is closed.
type sharedRead struct {
	done    chan struct{}
	history gate.History
	err     error
}

func newSharedReads() sharedReads {
	return sharedReads{
		strangers: make(chan struct{}, maxReadsOfStrangers), others: make(chan struct{}, maxReadsOfOthers),
		waiting: map[readKey]*sharedRead{}, busy: map[readKey]chan struct{}{},
	}
}

// readRows reads a history from the database. Error: of the database.
func (g *Gates) readRows(ctx context.Context, look gate.HistoryQuery) (gate.History, error) {
	asked := g.now()
	h, err := g.db.ReadHistory(ctx, look)
	if err == nil {
		g.clocks.noteDatabase(h.Now, asked)
		h = h.AfterDelay(max(0, g.clocks.databaseNow().Sub(h.Now))) // the answer may be late
	}
	return h, err
}

// readForRefusal is readRows by a read that other refusals for the subject share.
func (g *Gates) readForRefusal(ctx context.Context, s buckets.Subject, look gate.HistoryQuery) (gate.History, error) {
	key := readKey{strings.Join(bucketsInDatabase(s), "\x00"), strings.Join(look.Purposes, "\x00"), look.Counting,
		look.Rejected, s.Class.IsStranger()}
	x, first := g.reads.join(key)
	if first {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
		defer cancel()
		x.err = g.reads.runInTurn(ctx, key, func() (err error) {
			x.history, err = g.readRows(ctx, look)
			return err
		})
		close(x.done)
	}
	<-x.done
	return x.history, x.err
}

// join returns the read of a key that has not begun. first: the read is new, and the caller must
// run it.
func (r *sharedReads) join(key readKey) (x *sharedRead, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x = r.waiting[key]; x == nil {
		x, first = &sharedRead{done: make(chan struct{})}, true
		r.waiting[key] = x
	}
	return x, first
}

// runInTurn runs a read of a key when the key's previous read has ended, its turn has come and a
// slot is free. Other refusals can join the read until it begins. Errors: of read, or
// fault.Unavailable if ctx ends before the read begins.
func (r *sharedReads) runInTurn(ctx context.Context, key readKey, read func() error) error {
	slots := r.others
	if key.stranger {
		slots = r.strangers
	}
	err := r.awaitTurn(ctx, key, slots)
	ended := r.begin(key, err == nil)
	if err != nil {
		return store.WrapUnavailable(err)
	}
	defer func() {
		<-slots
		r.end(key, ended)
	}()
	return read()
}

// awaitTurn waits until the key's previous read has ended and the turn of the next read has come,
// and takes a slot. Error: of ctx.
func (r *sharedReads) awaitTurn(ctx context.Context, key readKey, slots chan<- struct{}) error {
	before, wait := r.takeTurn(key, time.Now())
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeTurn takes the next turn of a key's buckets. before is closed when the key's read under way
// has ended; nil if none is under way. wait is the time until the turn; negative if it has come.
func (r *sharedReads) takeTurn(key readKey, now time.Time) (before chan struct{}, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := r.turns.get(key.buckets)
	if at.Before(now) {
		at = now
	}
	r.turns.put(key.buckets, at.Add(minReadSpacing))
	return r.busy[key], at.Sub(now) - readBurst*minReadSpacing
}

// begin ends the time in which other refusals can join the waiting read of a key. runs: the read
// runs now, until end is called with the returned channel; else begin returns nil.
func (r *sharedReads) begin(key readKey, runs bool) (ended chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, key)
	if runs {
		ended = make(chan struct{})
		r.busy[key] = ended
	}
	return ended
}

func (r *sharedReads) end(key readKey, ended chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, key)
	close(ended)
}
