package console

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/server"
	"sendcode/internal/store"
)

// tail follows the database while it has readers: one goroutine polls for rows and passes each to the readers whose filters select it. It
// sees the rows of every replica, since it needs nothing of the process that writes them.
type tail struct {
	db     database
	logger *slog.Logger
	beat   time.Duration // between two signs of life to a reader
	life   time.Duration // of one stream; a browser then reconnects
	pages  int           // queries in one look

	mu      sync.Mutex
	readers map[*reader]bool
	closed  bool
	stop    context.CancelFunc // of the follower, while it runs
	begun   chan struct{}      // closed when the follower has looked for the first time
	done    sync.WaitGroup
}

// reader is one stream.
type reader struct {
	filter store.Filter
	begun  <-chan struct{} // closed when what comes from then on will be told
	rows   chan batch      // closed when the stream is over
	why    string          // set before rows is closed
}

// batch has the rows that one look at the database found for a reader.
type batch struct {
	rows []store.Send
	gap  bool // rows before these were left out: more came than can be shown
}

// Why a stream ends.
const (
	endSlow     = "slow"     // the reader takes less than comes
	endStopping = "stopping" // this process stops
	endRenew    = "renew"    // it has reached its maximum age, or its session has ended
)

// Bounds of what looking costs.
const (
	maxReaders = 64              // of one process
	maxBehind  = 64              // batches that wait for a reader
	tailTick   = time.Second     // between two looks
	tailLimit  = 200             // rows in one query
	tailPages  = 50              // queries in one look
	overlap    = 2 * time.Second // rows are committed in another order than they are numbered; none takes longer
	maxWatched = 1000            // rows whose change is looked for
	watchFor   = 20 * time.Minute
	tailBeat   = 15 * time.Second
	tailLife   = 15 * time.Minute
)

// newTail makes a tail, which reads nothing until it has a reader.
func newTail(db database, logger *slog.Logger) *tail {
	return &tail{db: db, logger: logger, beat: tailBeat, life: tailLife, pages: tailPages, readers: map[*reader]bool{}}
}

// join adds a reader; the caller must call leave. Error: a 503 problem if there are too many readers or the process stops.
func (t *tail) join(f store.Filter) (*reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.readers) >= maxReaders {
		return nil, &server.Problem{Kind: server.Unavailable, Detail: "Too many streams are open, or the service is stopping."}
	}
	if t.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		begun := make(chan struct{})
		t.stop, t.begun = stop, begun
		t.done.Go(func() { t.follow(ctx, begun) })
	}
	r := &reader{filter: f, begun: t.begun, rows: make(chan batch, maxBehind)}
	t.readers[r] = true
	return r, nil
}

// leave removes a reader. After the last one nothing is read any more.
func (t *tail) leave(r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers, r)
	if len(t.readers) == 0 {
		t.rest()
	}
}

// close ends every stream and waits until the database is no longer read.
func (t *tail) close() {
	t.mu.Lock()
	t.closed = true
	for r := range t.readers {
		t.endStream(r, endStopping)
	}
	t.rest()
	t.mu.Unlock()
	t.done.Wait()
}

// rest stops the follower. The caller holds the lock.
func (t *tail) rest() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// endStream closes a stream. The caller holds the lock.
func (t *tail) endStream(r *reader, why string) {
	delete(t.readers, r)
	r.why = why
	close(r.rows)
}

// publish passes each changed row to the readers whose filter it matches, or matched before the change; all readers are told of a gap. A
// reader that is too slow is disconnected; it reconnects and continues where it was.
func (t *tail) publish(changes []change, gap bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.readers {
		var rows []store.Send
		for _, c := range changes {
			if r.filter.Matches(c.now) || c.before != nil && r.filter.Matches(*c.before) {
				rows = append(rows, c.now)
			}
		}
		if len(rows) == 0 && !gap {
			continue
		}
		select {
		case r.rows <- batch{rows, gap}:
		default:
			t.endStream(r, endSlow)
		}
	}
}
