// Package bulkhead keeps many requests for one name from delaying the requests for others. Each name has a queue with few slots: so many
// of its requests are worked on at once. A request that was not admitted holds its slot a moment longer than its answer takes.
// So a name gets at most 1,000 answers a second from each process, however many requests come; normal users never wait. Refusing the
// excess would not help, since clients would retry.
//
// It stands before the gates, in package verification, where a name is a recipient.
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
	MaxWait       = 5 * time.Second       // how long a request waits for a slot
)

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

// ReleaseLater frees the slot of a request that was not admitted after ReleaseDelay, and never two slots of a queue at the same time:
// else requests that came together would continue together, and others would wait for all of them.
func (s *Slot) ReleaseLater() {
	s.once.Do(func() {
		s.bulkhead.mu.Lock()
		defer s.bulkhead.mu.Unlock()
		wait := max(ReleaseDelay, time.Until(s.queue.last)+ReleaseDelay/MaxConcurrent)
		s.queue.last = time.Now().Add(wait)
		time.AfterFunc(wait, s.free)
	})
}
