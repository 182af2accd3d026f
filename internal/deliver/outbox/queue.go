package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// capacity returns how many flights of a lane may be in memory.
func (o *Outbox) capacity(l *lane) int {
	if l.Strangers {
		return o.Capacity / 2
	}
	return o.Capacity
}

// limitsOf returns the limits of the MailSender or the Carrier of a channel.
func (o *Outbox) limitsOf(ch recipient.Channel) Limits {
	switch {
	case ch == recipient.Email && o.Sender != nil:
		return o.Sender
	case ch == recipient.SMS && o.Carrier != nil:
		return o.Carrier
	}
	return delivery.Unlimited{}
}

// maxWorkers returns how many workers a lane may have now. For most lanes, this is the smaller of
// Workers and the number of connections, because more workers would only wait for a connection. If
// the number of connections has no limit, DefaultWorkers takes its place.
//
// The lane of strangers gets fewer workers than this number: either half of it or ReservedConns
// fewer, whichever is more, but at least one. If the connections have no limit, it always gets
// half. If they have one, each message that waits without a worker (makeWay) keeps a connection and
// takes the place of a worker, so that the number may even be 0.
func (o *Outbox) maxWorkers(l *lane) int {
	conns := o.limitsOf(l.Channel).ConnLimit()
	switch {
	case conns == 0 && l.Strangers:
		n := min(o.Workers, DefaultWorkers)
		return delivery.ShareOfStrangers(n, n)
	case conns == 0:
		return min(o.Workers, DefaultWorkers)
	case l.Strangers:
		return max(0, min(
			delivery.ShareOfStrangers(min(o.Workers, conns), delivery.ReservedConns),
			delivery.ShareOfStrangers(conns, delivery.ReservedConns)-l.parked,
		))
	}
	return min(o.Workers, conns)
}

// Submit queues a send and waits for the outcome, for at most wait and only until ctx ends. It
// returns the send with its outcome. If the send has no outcome by that time, Submit returns the
// send with the status Queued, and delivery continues.
func (o *Outbox) Submit(ctx context.Context, w store.Work, wait time.Duration) store.Send {
	w.Send.Status = store.Queued // in the response, if the attempt has not ended
	if wait <= 0 || o.hurried.Load() {
		o.queueOrPostpone(w)
		return w.Send
	}
	ended := make(chan store.Outcome, 1)
	o.waiters.Store(w.Send.ID, ended)
	defer o.waiters.Delete(w.Send.ID)
	o.queueOrPostpone(w)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case out, known := <-ended:
		if !known {
			break
		}
		w.Send.Status, w.Send.Reason, w.Send.FinishedAt = out.Status, out.Reason, o.Now()
		w.Send.Provider, w.Send.ProviderCode, w.Send.Counts = out.Provider, out.ProviderCode, w.Send.Counts &&
			!out.Refund
	case <-ctx.Done():
	}
	return w.Send
}

// EndWaits answers all requests that wait for an outcome, as if their wait were over. Later
// requests do not wait at all.
func (o *Outbox) EndWaits() {
	o.hurried.Store(true)
	o.waiters.Range(func(send, _ any) bool {
		if ended, waits := o.waiters.LoadAndDelete(send); waits {
			close(ended.(chan store.Outcome))
		}
		return true
	})
}

// notifyWaiter gives the outcome of a send to the request that waits for it. Without such a request
// it does nothing.
func (o *Outbox) notifyWaiter(send uuid.UUID, out store.Outcome) {
	if ended, waits := o.waiters.LoadAndDelete(send); waits {
		ended.(chan store.Outcome) <- out
	}
}

// queueOrPostpone queues a row that this process has just written and leased. It postpones the row
// if tooManyHeld returns true. If the row's app holds more than its share of memory (appShare),
// queueOrPostpone also postpones the row if memory is full, or if older rows of the app wait in the
// database, because the older rows must come first. Any replica with capacity then takes the row
// over.
func (o *Outbox) queueOrPostpone(w store.Work) {
	f := o.beginFlight(w)
	if f == nil {
		return
	}
	switch {
	case o.tooManyHeld(f):
		o.handBack(f, heldAgainAfter)
	case o.hasCapacityFor(f):
		o.enqueue(f)
	default:
		o.handBack(f, 0)
	}
}

// handBack postpones the row of a flight whose attempt has not begun.
func (o *Outbox) handBack(f *flight, after time.Duration) {
	o.work.Go(func() {
		defer o.letGo(f)
		defer panics.Recover(panics.Attempt)
		o.postpone(o.base, f, store.Postponement{Reason: reasonBacklog, After: after})
	})
}

// heldAgainAfter is how long a message waits in the database if tooManyHeld found no place for it
// in memory.
const heldAgainAfter = 30 * time.Second

// tooManyHeld reports whether a flight has the standing held and a quarter of the lane's capacity
// is in use by such flights already. They must leave memory to others.
func (o *Outbox) tooManyHeld(f *flight) (too bool) {
	o.update(f.lane, func(l *lane, now time.Time) {
		if l.standingOf(f, now) != held {
			return
		}
		n := 0
		for _, q := range l.queues {
			for _, turn := range q.byNetwork {
				for _, other := range turn.flights {
					if l.standingOf(other, now) == held {
						n++
					}
				}
			}
		}
		too = n >= o.capacity(l)/4
	})
	return too
}

// hasCapacityFor reports whether memory has capacity for a flight. If not, it notes that rows of
// the flight's app wait in the database.
func (o *Outbox) hasCapacityFor(f *flight) bool {
	fits := false
	o.update(f.lane, func(l *lane, _ time.Time) {
		app := f.work.Send.App
		fits = l.flightsByApp[app] <= o.capacity(l)/appShare || !l.behind[app] && l.flights <= o.capacity(l)
		if !fits {
			l.behind[app] = true
		}
	})
	return fits
}

// appShare is the part of the capacity that each app may use even when memory is full: one tenth.
const appShare = 10

// takeOver leases due rows in the database. These rows have waited there, or another process left
// them. For each lane, takeOver queues as many rows as fit in memory.
func (o *Outbox) takeOver(ctx context.Context) {
	for _, q := range store.Queues() {
		if err := o.takeOverLane(ctx, o.lanes[q]); err != nil {
			o.noteAway(ctx, err)
			return
		}
	}
}

// takeOverLane takes over rows of one lane. If all servers of the lane are suspended, it takes over
// rows of expired codes, and as many other rows as the servers would try. The remaining rows wait
// unchanged in the database, because an attempt could only postpone them.
func (o *Outbox) takeOverLane(ctx context.Context, l *lane) error {
	admits := o.attemptsAllowed(l)
	if admits < delivery.UnlimitedAttempts {
		if _, err := o.takeOverUpTo(ctx, l, delivery.UnlimitedAttempts, o.Store.TakeOverWithExpiredCode); err != nil {
			return err
		}
	}
	all, err := o.takeOverUpTo(ctx, l, admits, o.Store.TakeOver)
	if all {
		o.update(l, func(l *lane, _ time.Time) { clear(l.behind) })
	}
	return err
}

// attemptsAllowed returns how many more messages of the lane would be tried now.
func (o *Outbox) attemptsAllowed(l *lane) int {
	n := o.limitsOf(l.Channel).AttemptsAllowed()
	if n < delivery.UnlimitedAttempts {
		o.update(l, func(*lane, time.Time) {
			for _, other := range o.lanes {
				if other.Channel == l.Channel {
					n -= other.queued
				}
			}
		})
	}
	return n
}

// takeOverFunc is Store.TakeOver or Store.TakeOverWithExpiredCode.
type takeOverFunc func(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)

// takeOverUpTo leases rows of a lane in batches, and queues their flights. It leases each batch
// with the function in the parameter from. It ends when no row is left, when the lane's memory is
// full, or when it has leased maxRows rows. The result all is true if no row is left.
func (o *Outbox) takeOverUpTo(ctx context.Context, l *lane, maxRows int, from takeOverFunc) (all bool, err error) {
	for limit := min(o.freeCapacity(l), takeOverBatch, maxRows); limit > 0; limit = min(o.freeCapacity(l), takeOverBatch, maxRows) {
		work, err := o.leaseRows(ctx, l.Queue, limit, from)
		if err != nil {
			return false, err
		}
		maxRows -= len(work)
		all = len(work) < limit
		for _, w := range work {
			f := o.beginFlight(w)
			switch {
			case f == nil:
			case o.tooManyHeld(f):
				o.handBack(f, heldAgainAfter)
			default:
				o.enqueue(f)
			}
		}
		if !all { // there may be more
			o.noteBehind(l, work)
		}
		if all {
			break
		}
	}
	return all, nil
}

// noteBehind notes for the app of each row that further rows of the app wait in the database.
func (o *Outbox) noteBehind(l *lane, work []store.Work) {
	o.update(l, func(l *lane, _ time.Time) {
		for _, w := range work {
			l.behind[w.Send.App] = true
		}
	})
}

func (o *Outbox) leaseRows(ctx context.Context, q store.Queue, limit int, from takeOverFunc) ([]store.Work, error) {
	work, err := from(ctx, q, o.Lease, limit)
	for _, w := range work {
		if s := w.Send; s.InDoubt {
			// If the limiter was unavailable when a process admitted this send, that process had to
			// count the send in the limiter later. The process may have died before it did so.
			name := o.Policy.Get().Purposes[s.Purpose].SharedBucketName()
			o.Repair.SettleLater(s.ID, map[quota.Scope]string{quota.Recipient: buckets.Recipient(s.App, s.Channel, name, s.Recipient)})
			o.Logger.Warn("abandoned send taken over", "send", w.Send.ID, "attempt", w.Send.Attempt,
				logs.SeeDatabaseSlow)
		}
	}
	return work, err
}

func (o *Outbox) freeCapacity(l *lane) (free int) {
	o.update(l, func(l *lane, _ time.Time) { free = max(0, o.capacity(l)-l.flights) })
	return free
}

// beginFlight begins a flight, which is the delivery of a row that this process has leased. It
// returns nil if the row already has a flight.
func (o *Outbox) beginFlight(w store.Work) *flight {
	f := o.leases.take(w, o.lanes[w.Queue()])
	if f != nil {
		o.update(f.lane, func(l *lane, _ time.Time) { l.begin(w.Send.App) })
	}
	return f
}

// enqueue queues a flight in its lane. If the lane has too few workers, it starts one.
func (o *Outbox) enqueue(f *flight) {
	o.update(f.lane, func(l *lane, _ time.Time) {
		l.push(f)
		o.addWorker(l)
	})
}

// addWorker starts a worker if flights wait and too few workers run. Call it within update.
func (o *Outbox) addWorker(l *lane) {
	if l.reserveWorker(o.maxWorkers(l)) {
		o.work.Go(func() { o.runWorker(l) })
	}
}

// runWorker makes attempts until no waiting flight of its lane may begin, or there are too many
// workers. If MaxPendingOutcomes outcomes are not in the database yet, it blocks.
func (o *Outbox) runWorker(l *lane) {
	for f := o.dequeueOrEndWorker(l, nil); f != nil; f = o.dequeueOrEndWorker(l, f) {
		ctx := o.traceAttempt(f)
		out, postponement := o.attempt(ctx, f)
		// The next message does not wait until this outcome is in the database. But this line
		// blocks if too many outcomes are pending, so sending stops if the database is unavailable.
		o.pending <- struct{}{}
		o.work.Go(func() {
			defer func() { <-o.pending }()
			defer o.letGo(f)
			defer panics.Recover(panics.Attempt)
			if postponement != nil {
				o.postpone(ctx, f, *postponement)
			} else {
				o.finish(ctx, f, out)
			}
		})
	}
}

// traceAttempt returns the context of an attempt, with a trace if traces are on.
func (o *Outbox) traceAttempt(f *flight) (ctx context.Context) {
	ctx = o.base
	if o.Tracer == nil {
		return ctx
	}
	defer panics.Recover(panics.Attempt)
	return o.Tracer.StartAttemptTrace(o.base, f.work.Send)
}

// endAttemptTrace ends the trace of the attempt to which ctx belongs. It does nothing with o.base,
// which is the context of an attempt without a trace.
func (o *Outbox) endAttemptTrace(ctx context.Context, s store.Status, reason string) {
	if o.Tracer != nil && ctx != o.base {
		o.Tracer.EndAttempt(ctx, s, reason)
	}
}

// dequeueOrEndWorker takes the next flight of a lane: the first flight that may begin, of the app
// whose turn it is. If there is none, or if there are too many workers, it returns nil. Then the
// calling worker is no longer counted and must end. The parameter last is the worker's last flight,
// or nil.
func (o *Outbox) dequeueOrEndWorker(l *lane, last *flight) (first *flight) {
	o.update(l, func(l *lane, _ time.Time) { first = o.nextFlight(l, last) })
	return first
}

// nextFlight does the work of dequeueOrEndWorker. Call it within update.
func (o *Outbox) nextFlight(l *lane, last *flight) *flight {
	if last != nil {
		l.endWait(last) // after a panic, the flight is still in underWay
		if last.parked {
			last.parked = false
			l.parked--
			l.workers++
		}
	}
	if len(l.behind) > 0 && l.suspended.IsZero() && l.queued < o.capacity(l)/2 {
		select {
		case o.free <- struct{}{}:
		default:
		}
	}
	var first *flight
	if l.workers <= o.maxWorkers(l) {
		first = l.pop()
	}
	if first == nil {
		l.workers--
		return nil
	}
	l.startWait(first)
	o.addWorker(l) // the server may accept more messages now than when the flights were queued
	return first
}

// letGo ends a flight. If its row was taken over after its postponement, the flight of the next
// attempt is queued.
func (o *Outbox) letGo(f *flight) {
	if next := o.leases.giveBack(f); next != nil {
		o.enqueue(next)
		return
	}
	o.update(f.lane, func(l *lane, _ time.Time) { l.end(f.work.Send.App) })
}
