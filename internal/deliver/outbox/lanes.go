package outbox

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"sendcode/internal/store"
)

// lane has the waiting messages of one queue of the database, and the workers that send them. Each
// channel has its own lanes and limits, so a hanging carrier delays no mail, and a hanging mail
// server delays no text message. In each channel, the sends of strangers have their own lane
// (store.Class.IsStranger). If there are several connections, this lane leaves some of them free
// for the sends of other callers, even in a flood. Within a lane the apps take turns, so that no
// app's sends wait behind the backlog of another app. A lane has no lock of its own: only
// Outbox.update changes its fields.
type lane struct {
	store.Queue
	queues           map[string]*queue // by app: flights that wait for a worker
	turns            []string          // the apps whose queues are not empty; the first app is served next
	queued           int               // flights in queues
	flights          int               // all flights of this lane, in the queue or with a worker
	flightsByApp     map[string]int    // flights by app
	workers          int               // running workers
	maxWorkers       int               // workers that the lane may have; update sets it
	reputations      *reputations      // of the channel
	underWay         []*flight         // flights of strangers that are under way, in the order in which they got a worker
	parked           int               // flights in underWay that have no worker; see makeWay
	pops             int               // how many flights have got a worker so far
	lastServed       standing          // standing of the last flight that got a worker
	newestNext       bool              // of the fresh flights, the newest one is served next; see prefersNewest
	gaveWay          time.Time         // when a message last gave way; see makeWay
	newcomer         time.Time         // when a network last began to wait
	recheck          *time.Timer       // timer of makeWayAfter; may be nil
	behind           map[string]bool   // the apps some of whose rows wait in the database, since memory was full
	suspensionLogged bool              // logAttempt has logged that the servers accept no message at present
	backlog
}

func newLane(q store.Queue, r *reputations) *lane {
	return &lane{
		Queue: q, queues: map[string]*queue{}, flightsByApp: map[string]int{}, behind: map[string]bool{}, reputations: r,
		backlog: backlog{waits: map[string]int{}},
	}
}

// ready reports whether a flight waits only for a worker. A flight with the standing held also
// waits for other flights, so it does not make the lane full.
func (l *lane) ready() bool {
	return l.anyWaits(func(s standing) bool { return s != held })
}

// mayBegin reports whether a waiting flight may have a worker.
func (l *lane) mayBegin() bool {
	return l.anyWaits(func(s standing) bool { return s != held || l.heldMayBegin() })
}

func (l *lane) anyWaits(of func(standing) bool) bool {
	if !l.Strangers {
		return l.queued > 0
	}
	now := time.Now()
	for _, q := range l.queues {
		for _, turn := range q.byNetwork {
			if slices.ContainsFunc(turn.flights, func(f *flight) bool { return of(l.standingOf(f, now)) }) {
				return true
			}
		}
	}
	return false
}

// byExpiry orders flights by the expiry of their codes, and flights with the same expiry by age.
func byExpiry(a, b *flight) int {
	return cmp.Or(a.work.Verification.ExpiresAt.Compare(b.work.Verification.ExpiresAt),
		bytes.Compare(a.work.Send.ID[:], b.work.Send.ID[:]))
}

// queue has the flights of one app that wait for a worker. In the lane of strangers, the networks
// take turns, and each turn serves one flight, so that no network waits for all flights of another.
// In any other lane, flights are served in the order of byExpiry.
type queue struct {
	byNetwork map[string]turn
	turns     []string // the networks; the first one is served next
}

// turn has the waiting flights of one network.
type turn struct {
	flights []*flight // in the order of byExpiry; never empty
	since   time.Time // since when the network waits for its turn
	served  bool      // the network has had a turn since it last had no flight
}

func (q *queue) empty() bool { return len(q.turns) == 0 }

func (q *queue) push(network string, f *flight) {
	t := q.byNetwork[network]
	if len(t.flights) == 0 {
		q.turns = append(q.turns, network)
		t.since = time.Now()
	}
	i, _ := slices.BinarySearchFunc(t.flights, f, byExpiry)
	t.flights = slices.Insert(t.flights, i, f)
	q.byNetwork[network] = t
}

// preference returns the order in which standings are served. Fresh flights take turns with proven
// ones, so neither kind waits for all flights of the other. Held flights come last. If there are
// several workers, held flights come first at each fourth turn, so that they do get served.
func (l *lane) preference() [standings]standing {
	switch {
	case l.pops%4 == 3 && l.maxWorkers > 1:
		return [...]standing{held, proven, fresh}
	case l.lastServed == proven:
		return [...]standing{fresh, proven, held}
	}
	return [...]standing{proven, fresh, held}
}

// prefersNewest reports whether every second fresh flight that is served belongs to the newest
// network: the one that began to wait last and has had no turn. This is so for preferNewestFor
// after a message gave way. The waiting messages may then belong to an attack, which may use many
// networks and domains, and a later message must not wait for all of them.
func (l *lane) prefersNewest(now time.Time) bool {
	return !l.gaveWay.IsZero() && now.Sub(l.gaveWay) < preferNewestFor
}

// next returns the place of the flight that is served next: its network's place in turns, and its
// place among the flights of the network. If no flight may begin, at is -1.
func (q *queue) next(l *lane) (network, at int) {
	if !l.Strangers {
		return 0, 0
	}
	var first [standings]struct {
		network, at int
		found       bool
		since       time.Time
	}
	now, order := time.Now(), l.preference()
	newest := l.newestNext && l.prefersNewest(now)
	for n, network := range q.turns {
		turn := q.byNetwork[network]
		for at, f := range turn.flights {
			s := l.standingOf(f, now)
			one := &first[s]
			switch newer := newest && s == fresh && !turn.served && turn.since.After(one.since); {
			case newer:
				one.since = turn.since
			case one.found:
				continue
			case s == order[0] && s != held && !(newest && s == fresh):
				return n, at
			}
			one.network, one.at, one.found = n, at, true
		}
	}
	for _, s := range order {
		if first[s].found && (s != held || l.heldMayBegin()) {
			return first[s].network, first[s].at
		}
	}
	return -1, -1
}

// pop removes and returns the flight that is served next, or nil if none may begin.
func (q *queue) pop(l *lane) (first *flight) {
	n, at := q.next(l)
	if n < 0 {
		return nil
	}
	network := q.turns[n]
	q.turns = slices.Delete(q.turns, n, n+1)
	t := q.byNetwork[network]
	first = t.flights[at]
	if t.flights = slices.Delete(t.flights, at, at+1); len(t.flights) == 0 {
		delete(q.byNetwork, network)
		return first
	}
	q.turns = append(q.turns, network)
	t.since, t.served = time.Now(), true
	q.byNetwork[network] = t
	return first
}

// later returns how many of the waiting flights are served after a new flight of a network, whose
// code expires at the time ends. Flights with the standing held are served after the new one,
// unless the network is held, too.
func (l *lane) later(q *queue, network string, ends, now time.Time) (n int) {
	heldToo := l.reputations.isHeld(networkKey(network), now)
	counts := map[string]int{} // by network, how many flights are not counted as later yet
	for other, turn := range q.byNetwork {
		for _, f := range turn.flights {
			if !heldToo && l.standingOf(f, now) == held {
				n++
			} else {
				counts[other]++
			}
		}
	}
	own := l.turnOf(store.Send{Network: network})
	flights := q.byNetwork[own].flights
	before, _ := slices.BinarySearchFunc(flights, ends, func(f *flight, ends time.Time) int {
		return cmp.Or(f.work.Verification.ExpiresAt.Compare(ends), -1)
	})
	before = min(before, counts[own])
	for other, count := range counts {
		if other == own {
			n += count - before
		} else {
			n += max(0, count-before-1)
		}
	}
	return n
}

// turnOf returns the network in whose turn a send is served. Only the networks of strangers take
// turns, so in any other lane turnOf returns "". Each send without a known network has a turn of
// its own: a back end that names no client sends for many people, who are not one network.
func (l *lane) turnOf(s store.Send) string {
	switch {
	case !l.Strangers:
		return ""
	case s.Network == "":
		return "send " + string(s.ID[:])
	}
	return s.Network
}

// begin counts a new flight.
func (l *lane) begin(app string) {
	l.flights++
	l.flightsByApp[app]++
}

// end counts a flight as ended.
func (l *lane) end(app string) {
	l.flights--
	if l.flightsByApp[app]--; l.flightsByApp[app] == 0 {
		delete(l.flightsByApp, app)
	}
}

func (l *lane) push(f *flight) {
	app := f.work.Send.App
	q := l.queues[app]
	if q == nil {
		q = &queue{byNetwork: map[string]turn{}}
		l.queues[app] = q
	}
	if q.empty() {
		l.turns = append(l.turns, app)
	}
	network := l.turnOf(f.work.Send)
	if _, waits := q.byNetwork[network]; !waits {
		l.newcomer = time.Now()
	}
	q.push(network, f)
	l.queued++
	l.count(app, 1)
}

// pop removes and returns the next flight of the first app in turns that has a flight that may
// begin. It returns nil if no app has one.
func (l *lane) pop() *flight {
	for n, app := range l.turns {
		q := l.queues[app]
		first := q.pop(l)
		if first == nil {
			continue
		}
		l.turns = slices.Delete(l.turns, n, n+1)
		if l.lastServed = l.standingOf(first, time.Now()); l.lastServed == fresh {
			l.newestNext = !l.newestNext
		}
		l.pops++
		l.queued--
		l.count(app, -1)
		if !q.empty() {
			l.turns = append(l.turns, app)
		}
		return first
	}
	return nil
}

// reserveWorker reports whether the caller must start a worker, and then counts the worker. The
// caller must do so if a flight waits that may have a worker, and fewer than maxWorkers run.
func (l *lane) reserveWorker(maxWorkers int) bool {
	if l.workers >= maxWorkers || !l.mayBegin() {
		return false
	}
	l.workers++
	return true
}
