package verification

import (
	"context"

	"sendcode/internal/audit"
)

// start works on a row that this process has just written, and whose lease it holds. Memory has room for so many; the
// others go back to the log at once, where they are queued for whoever has room first. While some wait there, so does
// every new one, or the old ones would never have their turn.
func (o *outbox) start(w audit.Work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.fly(w)
	if f == nil {
		return
	}
	if !o.behind && len(o.flights) <= o.capacity {
		o.enqueue(f)
		return
	}
	o.behind = true
	o.done.Go(func() {
		defer o.land(f)
		o.postpone(f, 0, failure{reason: "backlog"})
	})
}

// takeOver works on rows from the log that are due: another process left them, or they waited. It takes as many as there
// is room for, and says so where there were no more.
func (o *outbox) takeOver(ctx context.Context) {
	for limit := min(o.room(), haul); limit > 0; limit = min(o.room(), haul) {
		work, err := o.claimWork(ctx, limit)
		if err != nil {
			o.away = true
			return
		}
		o.mu.Lock()
		for _, w := range work {
			if f := o.fly(w); f != nil {
				o.enqueue(f)
			}
		}
		o.behind = len(work) == limit // there may be more
		o.mu.Unlock()
		if len(work) < limit {
			return
		}
	}
}

func (o *outbox) claimWork(ctx context.Context, limit int) ([]audit.Work, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	work, err := o.Log.TakeOver(ctx, o.Lease, limit)
	for _, w := range work {
		if w.Send.InDoubt {
			o.Logger.Warn("a send was left in flight; taken over", "send", w.Send.ID, "attempt", w.Send.Attempt)
		}
	}
	return work, err
}

func (o *outbox) room() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, o.capacity-len(o.flights))
}

// fly notes a row as this process's own; nil where it is already. The caller holds the lock.
func (o *outbox) fly(w audit.Work) *flight {
	held := audit.Held{ID: w.Send.ID, Attempt: w.Send.Attempt}
	if f, ok := o.flights[w.Send.ID]; ok {
		// The lease ran out while the log was away, and this process took its own row over: the attempt under way
		// goes on under the new number.
		f.held, f.inDoubt, f.renewed = held, w.Send.InDoubt, o.Now()
		return nil
	}
	f := &flight{work: w, held: held, inDoubt: w.Send.InDoubt, renewed: o.Now(), read: o.Now()}
	o.flights[w.Send.ID] = f
	return f
}

// enqueue gives a flight to the workers. The caller holds the lock.
func (o *outbox) enqueue(f *flight) {
	o.queue = append(o.queue, f)
	if o.workers < o.Workers {
		o.workers++
		o.done.Go(o.deliver)
	}
}

// deliver is a worker: it ends when nothing is queued.
func (o *outbox) deliver() {
	for f := o.next(); f != nil; f = o.next() {
		end := o.attempt(o.base, f)
		// The next mail need not wait until the log has this one's outcome; but while the log takes none, mails stop.
		o.ends <- struct{}{}
		o.done.Go(func() {
			defer o.land(f)
			end()
			<-o.ends
		})
	}
}

func (o *outbox) next() *flight {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.behind && len(o.queue) < o.capacity/2 {
		select {
		case o.hungry <- struct{}{}:
		default:
		}
	}
	if len(o.queue) == 0 {
		o.workers--
		return nil
	}
	f := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	return f
}

func (o *outbox) land(f *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.flights, f.work.Send.ID)
}

func (o *outbox) holds(f *flight) (audit.Held, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f.held, f.inDoubt
}

// toRenew are the flights whose lease is not fresh: most end before theirs needs to be renewed.
func (o *outbox) toRenew() []audit.Held {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Now()
	var held []audit.Held
	for _, f := range o.flights {
		if now.Sub(f.renewed) >= o.Lease/8 {
			f.renewed = now
			held = append(held, f.held)
		}
	}
	return held
}
