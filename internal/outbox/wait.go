package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// Deliver starts a send and waits for its outcome, at most for wait. What has not ended by then goes on, and is still queued as far
// as the caller knows.
func (o *Outbox) Deliver(ctx context.Context, w store.Work, wait time.Duration) store.Send {
	w.Send.Status = store.Queued // for the answer: the attempt starts after it
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

// waiters are the requests that want to hear how their send ended in this process.
type waiters struct {
	mu      sync.Mutex
	waiting map[uuid.UUID]chan store.Outcome
}

func newWaiters() *waiters { return &waiters{waiting: map[uuid.UUID]chan store.Outcome{}} }

// expect must be called before the send starts, and leave when the wait is over.
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

func (w *waiters) tell(id uuid.UUID, out store.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if heard, ok := w.waiting[id]; ok {
		heard <- out
		delete(w.waiting, id)
	}
}
