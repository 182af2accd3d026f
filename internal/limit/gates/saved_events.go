package gates

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// EventDatabase is implemented by sqldb.DB.
type EventDatabase interface {
	SaveLimiterEvents(ctx context.Context, writer int64, changes []store.LimiterEvent) error
	LimiterEvents(ctx context.Context, reader, after int64, limit int, yield func(store.LimiterEvent) error) error
	DeleteLimiterEvents(ctx context.Context, last int64) error
}

const (
	// KeepEvery is the time between two writes of the limiter's changes. A killed process loses the
	// changes since the last committed write: those of less than a second, or of more if the disk
	// is slow.
	KeepEvery = 500 * time.Millisecond
	// longestForgotten is the longest window that isn't saved. It has usually ended before the
	// process is back.
	longestForgotten = 10 * time.Second
	// eventsPerWrite bounds a transaction. One of this size keeps SQLite's only writer busy for
	// about 10 ms.
	eventsPerWrite = 1000
	// eventsPerRead is how many events one read requests, including the process's own events. A
	// read may return more; see sqldb.DB.LimiterEvents.
	eventsPerRead = 10_000
	// At most maxUnwritten changes wait while the database is away. Later ones are dropped.
	maxUnwritten = 200_000
)

// SavedEvents saves this process's limiter to the database, so that its events survive a restart.
// It saves all scopes but recipient and failures, which the rows of sends have. On Postgres,
// replicas read each other's events. Safe for concurrent use.
type SavedEvents struct {
	limiter *quota.Memory
	silent  *quota.Memory // the same limiter, for events that are read from the database, and aren't written again
	db      EventDatabase
	seal    func(bucket string) []byte
	open    func(sealed []byte) (bucket string, err error)
	now     func() time.Time // the limiter's clock
	ahead   func() time.Duration
	shared  bool // other processes use the database too
	logger  *slog.Logger
	writer  int64 // random; marks the events that this process wrote

	writing sync.Mutex // held during a write, so that changes are written in their order
	reading sync.Mutex // guards read
	read    int64      // number of the last event that was read, which may be of this process
	mu      sync.Mutex // guards queue
	queue   []quota.Change
	lines   logs.Throttle // throttles the lines about events that aren't saved or counted
}

// NewSavedEvents makes a limiter with the clock now, which is ahead of the database's clock by
// ahead. A nil ahead means equal clocks, and no other process on the database. seal and open
// encrypt and decrypt names of buckets.
func NewSavedEvents(db EventDatabase, ahead func() time.Duration, now func() time.Time, seal func(bucket string) []byte,
	open func(sealed []byte) (bucket string, err error), logger *slog.Logger,
) *SavedEvents {
	k := &SavedEvents{
		limiter: quota.NewMemory(now), db: db, seal: seal, open: open, now: now, ahead: ahead, shared: ahead != nil,
		logger: logger, writer: rand.Int64(), read: -1,
	}
	if !k.shared {
		k.ahead = func() time.Duration { return 0 }
	}
	k.limiter.OnChange, k.silent = k.add, k.limiter.Silent()
	return k
}

// Limiter returns the limiter whose events are saved.
func (s *SavedEvents) Limiter() *quota.Memory { return s.limiter }

func (s *SavedEvents) add(c quota.Change) {
	if c.Keep > 0 && c.Keep <= longestForgotten || buckets.InDatabase(c.Bucket) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) < maxUnwritten {
		s.queue = append(s.queue, c)
	} else if n, due := s.lines.Add("not kept", s.now()); due {
		s.logger.Warn("limiter's changes not saved: too many wait for the database", "count", n, logs.SeeDatabaseAway)
	}
}

// Flush writes all changes that are queued when it is called. If the database fails, the rest stays
// queued.
func (s *SavedEvents) Flush(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	left := len(s.queue)
	s.mu.Unlock()
	for left > 0 {
		s.mu.Lock()
		batch := slices.Clone(s.queue[:min(left, eventsPerWrite)])
		s.mu.Unlock()
		if err := s.db.SaveLimiterEvents(ctx, s.writer, s.rows(batch)); err != nil {
			return err
		}
		s.mu.Lock()
		s.queue = slices.Delete(s.queue, 0, len(batch))
		s.mu.Unlock()
		left -= len(batch)
	}
	return nil
}

// rows returns only the last change of each event and, for a bucket that was reset, the last reset
// and the changes after it.
func (s *SavedEvents) rows(changes []quota.Change) (rows []store.LimiterEvent) {
	type event struct{ bucket, id string }
	sealed, later, wasReset := map[string][]byte{}, map[event]bool{}, map[string]bool{}
	for _, c := range slices.Backward(changes) {
		if wasReset[c.Bucket] || later[event{c.Bucket, c.ID}] {
			continue
		}
		later[event{c.Bucket, c.ID}], wasReset[c.Bucket] = true, c.ID == ""
		if sealed[c.Bucket] == nil {
			sealed[c.Bucket] = s.seal(c.Bucket)
		}
		at := c.At.Add(-s.ahead().Truncate(time.Microsecond))
		rows = append(rows, store.LimiterEvent{Bucket: sealed[c.Bucket], ID: c.ID, At: at, Until: at.Add(c.Keep), Refunded: c.Keep == 0})
	}
	return rows
}

// Load adds the events that other processes wrote since the last call of Load or Sync. The first
// call also adds the events of earlier processes.
func (s *SavedEvents) Load(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	_, err := s.loadAll(ctx, s.silent)
	return err
}

// loadAll calls loadBatch until nothing is left. The caller holds reading.
func (s *SavedEvents) loadAll(ctx context.Context, to Limiter) (all int, err error) {
	for n := eventsPerRead; err == nil && n >= eventsPerRead; all += n {
		n, err = s.loadBatch(ctx, to)
	}
	return all, err
}

// Sync writes the changes and, if other replicas use the database, reads a part of theirs; more
// says that there may be more to read. Errors are those of Flush and Load.
func (s *SavedEvents) Sync(ctx context.Context) (more bool, err error) {
	if err := s.Flush(ctx); err != nil || !s.shared {
		return false, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	n, err := s.loadBatch(ctx, s.silent)
	return n >= eventsPerRead, err
}

// MoveTo records the saved events in a limiter that replicas share, such as Redis, then deletes
// them from the database. moved includes what addTo leaves out. After an error, call it again.
func (s *SavedEvents) MoveTo(ctx context.Context, shared Limiter) (moved int, err error) {
	s.reading.Lock() // an event that Load read meanwhile would be deleted without being moved
	defer s.reading.Unlock()
	if moved, err = s.loadAll(ctx, shared); err != nil || moved == 0 {
		return moved, err
	}
	return moved, s.db.DeleteLimiterEvents(ctx, s.read)
}

// loadBatch adds the events after s.read to a limiter, by bucket, and returns how many it read. An
// event in the future, because a clock was set back, counts as of now. The caller holds reading.
func (s *SavedEvents) loadBatch(ctx context.Context, to Limiter) (n int, err error) {
	last, group := s.read, map[string][]store.LimiterEvent{}
	add := func() error {
		defer clear(group)
		return s.addTo(ctx, to, group)
	}
	err = s.db.LimiterEvents(ctx, s.writer, s.read, eventsPerRead, func(e store.LimiterEvent) error {
		if !e.Own {
			group[string(e.Bucket)] = append(group[string(e.Bucket)], e)
		}
		last = e.Seq
		n++
		if n%eventsPerRead == 0 { // bounds the memory: one read may yield more than eventsPerRead
			return add()
		}
		return nil
	})
	if err == nil {
		err = add()
	}
	if err == nil {
		s.read = last
	}
	return n, err
}

// addTo takes events by the encrypted names of their buckets. It leaves out, without an error,
// events whose bucket was encrypted with another index key. With a new key every quota is empty, so
// these events no longer count, and must not prevent a start.
func (s *SavedEvents) addTo(ctx context.Context, to Limiter, group map[string][]store.LimiterEvent) error {
	unread := 0
	for sealed, events := range group {
		bucket, err := s.open([]byte(sealed))
		if err != nil {
			unread += len(events)
			continue
		}
		var keep time.Duration
		var aged []quota.AgedEvent
		now := s.now()
		for _, e := range events {
			if e.Refunded {
				if err := to.Refund(ctx, e.ID, bucket); err != nil {
					return err
				}
				continue
			}
			a := quota.AgedEvent{ID: e.ID, Age: now.Add(-s.ahead()).Sub(e.At)}
			if to == Limiter(s.silent) { // now was read from this limiter's clock
				a.AsOf = now
			}
			keep, aged = max(keep, e.Until.Sub(e.At)), append(aged, a)
		}
		if err := to.Record(ctx, bucket, keep, aged); len(aged) > 0 && err != nil {
			return err
		}
	}
	if unread > 0 {
		if _, due := s.lines.Add("not counted", s.now()); due {
			s.logger.Warn("saved events of the limiter not counted: another index key encrypted their names", "count", unread, logs.SeeKeys)
		}
	}
	return nil
}

// WriteThrough is a limiter for events that must survive a killed process: each is written before
// its decision is returned. If the database is away, it's written later (KeepEvery).
type WriteThrough struct {
	*Gates
	Saved *SavedEvents // nil: the limiter saves them itself
}

// TakeOrLocal is Gates.TakeOrLocal, and writes the event before it returns.
func (w WriteThrough) TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := w.Gates.TakeOrLocal(ctx, r)
	if w.Saved != nil && err == nil {
		_ = w.Saved.Flush(context.WithoutCancel(ctx)) // after an error, the changes are written KeepEvery later
	}
	return d, err
}
