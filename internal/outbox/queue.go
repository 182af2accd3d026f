package outbox

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// flight is a row that this process is working on.
type flight struct {
	work    store.Work
	held    store.Held
	inDoubt bool
	renewed time.Time // when its lease began
	read    time.Time // when it was read from the log
}

// lane is the queue and the workers of one channel. Each channel has its own, with its own bounds: a carrier that hangs holds up no
// mail, neither here nor in the log, and a mail server no text message.
type lane struct {
	channel recipient.Channel
	queue   backlog
	held    int  // flights of this channel
	workers int  // at work now
	behind  bool // rows wait in the log for want of room here: see start
}

// lane is that of a send. Rows have no other channels than recipients.
func (o *Outbox) lane(f *flight) *lane { return o.lanes[f.work.Send.Channel] }

// Held is how many sends are held in memory, and whether some of a channel wait in the log for want of room here.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.flights), o.lanes[ch].behind
}

// start works on a row that this process has just written, and whose lease it holds. Memory has room for so many; the
// others go back to the log at once, where they are queued for the first replica with room. While some wait there, so does
// every new one, or the old ones would never have their turn.
func (o *Outbox) start(w store.Work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.track(w)
	if f == nil {
		return
	}
	l := o.lane(f)
	if !l.behind && l.held <= o.Capacity {
		o.enqueue(f)
		return
	}
	l.behind = true
	o.work.Go(func() {
		defer o.done(f)
		o.postpone(f, store.Postponement{Reason: "backlog"})
	})
}

// takeOver works on rows from the log that are due: another process left them, or they waited. It takes as many of each
// channel as there is room for, and notes where there were no more.
func (o *Outbox) takeOver(ctx context.Context) {
	for _, ch := range recipient.Channels() {
		if err := o.takeOverLane(ctx, o.lanes[ch]); err != nil {
			o.away = true
			return
		}
	}
}

func (o *Outbox) takeOverLane(ctx context.Context, l *lane) error {
	for limit := min(o.roomIn(l), takeOverBatch); limit > 0; limit = min(o.roomIn(l), takeOverBatch) {
		work, err := o.lease(ctx, l.channel, limit)
		if err != nil {
			return err
		}
		o.mu.Lock()
		for _, w := range work {
			if f := o.track(w); f != nil {
				o.enqueue(f)
			}
		}
		l.behind = len(work) == limit // there may be more
		o.mu.Unlock()
		if len(work) < limit {
			break
		}
	}
	return nil
}

func (o *Outbox) lease(ctx context.Context, ch recipient.Channel, limit int) ([]store.Work, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	work, err := o.Store.TakeOver(ctx, ch, o.Lease, limit)
	for _, w := range work {
		if w.Send.Clock == store.LogClock && w.Send.Counts { // not what was reset since
			o.recordTakenOver(w.Send)
		}
		if w.Send.InDoubt {
			o.Logger.Warn("a send was left in flight; taken over", "send", w.Send.ID, "attempt", w.Send.Attempt)
		}
	}
	return work, err
}

func (o *Outbox) roomIn(l *lane) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, o.Capacity-l.held)
}

// track notes a row as this process's own; nil where it is already. The caller holds the lock.
func (o *Outbox) track(w store.Work) *flight {
	held := store.Held{ID: w.Send.ID, Attempt: w.Send.Attempt}
	if f, ok := o.flights[w.Send.ID]; ok {
		// The lease ran out while the log was away, and this process took its own row over: the attempt under way
		// goes on under the new number.
		f.held, f.inDoubt, f.renewed = held, w.Send.InDoubt, o.Now()
		return nil
	}
	f := &flight{work: w, held: held, inDoubt: w.Send.InDoubt, renewed: o.Now(), read: o.Now()}
	o.flights[w.Send.ID] = f
	o.lane(f).held++
	return f
}

// enqueue gives a flight to the workers. The caller holds the lock.
func (o *Outbox) enqueue(f *flight) {
	l := o.lane(f)
	l.queue.add(f)
	if l.workers < o.Workers {
		l.workers++
		o.work.Go(func() { o.deliver(l) })
	}
}

// deliver is a worker: it ends when nothing is queued in its lane.
func (o *Outbox) deliver(l *lane) {
	for f := o.next(l); f != nil; f = o.next(l) {
		record := o.attempt(o.base, f)
		// The next mail need not wait until the log has this one's outcome; but while the log takes none, mails stop.
		o.pending <- struct{}{}
		o.work.Go(func() {
			defer o.done(f)
			record()
			<-o.pending
		})
	}
}

func (o *Outbox) next(l *lane) *flight {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.behind && len(l.queue) < o.Capacity/2 {
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
	if len(l.queue) == 0 {
		l.workers--
		return nil
	}
	return l.queue.next()
}

func (o *Outbox) done(f *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.flights, f.work.Send.ID)
	o.lane(f).held--
}

func (o *Outbox) holds(f *flight) (store.Held, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f.held, f.inDoubt
}

// toRenew are the flights whose lease is not fresh: most end before theirs needs to be renewed.
func (o *Outbox) toRenew() []store.Held {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Now()
	var held []store.Held
	for _, f := range o.flights {
		if now.Sub(f.renewed) >= o.Lease/8 {
			f.renewed = now
			held = append(held, f.held)
		}
	}
	return held
}
