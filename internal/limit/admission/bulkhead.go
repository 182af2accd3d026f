package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

const MaxPerRecipient = 32 // slots

const (
	maxStrangersPerRecipient = MaxPerRecipient / 2
	releaseDelay             = 32 * time.Millisecond // how long a request that was not admitted keeps its slot after its answer
)

var MaxSlotWait = 5 * time.Second

var errNoSlot = errors.New("admission: no slot became free in time")

// Bulkhead lets the process work on few requests for one recipient at once: those that hold one of
// the recipient's slots. The others wait in a queue.
//
// A request that was not admitted keeps its slot for releaseDelay after its answer, so a process
// refuses at most 1,000 requests a second for one recipient. Refusing a flood faster wouldn't help,
// because clients retry. Ordinary users don't wait, because they need far fewer slots.
//
// Strangers hold at most half of the slots, so that nobody else waits behind them. Safe for
// concurrent use.
type Bulkhead struct {
	mu     sync.Mutex
	queues map[string]*recipientQueue // by recipient
}

func NewBulkhead() *Bulkhead { return &Bulkhead{queues: map[string]*recipientQueue{}} }

type recipientQueue struct {
	name  string
	slots chan struct{}
	// an element for each stranger's request that holds or waits for a slot; nil before the first
	strangers chan struct{}
	used      int       // requests that hold or wait for a slot
	last      time.Time // the last planned release
}

// Slot is the right to work on one request. Only the first Release counts.
type Slot struct {
	bulkhead *Bulkhead
	queue    *recipientQueue
	stranger bool
	once     sync.Once
}

// Acquire waits for a slot of the recipient with this name. The caller must release it. A
// stranger's request also takes one of the places of strangers. Acquire fails if no slot gets free
// within MaxSlotWait, or before ctx ends.
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

// takePlace takes a place even after the deadline or ctx's end, if one is free at once.
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

// RecipientCount returns how many recipients have requests that hold or wait for a slot.
func (b *Bulkhead) RecipientCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queues)
}

func (b *Bulkhead) leave(q *recipientQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.used--
	if q.used == 0 {
		delete(b.queues, q.name)
	}
}

// Release frees the slot at once if the request was admitted, otherwise after releaseDelay or more:
// such releases for one recipient are at least releaseDelay/MaxPerRecipient apart. If many waiting
// requests got their slots at the same instant, a later request would have to wait for all of them.
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
