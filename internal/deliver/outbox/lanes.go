package outbox

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"sendcode/internal/store"
)

// lane has the waiting messages of one queue of the database, and the workers that send them. Each
// channel has its own lanes and limits. So a hanging carrier delays no mail, and a hanging mail
// server delays no text message. In each channel, the sends of strangers have their own lane. A
// stranger is a browser in which no earlier code of the recipient was entered. If there are several
// connections, the strangers' lane leaves some of them free. So even a flood of strangers' sends
// does not delay the sends of other callers. Within a lane the apps take turns, so that no app's
// backlog delays the sends of another app. The lane itself has no lock. Outbox.lanesMu guards its
// fields.
type lane struct {
	store.Queue
	queues           map[string]*queue // by app: flights that wait for a worker
	turns            []string          // the apps whose queues are not empty; the first app is served next
	queued           int               // flights in queues
	flights          int               // all flights of this lane, in the queue or with a worker
	held             map[string]int    // flights by app
	workers          int               // running workers
	patient          int               // workers with a mail that may wait longer than other mails; see mayWait
	behind           map[string]bool   // the apps whose rows partly wait in the database, since memory was full
	suspensionLogged bool              // logAttempt has logged that all servers are set aside
	backlog
}

func newLane(q store.Queue) *lane {
	return &lane{
		Queue: q, queues: map[string]*queue{}, held: map[string]int{}, behind: map[string]bool{},
		backlog: backlog{waits: map[string]int{}},
	}
}

// byExpiry orders flights by the expiry of their codes, and flights with the same expiry by age.
func byExpiry(a, b *flight) int {
	return cmp.Or(a.work.Verification.ExpiresAt.Compare(b.work.Verification.ExpiresAt),
		bytes.Compare(a.work.Send.ID[:], b.work.Send.ID[:]))
}

// queue has the flights of one app that wait for a worker. A flight is a send that this process has
// leased. In the lane of strangers (unknown browsers), the networks take turns, and each turn
// serves one flight. So no network waits for all flights of another. In any other lane, flights are
// served in the order of byExpiry. In every lane, the flights in silent are served last.
type queue struct {
	byNetwork map[string][]*flight // in the order of byExpiry; none is empty
	turns     []string             // the networks; the first one is served next
	silent    []*flight            // of mails whose last RCPT got no answer (see wasSilent), in the order of byExpiry; served last
}

func (q *queue) empty() bool { return len(q.turns)+len(q.silent) == 0 }

func insertByExpiry(all []*flight, f *flight) []*flight {
	i, _ := slices.BinarySearchFunc(all, f, byExpiry)
	return slices.Insert(all, i, f)
}

func (q *queue) push(network string, f *flight) {
	if wasSilent(f.work) {
		q.silent = insertByExpiry(q.silent, f)
		return
	}
	if len(q.byNetwork[network]) == 0 {
		q.turns = append(q.turns, network)
	}
	q.byNetwork[network] = insertByExpiry(q.byNetwork[network], f)
}

func (q *queue) pop() (first *flight) {
	if len(q.turns) == 0 {
		first, q.silent = q.silent[0], q.silent[1:]
		return first
	}
	network := q.turns[0]
	q.turns = slices.Delete(q.turns, 0, 1)
	first = q.byNetwork[network][0]
	if q.byNetwork[network] = slices.Delete(q.byNetwork[network], 0, 1); len(q.byNetwork[network]) > 0 {
		q.turns = append(q.turns, network)
	} else {
		delete(q.byNetwork, network)
	}
	return first
}

// later returns how many of the waiting flights are served after a new flight of a network whose
// code expires at the instant ends.
func (q *queue) later(network string, ends time.Time) int {
	own := q.byNetwork[network]
	before, _ := slices.BinarySearchFunc(own, ends, func(f *flight, ends time.Time) int {
		return cmp.Or(f.work.Verification.ExpiresAt.Compare(ends), -1)
	})
	n := len(q.silent) + len(own) - before
	for other, waiting := range q.byNetwork {
		if other != network {
			n += max(0, len(waiting)-before-1)
		}
	}
	return n
}

// turnOf returns the network in whose turn a flight is served. Only the networks of strangers take
// turns, so in any other lane turnOf returns "".
func (l *lane) turnOf(network string) string {
	if l.Strangers {
		return network
	}
	return ""
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
	q := l.queues[app]
	if q == nil {
		q = &queue{byNetwork: map[string][]*flight{}}
		l.queues[app] = q
	}
	if q.empty() {
		l.turns = append(l.turns, app)
	}
	q.push(l.turnOf(f.work.Send.Network), f)
	l.queued++
	l.count(app, 1)
}

// pop takes the first flight of the app whose turn it is. The lane must not be empty.
func (l *lane) pop() *flight {
	app := l.turns[0]
	l.turns = slices.Delete(l.turns, 0, 1)
	q := l.queues[app]
	first := q.pop()
	l.queued--
	l.count(app, -1)
	if !q.empty() {
		l.turns = append(l.turns, app)
	}
	return first
}

// mayWait is for a mail whose last RCPT got no answer (see wasSilent). It lets this mail wait
// longer for the server than other mails, until the caller calls the result end. The result
// givesWay reports whether the wait must end now, because other mails need the worker. It returns
// true if flights of other mails wait for a worker, and more than half of the workers have a mail
// that may wait longer.
func (o *Outbox) mayWait(l *lane) (givesWay func() bool, end func()) {
	o.countPatient(l, 1, func() bool { return true })
	waits := true
	stop := func(when func() bool) { waits = waits && !o.countPatient(l, -1, when) }
	return func() bool { stop(l.needsWorker); return !waits }, func() { stop(func() bool { return true }) }
}

// countPatient changes l.patient, the number of workers with a mail that may wait longer; see
// mayWait. It first calls the function `when`. If this function returns true, countPatient adds n
// to l.patient. It returns the function's result.
func (o *Outbox) countPatient(l *lane, n int, when func() bool) bool {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	if !when() {
		return false
	}
	l.change(time.Now(), o.maxWorkers(l))
	l.patient += n
	return true
}

// needsWorker reports whether a worker with a mail that may wait longer must end the wait; see
// mayWait.
func (l *lane) needsWorker() bool {
	for _, q := range l.queues {
		if len(q.turns) > 0 {
			return 2*l.patient > l.workers
		}
	}
	return false
}

// hires reports whether a further worker must start. A worker must start if flights wait and the
// number of workers is less than the parameter most. If so, hires counts the new worker.
func (l *lane) hires(most int) bool {
	if l.queued == 0 || l.workers >= most {
		return false
	}
	l.workers++
	return true
}
