package outbox

import (
	"bytes"
	"cmp"
	"slices"

	"sendcode/internal/store"
)

// lane has what waits in one queue of the database, and its workers. Each channel has lanes with
// bounds of their own, so that a carrier that hangs delays no mail, and a mail server that hangs no
// text message. Strangers' sends have a lane of their own in each channel, which leaves connections
// to others. So other sends do not wait for them, however many strangers' sends there are. Within a
// lane the apps take turns, so that no app's backlog delays the sends of another. It is plain data:
// Outbox.lanesMu guards it.
type lane struct {
	store.Queue
	queues           map[string][]*flight // by app: flights that wait for a worker, in the order of byExpiry; none is empty
	turns            []string             // the apps of queues; the first one is served next
	queued           int                  // flights in queues
	flights          int                  // all flights of this lane, queued or at a worker
	held             map[string]int       // flights by app
	workers          int                  // running workers
	behind           map[string]bool      // apps of which rows wait in the database, since memory was full
	suspensionLogged bool                 // logAttempt has logged that all servers are set aside
	backlog
}

func newLane(q store.Queue) *lane {
	return &lane{
		Queue: q, queues: map[string][]*flight{}, held: map[string]int{}, behind: map[string]bool{},
		backlog: backlog{waits: map[string]int{}},
	}
}

// byExpiry orders flights by the end of their code's life, and those that end together by age.
func byExpiry(a, b *flight) int {
	return cmp.Or(a.work.Verification.ExpiresAt.Compare(b.work.Verification.ExpiresAt),
		bytes.Compare(a.work.Send.ID[:], b.work.Send.ID[:]))
}

// begin counts a new flight.
func (l *lane) begin(app string) {
	l.flights++
	l.held[app]++
}

// end counts a flight no longer.
func (l *lane) end(app string) {
	l.flights--
	if l.held[app]--; l.held[app] == 0 {
		delete(l.held, app)
	}
}

// push queues a flight.
func (l *lane) push(f *flight) {
	app := f.work.Send.App
	waiting := l.queues[app]
	if len(waiting) == 0 {
		l.turns = append(l.turns, app)
	}
	i, _ := slices.BinarySearchFunc(waiting, f, byExpiry)
	l.queues[app] = slices.Insert(waiting, i, f)
	l.queued++
	l.count(app, 1)
}

// pop takes the first flight of the app whose turn it is. One must wait.
func (l *lane) pop() *flight {
	app := l.turns[0]
	l.turns = slices.Delete(l.turns, 0, 1)
	first := l.queues[app][0]
	l.queues[app] = slices.Delete(l.queues[app], 0, 1)
	l.queued--
	l.count(app, -1)
	if len(l.queues[app]) > 0 {
		l.turns = append(l.turns, app)
	} else {
		delete(l.queues, app)
	}
	return first
}

// hires reports whether a further worker must begin, since flights wait and there are fewer than
// most. It counts it.
func (l *lane) hires(most int) bool {
	if l.queued == 0 || l.workers >= most {
		return false
	}
	l.workers++
	return true
}
