package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

// standing says how long a stranger's message is likely to occupy its worker and its connection,
// judged by the last messages of its network, and by those to the recipient's domain or prefix. The
// recipient's server decides how long that is, and a stranger can choose a recipient whose server
// is slow on purpose. A message is called held if the server takes much longer for it than for most
// messages. A message that may be held is one with the standing held.
type standing int

const (
	proven standing = iota // the score of the domain is positive
	fresh                  // no score decides, or the server is slow for every message (slowForAll)
	held                   // the score of the network or the domain is negative, or the last attempt got no answer
	standings
)

// reputation has the score of a network or a domain. A held message subtracts as much as heldWeight
// messages that were answered in time add, because other messages have to wait while it is held.
type reputation struct {
	score int       // from -heldWeight to maxScore
	at    time.Time // of the last message
}

const (
	heldWeight     = 4
	maxScore       = 2 * heldWeight
	reputationLife = 10 * time.Minute
	maxReputations = 10_000

	// A message is held if it takes heldTimes the usual time, and at least heldAfter. A message
	// that takes at most half of that counts as answered in time.
	heldTimes = 4
	heldAfter = time.Second
)

// reputations has the reputation of each network and domain, in one channel.
type reputations struct {
	of map[string]reputation
	// usual is a typical time in which the server answers a message. Each answer raises or lowers
	// it, so that about a third of the answers take less time. It begins with maxUsual, so that a
	// message does not count as held only because the server is slow from the start. Beyond
	// maxUsual, only messages for known people and to proven domains raise it, because other
	// messages may be slow on purpose.
	usual time.Duration
	// A message is late if it took longer than maxPatience or gave way. late is when the first one
	// of the present series ended, and zero if the server has answered in time since then. lastLate
	// is when the last one ended.
	late, lastLate time.Time
}

// slowForAll reports whether the server may be too slow for every message, because it has answered
// none within maxPatience for judgedSlowAfter. Then it helps little if a message gives way to
// another, and all messages are served in turn.
func (r *reputations) slowForAll(now time.Time) bool {
	return !r.late.IsZero() && now.Sub(r.late) >= judgedSlowAfter && now.Sub(r.lastLate) < judgedSlowAfter
}

func (r *reputations) noteLate(took time.Duration, gaveWay, answered bool, now time.Time) {
	switch {
	case gaveWay || took > maxPatience:
		if r.late.IsZero() || now.Sub(r.lastLate) >= judgedSlowAfter {
			r.late = now
		}
		r.lastLate = now
	case answered:
		r.late = time.Time{}
	}
}

func newReputations() *reputations {
	return &reputations{of: map[string]reputation{}, usual: maxUsual}
}

func (r *reputations) isHeld(key string, now time.Time) bool {
	one := r.of[key]
	return one.score < 0 && now.Sub(one.at) < reputationLife
}

func (r *reputations) isProven(key string, now time.Time) bool {
	one := r.of[key]
	return one.score > 0 && now.Sub(one.at) < reputationLife
}

// add does nothing if the key is empty (see networkKey).
func (r *reputations) add(key string, n int, now time.Time) {
	if key == "" {
		return
	}
	one, known := r.of[key]
	if now.Sub(one.at) >= reputationLife {
		one.score = 0
	}
	if !known && len(r.of) >= maxReputations {
		r.forgetOne()
	}
	r.of[key] = reputation{min(maxScore, max(-heldWeight, one.score+n)), now}
}

// forgetOne removes the oldest of 16 reputations, chosen at random.
func (r *reputations) forgetOne() {
	oldest, tried := "", 0
	for key, one := range r.of { // in random order
		if oldest == "" || one.at.Before(r.of[oldest].at) {
			oldest = key
		}
		if tried++; tried == 16 {
			break
		}
	}
	delete(r.of, oldest)
}

// note records how long a server took for a message, from the beginning to its answer, or until the
// wait was given up. trusted is true if it is unlikely that the recipient was chosen in order to
// slow the message down.
func (r *reputations) note(took time.Duration, fail *delivery.Error, trusted bool, now time.Time, keys ...string) {
	gaveWay := fail != nil && errors.Is(fail.Err, delivery.ErrGaveWay)
	early := fail != nil && slices.Contains(withoutRecipient, fail.Stage)
	r.noteLate(took, gaveWay, isAnswer(fail) && !early, now)
	if early {
		return
	}
	limit := max(heldAfter, heldTimes*r.usual)
	for _, key := range keys {
		switch {
		case gaveWay || took >= limit && !fail.AffectsOthers():
			r.add(key, -heldWeight, now)
		case isAnswer(fail) && took <= limit/2:
			r.add(key, 1, now)
		}
	}
	switch {
	case gaveWay || !isAnswer(fail):
	case took > r.usual && trusted:
		r.usual = min(took, r.usual*3/2)
	case took > r.usual:
		r.usual = max(r.usual, min(took, r.usual*3/2, maxUsual))
	default:
		r.usual = max(took, r.usual/2, time.Millisecond)
	}
}

// withoutRecipient has the stages at which the server hasn't received the recipient yet.
var withoutRecipient = []string{
	delivery.StagePrepare, delivery.StageAllSetAside, delivery.StageDial, delivery.StageTLS, delivery.StageHello, delivery.StageAuth,
	delivery.StageMail,
}

// isAnswer reports whether the server answered about the message itself.
func isAnswer(fail *delivery.Error) bool {
	return fail == nil || fail.Status != 0 && !fail.AffectsOthers()
}

// networkKey is the key of a network in reputations. It is "" for clients without a known network,
// because they may be many people of a back end, and not one network.
func networkKey(network string) string {
	if network == "" {
		return ""
	}
	return "network " + network
}

func (l *lane) standingOf(f *flight, now time.Time) standing {
	switch {
	case !l.Strangers || l.reputations.slowForAll(now):
		return fresh
	case wasSilent(f.work) || l.reputations.isHeld(f.domain, now) || l.reputations.isHeld(f.network, now):
		return held
	case l.reputations.isProven(f.domain, now):
		return proven
	}
	return fresh
}

const (
	// maxPatience is the longest time that a message may keep its worker while another message
	// waits for one. Within maxPatience, each waiting network shall get a worker.
	maxPatience = 5 * time.Second
	// leastPatience and leastDotPatience are the shortest times that a message may keep its worker,
	// before and after the final dot. After the dot, the end of the wait makes the outcome unknown,
	// so leastDotPatience is longer.
	leastPatience    = 20 * time.Millisecond
	leastDotPatience = 250 * time.Millisecond
	// A message may always take usualTimes times the usual time, but at most maxPatience.
	usualTimes = 3
	// maxUsual is the usual time at which usualTimes allows a message the whole maxPatience.
	maxUsual = maxPatience / usualTimes
	// oldDot is how long after beginWait a message whose final dot was sent keeps its connection if
	// all waiting messages may be held.
	oldDot          = time.Minute
	preferNewestFor = time.Minute // see prefersNewest
	// judgedSlowAfter is how long the server must be slow before slowForAll is true, and how long
	// slowForAll stays true after the last slow message.
	judgedSlowAfter = time.Minute
)

// slowPause is the time between two messages that give way while slowForAll is true. About one
// message a minute of each worker gives way. So other messages can show that the server answers in
// time again, and the server still finishes most messages that it has begun.
func (l *lane) slowPause() time.Duration { return time.Minute / time.Duration(max(1, l.maxWorkers)) }

// patience returns how long a message may keep its worker while others wait for one. Each network
// that waits shall have a worker within maxPatience. The time that is left until the longest wait
// reaches maxPatience is divided among these networks.
func (l *lane) patience(w demand, f *flight, handedOver bool) time.Duration {
	n, d := w.networks, maxPatience
	if n > 0 {
		d = min(d, (maxPatience-w.longest)*time.Duration(max(1, l.maxWorkers))/time.Duration(n))
	}
	least := leastPatience
	if handedOver {
		least = leastDotPatience
	}
	if n > 0 && f.standing == held {
		d = 0
	}
	return min(maxPatience, max(d, usualTimes*l.reputations.usual, least))
}

// beginWait is called before the message of a flight is offered to a server. The context that it
// returns ends with ErrGaveWay if the message must give way. The caller must call end with the
// attempt's failure, or with nil if there is none.
func (o *Outbox) beginWait(ctx context.Context, f *flight) (waiting context.Context, end func(*delivery.Error)) {
	if !f.lane.Strangers { // such a message never gives way
		began := time.Now()
		return ctx, func(fail *delivery.Error) {
			o.update(f.lane, func(l *lane, now time.Time) {
				l.reputations.note(now.Sub(turnBegan(ctx, began)), fail, true, now, f.domain)
			})
		}
	}
	waiting, giveWay := context.WithCancelCause(ctx)
	o.update(f.lane, func(l *lane, now time.Time) {
		f.begun, f.attempt = now, waiting
		f.giveWay = func() { giveWay(delivery.ErrGaveWay) }
	})
	return waiting, func(fail *delivery.Error) {
		o.update(f.lane, func(l *lane, now time.Time) {
			l.reputations.note(f.took(now), fail, l.reputations.isProven(f.domain, now), now, f.domain, f.network)
			l.endWait(f)
		})
		giveWay(nil)
	}
}

// startWait notes that a flight has got a worker. The worker calls beginWait later.
func (l *lane) startWait(f *flight) {
	if l.Strangers {
		now := time.Now()
		f.begun, f.standing = now, l.standingOf(f, now)
		l.underWay = append(l.underWay, f)
	}
}

func (l *lane) endWait(f *flight) {
	l.underWay = slices.DeleteFunc(l.underWay, func(other *flight) bool { return other == f })
}

// heldMayBegin reports whether one more message with the standing held may begin. Such messages
// leave one worker to others, unless the lane has only one.
func (l *lane) heldMayBegin() bool { return l.heldWorkers() < max(1, l.maxWorkers-1) }

// heldWorkers returns the number of workers with a message of the standing held. Such a message
// soon gives way to one of another standing (see patience), so its worker does not make the lane
// full.
func (l *lane) heldWorkers() (n int) {
	for _, f := range l.underWay {
		if f.standing == held && !f.parked {
			n++
		}
	}
	return n
}

// maxParked returns how many messages of strangers may wait without a worker for the answer to the
// final dot, or to a request. If the connections are limited, fewer messages may do so, because
// each one keeps its connection meanwhile.
func (o *Outbox) maxParked(l *lane) int {
	if conns := o.limitsOf(l.Channel).ConnLimit(); conns > 0 {
		return delivery.ShareOfStrangers(conns, delivery.ReservedConns) / 2
	}
	return 4 * o.Workers
}

// makeWay makes messages of strangers give way if they keep a worker for too long while others wait
// for one. Before the final dot, the attempt ends, and is repeated later. After the dot, the
// message waits without a worker. If too many messages wait like that, the longest wait ends, and
// the outcome of its message is unknown. Call makeWay within update.
func (o *Outbox) makeWay(l *lane, now time.Time) {
	l.maxWorkers = o.maxWorkers(l)
	if len(l.underWay) == 0 || l.workers < l.maxWorkers {
		return
	}
	if soonest := l.soonest(now); soonest != 0 && l.maxWorkers > 0 {
		if soonest > 0 && l.recheck == nil {
			o.makeWayAfter(l, soonest)
		}
		return
	}
	waits := o.demandOf(l, now)
	needed, pause := l.workersNeeded(waits, now)
	if pause > 0 {
		o.makeWayAfter(l, pause)
		return
	}
	var next time.Duration
	for _, f := range slices.Clone(l.underWay) { // the flight that got its worker first comes first
		if needed <= 0 {
			break
		}
		freed, again := o.giveWayIfDue(l, f, waits, now)
		if freed {
			needed--
		}
		if again > 0 && (next == 0 || again < next) {
			next = again
		}
	}
	if needed > 0 && l.maxWorkers == 0 { // the parked messages keep all connections that strangers may use
		if oldest := l.underWay[0]; oldest.parked && !oldest.yields {
			l.yield(oldest, now)
		}
	}
	if next > 0 {
		o.makeWayAfter(l, next)
	}
}

// demandOf returns the demand for the lane's workers. Besides the lane's own messages, it counts
// the known people's messages that need the only connection, and the workers that must end.
func (o *Outbox) demandOf(l *lane, now time.Time) demand {
	waits := l.demand(now)
	if known := o.lanes[store.Queue{Channel: l.Channel}]; known.workers > 0 && o.limitsOf(l.Channel).ConnLimit() == 1 {
		waits.networks++ // known people's messages share the only connection
	}
	waits.networks += max(0, l.workers-l.maxWorkers) // the server accepts fewer messages than when these workers began
	return waits
}

// workersNeeded returns how many messages must give way. While slowForAll is true, only one message
// gives way at a time, and none before the returned pause has passed.
func (l *lane) workersNeeded(waits demand, now time.Time) (needed int, pause time.Duration) {
	needed = waits.networks - max(0, l.maxWorkers-l.workers)
	if waits.networks == 0 && waits.held {
		needed++
	}
	if needed > 0 && l.reputations.slowForAll(now) {
		return 1, max(0, l.slowPause()-now.Sub(l.gaveWay))
	}
	return needed, 0
}

// giveWayIfDue makes a message give way if it has kept its worker for too long. It reports whether
// that frees a worker. If the message may have to give way later, again is the time until then.
func (o *Outbox) giveWayIfDue(l *lane, f *flight, waits demand, now time.Time) (freed bool, again time.Duration) {
	if f.yields {
		return true, 0
	}
	if f.giveWay == nil || f.parked { // no server has it yet, or it has no worker
		return false, 0
	}
	handedOver := delivery.HandedOver(f.attempt)
	if waits.networks == 0 && !handedOver {
		return false, 0
	}
	if left := l.patience(waits, f, handedOver) - f.took(now); left > 0 {
		return false, left
	}
	switch {
	case !f.hasTurn(): // the message keeps nothing that another message could use
		return false, l.leastWait()
	case !handedOver:
		l.yield(f, now)
		return true, 0
	case l.parked < o.maxParked(l):
		return o.park(l, f, now), 0
	default:
		return l.endOldestDot(f, waits, now)
	}
}

// park lets a message wait for the answer to its final dot without a worker. It reports whether
// another message may have the worker.
func (o *Outbox) park(l *lane, f *flight, now time.Time) (freed bool) {
	f.parked, l.gaveWay = true, now
	l.parked++
	l.workers--
	l.maxWorkers = o.maxWorkers(l)
	freed = l.workers < l.maxWorkers
	o.addWorker(l)
	return freed
}

// endOldestDot ends the longest wait for the answer to a final dot: that of a parked message, or
// of f. If only messages that may be held wait for a worker, it ends no wait shorter than oldDot.
// It returns what giveWayIfDue does.
func (l *lane) endOldestDot(f *flight, waits demand, now time.Time) (freed bool, again time.Duration) {
	oldest := l.underWay[slices.IndexFunc(l.underWay, func(other *flight) bool { return other.parked || other == f })]
	if oldest.yields {
		return true, 0
	}
	if left := oldDot - now.Sub(oldest.begun); waits.networks == 0 && left > 0 {
		return false, left
	}
	l.yield(oldest, now)
	return true, 0
}

// soonest returns the shortest time until a message may have to give way, or -1 if no message can
// give way. Calling soonest takes less time than counting the waiting messages.
func (l *lane) soonest(now time.Time) time.Duration {
	soonest, least := time.Duration(-1), l.leastWait()
	for _, f := range l.underWay {
		if left := max(0, least-f.took(now)); f.giveWay != nil && !f.parked && !f.yields && (soonest < 0 || left < soonest) {
			soonest = left
		}
	}
	return soonest
}

// makeWayAfter calls makeWay again after the duration d. It cancels the earlier call that was due.
func (o *Outbox) makeWayAfter(l *lane, d time.Duration) {
	if l.recheck != nil {
		l.recheck.Stop()
	}
	l.recheck = time.AfterFunc(d, func() { o.update(l, func(l *lane, _ time.Time) { l.recheck = nil }) })
}

// leastWait returns the shortest patience of any message in the lane.
func (l *lane) leastWait() time.Duration {
	return min(maxPatience, max(usualTimes*l.reputations.usual, leastPatience))
}

func (l *lane) yield(f *flight, now time.Time) {
	f.yields, l.gaveWay = true, now
	f.giveWay()
}

// took returns how long a server has had the message. Before beginWait, it is how long the message
// has had a worker. While the message waits for a connection, it is the time since beginWait.
func (f *flight) took(now time.Time) time.Duration {
	if f.attempt == nil {
		return now.Sub(f.begun)
	}
	return now.Sub(turnBegan(f.attempt, f.begun))
}

// turnBegan returns when a message got a connection. from is when the message was offered. It is
// the result if the message still waits for a connection or needs none.
func turnBegan(attempt context.Context, from time.Time) time.Time {
	if at, began := delivery.TurnBegan(attempt); began && at.After(from) {
		return at
	}
	return from
}

// hasTurn reports whether the message has a connection, or needs none.
func (f *flight) hasTurn() bool {
	_, began := delivery.TurnBegan(f.attempt)
	return began
}

// demand describes the messages of a lane that wait for a worker.
type demand struct {
	networks int           // networks with a message that waits only for a worker
	longest  time.Duration // the longest wait of one of these networks for its turn, at most maxPatience
	held     bool          // a message that may be held waits
}

func (l *lane) demand(now time.Time) (d demand) {
	for _, q := range l.queues {
		for _, network := range q.turns {
			turn := q.byNetwork[network]
			if !slices.ContainsFunc(turn.flights, func(f *flight) bool { return l.standingOf(f, now) != held }) {
				d.held = true
				continue
			}
			d.networks++
			d.longest = min(maxPatience, max(d.longest, now.Sub(turn.since)))
		}
	}
	return d
}
