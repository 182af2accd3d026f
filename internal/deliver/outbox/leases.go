package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// flight is a row of the database with a lease of this process.
type flight struct {
	work    store.Work
	lane    *lane
	domain  string // registrable domain of a mail's recipient, or prefix of a number
	network string // key of the send's network in reputations
	lease   store.AttemptID
	inDoubt bool      // an earlier attempt may have delivered the message
	renewed time.Time // start of the current lease
	readAt  time.Time // when the work was read from the database or written to it

	// These are for a stranger's message that is under way. Use them only within Outbox.update.
	begun    time.Time       // when the message was offered to the server; before that, when it got a worker
	standing standing        // the message's standing when it got a worker
	attempt  context.Context // see delivery.HandedOver and delivery.TurnBegan
	giveWay  func()          // ends the attempt
	parked   bool            // the message has no worker; see makeWay
	yields   bool            // giveWay was called

	postponed store.AttemptID // the attempt under which the row was postponed; zero if the row was not postponed
	next      *flight         // flight of the newest attempt that this process took over before this flight ended; may be nil
}

// domainOf returns the registrable domain of a send's recipient, or the prefix of a number.
func domainOf(s store.Send) string {
	if s.Channel == recipient.Email {
		return recipient.RegistrableDomain(recipient.DomainOfMasked(s.To))
	}
	return s.Prefix
}

// now returns the time on the database's clock: the database's time when the work was read, plus
// the time since then. It does not use Outbox.Now, because Outbox.Now is only an estimate. After
// the database's clock is set, this estimate is wrong for some seconds.
func (f *flight) now() time.Time { return f.work.Now.Add(time.Since(f.readAt)) }

// leases has the flights of this process, by the IDs of their sends. Safe for concurrent use.
type leases struct {
	mu      sync.Mutex // guards the map, and lease, inDoubt, renewed and next of each flight
	flights map[uuid.UUID]*flight
}

// take adds a flight for the work w, and returns the flight. If the row already has a flight, take
// returns nil. In that case the old flight gets the lease of the new attempt, if that is a later
// one, and take stores the new flight in the field next of the old one, where giveBack finds it.
func (le *leases) take(w store.Work, l *lane) *flight {
	le.mu.Lock()
	defer le.mu.Unlock()
	held := store.AttemptID{ID: w.Send.ID, Attempt: w.Send.Attempt}
	next := &flight{
		work: w, lane: l, domain: domainOf(w.Send), network: networkKey(w.Send.Network),
		lease: held, inDoubt: w.Send.InDoubt, renewed: time.Now(), readAt: time.Now(),
	}
	if f, ok := le.flights[w.Send.ID]; ok {
		// Submit may come late with the first attempt, after this process has taken over the row.
		if held.Attempt <= f.lease.Attempt {
			return nil
		}
		// The row can already have a flight in two cases. In the first case the lease ended while
		// the database was unavailable, and this process took over its own row. The attempt under
		// way then continues under the new number. In the second case the row was postponed, and
		// became due again before the call of Postpone returned.
		f.lease, f.inDoubt, f.renewed = held, w.Send.InDoubt, time.Now()
		f.next = next
		return nil
	}
	le.flights[w.Send.ID] = next
	return next
}

// attemptOf returns the attempt under which this process holds the row of a flight. The result
// inDoubt is true if an earlier attempt may have delivered the message.
func (le *leases) attemptOf(f *flight) (held store.AttemptID, inDoubt bool) {
	le.mu.Lock()
	defer le.mu.Unlock()
	return f.lease, f.inDoubt
}

// renew returns the attempts of flights whose lease began at least `after` ago, and marks these
// leases as renewed. The caller then renews them in the database.
func (le *leases) renew(after time.Duration) (held []store.AttemptID) {
	le.mu.Lock()
	defer le.mu.Unlock()
	now := time.Now()
	for _, f := range le.flights {
		if now.Sub(f.renewed) >= after {
			f.renewed = now
			held = append(held, f.lease)
		}
	}
	return held
}

// giveBack removes the flight. If this process has taken over the row after its postponement, the
// flight of the new attempt replaces the removed flight. In that case giveBack returns the flight
// of the new attempt.
func (le *leases) giveBack(f *flight) (next *flight) {
	le.mu.Lock()
	defer le.mu.Unlock()
	if f.postponed.Attempt > 0 && f.postponed != f.lease {
		le.flights[f.work.Send.ID] = f.next
		return f.next
	}
	delete(le.flights, f.work.Send.ID)
	return nil
}
