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
	// Reads of the same rows for refusals begin readsApart from each other on average; readsAtOnce
	// of them may follow without a pause.
	readsApart  = 20 * time.Millisecond
	readsAtOnce = 32

	// How many reads for refusals are under way at once: together fewer than one statement of looks
	// holds. With the round trip they bound how many recipients are told their waits in a second:
	// at 150 ms some 900.
	readsOfStrangers, readsOfOthers = 100, 150
)

// sharedReads lets refusals that need the same rows share a read: a flood on one recipient costs
// few reads. A refusal joins a read that has not begun, never one that has, so it knows every send
// that was answered before it came. The reads of the same rows run one after another. Safe for
// concurrent use.
type sharedReads struct {
	// reads of strangers under way, and of others: so that they never fill the statement that looks
	// share
	strangers, others chan struct{}

	mu sync.Mutex
	// by buckets: when the next read would begin if each had been readsApart from the one before
	turns   recent[time.Time]
	waiting map[readKey]*sharedRead   // not begun
	busy    map[readKey]chan struct{} // closed when the next one may begin
}

// readKey names rows, and the class of those that read them.
type readKey struct {
	buckets, purposes  string
	counting, rejected time.Duration
	stranger           bool
}

// sharedRead is a read with its answer, which is set when done is closed.
type sharedRead struct {
	done    chan struct{}
	history gate.History
	err     error
}

func newSharedReads() sharedReads {
	return sharedReads{
		strangers: make(chan struct{}, readsOfStrangers), others: make(chan struct{}, readsOfOthers),
		waiting: map[readKey]*sharedRead{}, busy: map[readKey]chan struct{}{},
	}
}

// readRows reads a history from the database. Error: of the database.
func (g *Gates) readRows(ctx context.Context, look gate.Look) (gate.History, error) {
	asked := g.now()
	h, err := g.db.ReadHistory(ctx, look)
	if err == nil {
		g.clocks.readDatabase(h.Now, asked)
		h = h.Later(max(0, g.clocks.database().Sub(h.Now))) // the answer may be late
	}
	return h, err
}

// readForRefusal is readRows, in a read that is shared with other refusals of the subject.
func (g *Gates) readForRefusal(ctx context.Context, s buckets.Subject, look gate.Look) (gate.History, error) {
	key := readKey{strings.Join(bucketsInDatabase(s), "\x00"), strings.Join(look.Purposes, "\x00"), look.Counting,
		look.Rejected, s.Class.IsStranger()}
	x, first := g.reads.join(key)
	if first {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
		defer cancel()
		x.err = g.reads.inTurn(ctx, key, func() (err error) {
			x.history, err = g.readRows(ctx, look)
			return err
		})
		close(x.done)
	}
	<-x.done
	return x.history, x.err
}

// join returns the read of a key that has not begun; first: there was none, and the caller must run
// it.
func (r *sharedReads) join(key readKey) (x *sharedRead, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x = r.waiting[key]; x == nil {
		x, first = &sharedRead{done: make(chan struct{})}, true
		r.waiting[key] = x
	}
	return x, first
}

// inTurn runs a read of a key when the one before has ended and there is a slot; others can join it
// until it begins. Errors: of read, or fault.Unavailable if ctx ends before.
func (r *sharedReads) inTurn(ctx context.Context, key readKey, read func() error) error {
	slots := r.others
	if key.stranger {
		slots = r.strangers
	}
	err := r.await(ctx, key, slots)
	ended := r.begin(key, err == nil)
	if err != nil {
		return store.Unavailable(err)
	}
	defer func() {
		<-slots
		r.end(key, ended)
	}()
	return read()
}

// await waits until the read before of a key has ended and it is the next one's turn, and takes a
// slot. Error: of ctx.
func (r *sharedReads) await(ctx context.Context, key readKey, slots chan<- struct{}) error {
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

// takeTurn takes the next turn of a key's buckets. It returns what is closed when the read before
// has ended, nil if none is under way, and how long the turn is away.
func (r *sharedReads) takeTurn(key readKey, now time.Time) (before chan struct{}, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := r.turns.get(key.buckets)
	if at.Before(now) {
		at = now
	}
	r.turns.put(key.buckets, at.Add(readsApart))
	return r.busy[key], at.Sub(now) - readsAtOnce*readsApart
}

// begin ends the time in which others can join the waiting read of a key. runs: it runs now, until
// end is called with what begin returns.
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
