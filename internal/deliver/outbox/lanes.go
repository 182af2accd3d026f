package outbox

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// lane has the waiting messages of one queue of the database, and the workers that send them. Each
// channel has its own lanes and limits. So a hanging carrier delays no mail, and a hanging mail
// server delays no text message. In each channel, the sends of strangers have their own lane. A
// stranger is a browser in which no earlier code of the recipient was entered. If there are several
// connections, the strangers' lane leaves some of them free. So even a flood of strangers' sends
// does not delay the sends of other callers. Within a lane the apps take turns, so that no app's
// backlog delays the sends of another app. The lane itself has no lock: only Outbox.update changes
// its fields.
type lane struct {
	store.Queue
	queues           map[string]*queue // by app: flights that wait for a worker
	turns            []string          // the apps whose queues are not empty; the first app is served next
	queued           int               // flights in queues
	flights          int               // all flights of this lane, in the queue or with a worker
	held             map[string]int    // flights by app
	workers          int               // running workers
	patient          int               // workers with a mail that may wait longer than other mails; see mayWait
	holds            holds             // flights of strangers that have a worker
	perNetwork       int               // most flights with a worker of one network of strangers
	perDomain        int               // most flights with a worker to one domain
	behind           map[string]bool   // the apps whose rows partly wait in the database, since memory was full
	suspensionLogged bool              // logAttempt has logged that all servers are set aside
	backlog
}

func newLane(q store.Queue) *lane {
	return &lane{
		Queue: q, queues: map[string]*queue{}, held: map[string]int{}, behind: map[string]bool{}, holds: holds{},
		backlog: backlog{waits: map[string]int{}},
	}
}

// holds has the flights of strangers that have a worker, by the client's network and by the
// recipient's domain. A stranger chooses the recipient, so the recipient's server decides how long
// such a flight keeps its worker and its connection. After the final dot, the service cannot end
// it. So the flights of one network or domain may have only a part of the workers; see
// lane.mayBegin.
type holds map[string]*holding

type holding struct {
	flights []*flight     // the longest under way first
	took    time.Duration // the last attempt
}

func (h holds) add(f *flight) {
	f.begun = time.Now()
	for _, key := range f.holders() {
		if h[key] == nil {
			h[key] = &holding{}
		}
		h[key].flights = append(h[key].flights, f)
	}
}

func (h holds) remove(f *flight) {
	for _, key := range f.holders() {
		h[key].flights = slices.DeleteFunc(h[key].flights, func(other *flight) bool { return other == f })
		h[key].took = time.Since(f.begun)
	}
}

// forget removes the holders of a flight that hold nothing.
func (h holds) forget(f *flight) {
	for _, key := range f.holders() {
		if h.count(key) == 0 {
			delete(h, key)
		}
	}
}

func (h holds) count(key string) int {
	if h[key] == nil {
		return 0
	}
	return len(h[key].flights)
}

// networkKey returns the key of a network in holds. Clients without a known network share one key
// in each app.
func networkKey(network, app string) string { return cmp.Or(network, "app "+app) }

// holders returns the keys of a flight in holds.
func (f *flight) holders() [2]string {
	return [2]string{networkKey(f.work.Send.Network, f.work.Send.App), f.domain}
}

// networkMayBegin reports whether the network of a flight has less than its share of the workers.
func (l *lane) networkMayBegin(f *flight) bool {
	return !l.Strangers || l.holds.count(f.holders()[0]) < l.perNetwork
}

// mayBegin reports whether a flight may have a worker now.
func (l *lane) mayBegin(f *flight) bool {
	return l.networkMayBegin(f) && (f.domain == "" || l.holds.count(f.domain) < l.perDomain)
}

// ready reports whether a flight waits only for a worker.
func (l *lane) ready() bool {
	if !l.Strangers {
		return l.queued > 0
	}
	for _, q := range l.queues {
		if network, _ := q.next(l); network >= 0 {
			return true
		}
	}
	return false
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
	silent    []*flight            // of mails whose last RCPT or DATA got no answer (see wasSilent), in the order of byExpiry; served last
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

// next returns the place of the first flight that may begin: the network's place in turns, and the
// flight's place among those of the network. For the flights in silent, the network's place is
// len(turns). If no flight may begin, it is -1.
func (q *queue) next(l *lane) (network, at int) {
	for n, network := range q.turns {
		flights := q.byNetwork[network]
		if !l.networkMayBegin(flights[0]) { // nor may the others, which can be a thousand
			continue
		}
		if at := slices.IndexFunc(flights, l.mayBegin); at >= 0 {
			return n, at
		}
	}
	if at := slices.IndexFunc(q.silent, l.mayBegin); at >= 0 {
		return len(q.turns), at
	}
	return -1, -1
}

// pop takes the first flight that may begin; nil if there is none.
func (q *queue) pop(l *lane) (first *flight) {
	n, at := q.next(l)
	switch n {
	case -1:
		return nil
	case len(q.turns):
		first = q.silent[at]
		q.silent = slices.Delete(q.silent, at, at+1)
		return first
	}
	network := q.turns[n]
	q.turns = slices.Delete(q.turns, n, n+1)
	first = q.byNetwork[network][at]
	if q.byNetwork[network] = slices.Delete(q.byNetwork[network], at, at+1); len(q.byNetwork[network]) > 0 {
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
	if l.Strangers && l.Channel == recipient.Email {
		f.domain = recipient.RegistrableDomain(recipient.DomainOfMasked(f.work.Send.To))
	}
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

// pop takes the first flight that may begin, of the app whose turn it is; nil if there is none.
func (l *lane) pop() *flight {
	for n, app := range l.turns {
		q := l.queues[app]
		first := q.pop(l)
		if first == nil {
			continue
		}
		l.turns = slices.Delete(l.turns, n, n+1)
		l.queued--
		l.count(app, -1)
		if !q.empty() {
			l.turns = append(l.turns, app)
		}
		return first
	}
	return nil
}

// mayWait is for a mail whose last RCPT or DATA got no answer (see wasSilent). It lets this mail
// wait longer for the server than other mails, until the caller calls the result end. The result
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
	counted := false
	o.update(l, func(l *lane, _ time.Time) {
		if counted = when(); counted {
			l.patient += n
		}
	})
	return counted
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

// hires reports whether a further worker must start. A worker must start if flights wait only for a
// worker, and the number of workers is less than the parameter most. If so, hires counts the new
// worker.
func (l *lane) hires(most int) bool {
	if l.workers >= most || !l.ready() {
		return false
	}
	l.workers++
	return true
}
