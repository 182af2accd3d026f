package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// MaxPerRecipient is how many requests for one recipient are worked on at once.
const MaxPerRecipient = 32

// Bounds of the queue for one recipient.
const (
	maxStrangersPerRecipient = MaxPerRecipient / 2   // strangers' requests for one recipient that are worked on at once
	releaseDelay             = 32 * time.Millisecond // how long a request that was not admitted still keeps its slot after its answer
)

// MaxSlotWait is the longest time that a request waits for a slot.
var MaxSlotWait = 5 * time.Second

// errNoSlot says that no slot became free within MaxSlotWait, or that ctx ended.
var errNoSlot = errors.New("admission: no slot became free in time")

// Bulkhead prevents many requests for one recipient from delaying requests for other recipients.
// Each recipient has a queue with few slots. The process works on a request only while the request
// holds a slot.
//
// A request that was not admitted keeps its slot for at least releaseDelay after its answer. So
// each process refuses at most 1,000 requests a second for one recipient, even in a flood. Normal
// users never wait. It would not help to refuse the waiting requests of a flood at once, because
// clients would retry.
//
// Strangers (callers of the class store.UnknownBrowser) hold at most half of the slots, so that
// other callers do not wait behind strangers. Bulkhead is safe for concurrent use.
type Bulkhead struct {
	mu     sync.Mutex
	queues map[string]*recipientQueue // by recipient
}

// NewBulkhead returns a bulkhead without requests.
func NewBulkhead() *Bulkhead { return &Bulkhead{queues: map[string]*recipientQueue{}} }

type recipientQueue struct {
	name  string // the recipient
	slots chan struct{}
	// one element for each request of a stranger (an unknown browser) that holds or waits for a
	// slot; nil before the first one
	strangers chan struct{}
	used      int       // requests that hold a slot or wait for one
	last      time.Time // instant of the last planned release
}

// Slot is the right to work on one request for a recipient. Only the first Release has an effect.
type Slot struct {
	bulkhead *Bulkhead
	queue    *recipientQueue
	stranger bool
	once     sync.Once
}

// Acquire takes a slot for a request for a recipient, and waits until a slot is free. The parameter
// name identifies the recipient. A stranger's request also takes one of the slots that strangers
// may hold. The caller must release the slot. If no slot becomes free within MaxSlotWait or before
// ctx ends, Acquire returns an error.
func (b *Bulkhead) Acquire(ctx context.Context, name string, stranger bool) (*Slot, error) {
	b.mu.Lock()
	q := b.queues[name]
	if q == nil {
		q = &recipientQueue{name: name, slots: make(chan struct{}, MaxPerRecipient)}
		b.queues[name] = q
	}
	if stranger && q.strangers == nil {
		q.strangers = make(chan struct{}, maxStrangersPerRecipient)
	}
	q.used++
	b.mu.Unlock()
	deadline := time.Now().Add(MaxSlotWait)
	if stranger && !takePlace(ctx, q.strangers, deadline) {
		b.leave(q)
		return nil, errNoSlot
	}
	if !takePlace(ctx, q.slots, deadline) {
		if stranger {
			<-q.strangers
		}
		b.leave(q)
		return nil, errNoSlot
	}
	return &Slot{bulkhead: b, queue: q, stranger: stranger}, nil
}

// takePlace takes a place of a channel, and waits if all places are taken. It returns false if the
// deadline passes or ctx ends first. If a place is free at once, it ignores both.
func takePlace(ctx context.Context, places chan<- struct{}, deadline time.Time) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// RecipientCount returns how many recipients have a request that holds a slot or waits for one.
func (b *Bulkhead) RecipientCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queues)
}

// leave ends a request's use of a queue, and deletes the queue if the request was its last one.
func (b *Bulkhead) leave(q *recipientQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.used--
	if q.used == 0 {
		delete(b.queues, q.name)
	}
}

// Release frees the slot at once if the request was admitted. After a refusal, it frees the slot
// after at least releaseDelay. Two such delayed releases for one recipient are at least
// releaseDelay/MaxPerRecipient apart. If many waiting requests got their slots at the same instant,
// a later request would have to wait for all of them.
func (s *Slot) Release(admitted bool) {
	s.once.Do(func() {
		if admitted {
			s.free()
			return
		}
		s.bulkhead.mu.Lock()
		defer s.bulkhead.mu.Unlock()
		wait := max(releaseDelay, time.Until(s.queue.last)+releaseDelay/MaxPerRecipient)
		s.queue.last = time.Now().Add(wait)
		time.AfterFunc(wait, s.free)
	})
}

func (s *Slot) free() {
	<-s.queue.slots
	if s.stranger {
		<-s.queue.strangers
	}
	s.bulkhead.leave(s.queue)
}
