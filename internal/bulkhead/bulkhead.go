// Package bulkhead keeps many requests for one name from delaying the requests for other names. Each name has a queue with few slots, and
// a request needs a slot to be worked on. A request that was not admitted keeps its slot a little longer than its answer takes. So each
// process refuses at most 1,000 requests a second for one name, however many come; normal users never wait. Refusing the excess at once
// would not help, since clients would retry.
//
// Package verification takes a slot before it asks the gates. There, a name is a recipient.
package bulkhead

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of the queue for one name.
const (
	MaxConcurrent = 32                    // requests for one name that are worked on at once
	ReleaseDelay  = 32 * time.Millisecond // how long a request that was not admitted keeps its slot after its answer
)

// MaxWait is how long a request waits for a slot.
var MaxWait = 5 * time.Second

// ErrTimeout says that no slot became free within MaxWait, or that ctx ended.
var ErrTimeout = errors.New("bulkhead: no slot became free in time")

// Bulkhead bounds how many requests for each name are worked on at once in this process. Safe for concurrent use.
type Bulkhead struct {
	mu     sync.Mutex
	queues map[string]*queue // by name
}

type queue struct {
	name  string
	slots chan struct{}
	used  int       // requests that hold a slot or wait for one
	last  time.Time // when the last delayed release happens
}

// New makes an empty Bulkhead.
func New() *Bulkhead { return &Bulkhead{queues: map[string]*queue{}} }

// Slot is the right to work on one request for a name. Only its first release has an effect.
type Slot struct {
	bulkhead *Bulkhead
	queue    *queue
	once     sync.Once
}

// Acquire takes a slot for a request, and waits for one if all are taken. The caller must release it. Error: ErrTimeout.
func (b *Bulkhead) Acquire(ctx context.Context, name string) (*Slot, error) {
	b.mu.Lock()
	q := b.queues[name]
	if q == nil {
		q = &queue{name: name, slots: make(chan struct{}, MaxConcurrent)}
		b.queues[name] = q
	}
	q.used++
	b.mu.Unlock()
	s := &Slot{bulkhead: b, queue: q}
	select {
	case q.slots <- struct{}{}:
		return s, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	select {
	case q.slots <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		b.leave(q)
		return nil, ErrTimeout
	}
}

// Len returns how many names have requests now.
func (b *Bulkhead) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queues)
}

// leave ends a request's use of a queue, and deletes the queue if the request was its last one.
func (b *Bulkhead) leave(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.used--; q.used == 0 {
		delete(b.queues, q.name)
	}
}

func (s *Slot) free() {
	<-s.queue.slots
	s.bulkhead.leave(s.queue)
}

// ReleaseNow frees the slot at once. It is for admitted requests, which may go on to wait for their outcome.
func (s *Slot) ReleaseNow() { s.once.Do(s.free) }

// ReleaseLater frees the slot of a request that was not admitted, ReleaseDelay or more from now. The slots of a queue are freed one by
// one: if requests that came together also continued together, other requests would wait for all of them.
func (s *Slot) ReleaseLater() {
	s.once.Do(func() {
		s.bulkhead.mu.Lock()
		defer s.bulkhead.mu.Unlock()
		wait := max(ReleaseDelay, time.Until(s.queue.last)+ReleaseDelay/MaxConcurrent)
		s.queue.last = time.Now().Add(wait)
		time.AfterFunc(wait, s.free)
	})
}
