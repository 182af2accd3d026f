package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// Deliver queues a send and waits for its outcome, at most for wait or until ctx ends. It returns the send with its outcome, or as queued
// if it has not ended by then; delivery continues.
func (o *Outbox) Deliver(ctx context.Context, w store.Work, wait time.Duration) store.Send {
	w.Send.Status = store.Queued // the status in the response if the attempt has not ended
	if wait <= 0 {
		o.start(w)
		return w.Send
	}
	ended, leave := o.waiters.expect(w.Send.ID)
	defer leave()
	o.start(w)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case out := <-ended:
		w.Send.Status, w.Send.Reason, w.Send.FinishedAt = out.Status, out.Reason, o.Now()
		w.Send.Provider, w.Send.ProviderCode = out.Provider, out.ProviderCode
	case <-ctx.Done():
	}
	return w.Send
}

// waiters are the requests that wait for the outcome of their send in this process.
type waiters struct {
	mu      sync.Mutex
	waiting map[uuid.UUID]chan store.Outcome
}

func newWaiters() *waiters { return &waiters{waiting: map[uuid.UUID]chan store.Outcome{}} }

// expect returns a channel that gets the outcome of a send. Call it before the send starts, and call leave when the wait is over.
func (w *waiters) expect(id uuid.UUID) (ended <-chan store.Outcome, leave func()) {
	heard := make(chan store.Outcome, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[id] = heard
	return heard, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, id)
	}
}

func (w *waiters) notify(id uuid.UUID, out store.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if heard, ok := w.waiting[id]; ok {
		heard <- out
		delete(w.waiting, id)
	}
}
