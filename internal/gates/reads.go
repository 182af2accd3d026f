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
	readsApart      = 20 * time.Millisecond // between the end of a read for refusals and the beginning of the next one of the same rows
	readsOfRefusals = 32                    // how many reads for refusals are under way at once, of strangers and of others
)

// sharedReads lets refusals that need the same rows share a read: a flood on one recipient costs few reads. A refusal joins a read that has
// not begun, never one that has, so it knows every send that was answered before it came. The reads of the same rows run one after another.
// Safe for concurrent use.
type sharedReads struct {
	// reads of strangers under way, and of others: so that they never fill the statement that looks share
	strangers, others chan struct{}

	mu      sync.Mutex
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
		strangers: make(chan struct{}, readsOfRefusals), others: make(chan struct{}, readsOfRefusals),
		waiting: map[readKey]*sharedRead{}, busy: map[readKey]chan struct{}{},
	}
}

// readRows reads a history from the database. Error: of the database.
func (g *Gates) readRows(ctx context.Context, look gate.Look) (gate.History, error) {
	asked := g.now()
	h, err := g.db.Look(ctx, look)
	if err == nil {
		g.clocks.readDatabase(h.Now, asked)
		h = h.Later(max(0, g.clocks.database().Sub(h.Now))) // the answer may be late
	}
	return h, err
}

// readForRefusal is readRows, in a read that is shared with other refusals of the subject.
func (g *Gates) readForRefusal(ctx context.Context, s buckets.Subject, look gate.Look) (gate.History, error) {
	key := readKey{strings.Join(countedBuckets(s), "\x00"), strings.Join(look.Purposes, "\x00"), look.Counting, look.Rejected, s.Class.IsStranger()}
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

// join returns the read of a key that has not begun; first: there was none, and the caller must run it.
func (r *sharedReads) join(key readKey) (x *sharedRead, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x = r.waiting[key]; x == nil {
		x, first = &sharedRead{done: make(chan struct{})}, true
		r.waiting[key] = x
	}
	return x, first
}

// inTurn runs a read of a key when the one before has ended and there is a slot; others can join it until it begins. Errors: of read, or
// fault.Unavailable if ctx ends before.
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
		time.AfterFunc(readsApart, func() { r.end(key, ended) })
	}()
	return read()
}

// await waits until a read of a key may begin, and takes a slot. Error: of ctx.
func (r *sharedReads) await(ctx context.Context, key readKey, slots chan<- struct{}) error {
	r.mu.Lock()
	before := r.busy[key]
	r.mu.Unlock()
	if before != nil {
		select {
		case <-before:
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

// begin ends the time in which others can join the waiting read of a key. runs: it runs now, until end is called with what begin returns.
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
