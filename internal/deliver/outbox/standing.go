package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

// standing is what the last messages of a stranger's network, and those to the recipient's domain
// or prefix, let expect of the next one. The server of a recipient decides how long a message keeps
// its worker and its connection. So a recipient that a stranger chose can hold a worker, at any
// stage. A message is held if the server takes much longer for it than it usually does.
type standing int

const (
	proven standing = iota // the server answered the last messages to the domain in its usual time
	fresh                  // nothing is known
	held                   // one of the last messages of the network, or to the domain, was held
	standings
)

// reputation counts the messages of a network, or to a domain. A held one weighs as much as
// heldWeight that were answered in time, since others wait as long for it.
type reputation struct {
	score int       // from -heldWeight to maxScore
	at    time.Time // of the last message
}

const (
	heldWeight     = 4
	maxScore       = 2 * heldWeight
	reputationLife = 10 * time.Minute
	maxReputations = 10_000

	// A message is held if it takes heldTimes the usual time, and at least heldAfter. One that
	// takes at most half of that counts as answered in time.
	heldTimes  = 4
	heldAfter  = time.Second
	firstUsual = 150 * time.Millisecond // until there are answers
)

// reputations has those of one channel. What knows nothing of the sender is worth nothing here: the
// number of networks and domains is the attacker's choice, so none of them is counted.
type reputations struct {
	of map[string]reputation
	// usual is the time in which the server answers most messages. It follows the shorter third of
	// the answers. Only known people's messages and those to proven domains raise it: others may be
	// slow on purpose.
	usual time.Duration
}

func newReputations() *reputations {
	return &reputations{of: map[string]reputation{}, usual: firstUsual}
}

func (r *reputations) isHeld(key string, now time.Time) bool {
	one := r.of[key]
	return one.score < 0 && now.Sub(one.at) < reputationLife
}

func (r *reputations) isProven(key string, now time.Time) bool {
	one := r.of[key]
	return one.score > 0 && now.Sub(one.at) < reputationLife
}

// add adds to a score. Without a key it does nothing.
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

// forgetOne removes the oldest of a few.
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

// note notes how long a server took for a message, from the begin to its answer, or until the wait
// was given up. If trusted is true, the server decides how long the message takes, and nobody who
// may have chosen the recipient for it.
func (r *reputations) note(took time.Duration, fail *delivery.Error, trusted bool, now time.Time, keys ...string) {
	gaveWay := fail != nil && errors.Is(fail.Err, delivery.ErrGaveWay)
	if fail != nil && slices.Contains(withoutRecipient, fail.Stage) {
		return
	}
	limit := max(heldAfter, heldTimes*r.usual)
	for _, key := range keys {
		switch {
		case gaveWay || took >= limit && !fail.BefallsAll():
			r.add(key, -heldWeight, now)
		case isAnswer(fail) && took <= limit/2:
			r.add(key, 1, now)
		}
	}
	switch {
	case gaveWay || !isAnswer(fail):
	case took > r.usual && !trusted:
	case took > r.usual:
		r.usual = min(took, r.usual*3/2)
	default:
		r.usual = max(took, r.usual/2, time.Millisecond)
	}
}

// withoutRecipient are the stages at which the server doesn't know the recipient yet.
var withoutRecipient = []string{
	delivery.StagePrepare, delivery.StageAllSetAside, delivery.StageDial, delivery.StageTLS, delivery.StageHello, delivery.StageAuth,
	delivery.StageMail,
}

// isAnswer reports whether the server answered about the message itself.
func isAnswer(fail *delivery.Error) bool {
	return fail == nil || fail.Status != 0 && !fail.BefallsAll()
}

// networkKey is the key of a network in reputations. Clients without a known network have none:
// they are all people of a back end, and not one network.
func networkKey(network string) string {
	if network == "" {
		return ""
	}
	return "network " + network
}

// standingOf returns the standing of a flight now.
func (l *lane) standingOf(f *flight, now time.Time) standing {
	switch {
	case !l.Strangers:
		return fresh
	case wasSilent(f.work) || l.reputations.isHeld(f.domain, now) || l.reputations.isHeld(networkKey(f.work.Send.Network), now):
		return held
	case l.reputations.isProven(f.domain, now):
		return proven
	}
	return fresh
}

const (
	// maxPatience bounds how long a held message keeps its worker if another one waits for it, and
	// is the time within which each network that waits shall have a worker.
	maxPatience = 5 * time.Second
	// leastPatience and leastDotPatience are the shortest such times. After the final dot, the end
	// of the wait makes the outcome unknown, so it is the longer one.
	leastPatience    = 20 * time.Millisecond
	leastDotPatience = 250 * time.Millisecond
	// usualTimes is how many times the usual time each message may take at least.
	usualTimes = 3
	// oldDot is how long a message keeps its connection after the final dot if only messages wait
	// that may be held, too.
	oldDot = time.Minute
)

// patience returns how long a message may keep its worker while n networks wait for one.
func (l *lane) patience(n int, f *flight, handedOver bool) time.Duration {
	d := maxPatience
	if n > 0 {
		d = min(d, maxPatience*time.Duration(max(1, l.most))/time.Duration(n))
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
// returns ends with ErrGaveWay if the message must give way. The caller calls end with the outcome.
func (o *Outbox) beginWait(ctx context.Context, f *flight) (waiting context.Context, end func(*delivery.Error)) {
	waiting, giveWay := context.WithCancelCause(ctx)
	o.update(f.lane, func(l *lane, now time.Time) {
		f.begun = now
		f.giveWay = func() { giveWay(delivery.ErrGaveWay) }
		f.handedOver = func() bool { return delivery.HandedOver(waiting) }
	})
	return waiting, func(fail *delivery.Error) {
		o.update(f.lane, func(l *lane, now time.Time) {
			keys := []string{f.domain}
			if l.Strangers {
				keys = append(keys, networkKey(f.work.Send.Network))
			}
			trusted := !l.Strangers || l.reputations.isProven(f.domain, now)
			l.reputations.note(now.Sub(f.begun), fail, trusted, now, keys...)
			l.endWait(f)
		})
		giveWay(nil)
	}
}

// startWait notes that a flight has got a worker. beginWait follows.
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

// heldMayBegin reports whether one more message that may be held may begin. They leave one worker
// to others.
func (l *lane) heldMayBegin() bool { return l.heldWorkers() < max(1, l.most-1) }

// heldWorkers returns how many workers have a message that may be held. Such a message gives way to
// any other at once, so nothing waits for its worker.
func (l *lane) heldWorkers() (n int) {
	for _, f := range l.underWay {
		if f.standing == held && !f.parked {
			n++
		}
	}
	return n
}

// maxParked returns how many messages of strangers may wait without a worker for the answer to the
// final dot, or to a request. A mail keeps its connection meanwhile, so there are fewer of them.
func (o *Outbox) maxParked(l *lane) int {
	if conns := o.limitsOf(l.Channel).ConnLimit(); conns > 0 {
		return ofStrangers(conns, reservedConns) / 2
	}
	return 4 * o.Workers
}

// makeWay makes messages of strangers give way that keep a worker for too long while others wait
// for one. Before the final dot, the attempt ends, and is repeated later. After it, the message
// waits on without a worker. If too many do, the wait of the longest one ends, and its outcome is
// unknown. It is for use within update.
func (o *Outbox) makeWay(l *lane, now time.Time) {
	l.most = o.maxWorkers(l)
	if len(l.underWay) == 0 || l.workers < l.most {
		return
	}
	n, anyHeld := l.networksThatWait(now)
	if known := o.lanes[store.Queue{Channel: l.Channel}]; known.workers > 0 && o.limitsOf(l.Channel).ConnLimit() == 1 {
		n++ // it has no connection of its own
	}
	needed, next := max(n, min(1, anyHeld))-max(0, l.most-l.workers), time.Duration(0)
	later := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	for _, f := range slices.Clone(l.underWay) { // the longest first
		if needed <= 0 {
			break
		}
		if f.yields {
			needed--
			continue
		}
		if f.giveWay == nil { // no server has it yet
			continue
		}
		took, handedOver := now.Sub(f.begun), f.handedOver()
		switch left := l.patience(n, f, handedOver) - took; {
		case f.parked || n == 0 && !handedOver:
		case left > 0:
			later(left)
		case !handedOver:
			f.yield()
			needed--
		case l.parked < o.maxParked(l):
			f.parked = true
			l.parked++
			l.workers--
			l.most = o.maxWorkers(l)
			if l.workers < l.most {
				needed--
			}
			o.addWorker(l)
		default:
			oldest := l.underWay[slices.IndexFunc(l.underWay, func(other *flight) bool { return other.parked || other == f })]
			switch left := oldDot - now.Sub(oldest.begun); {
			case oldest.yields:
			case n == 0 && left > 0:
				later(left)
				continue
			default:
				oldest.yield()
			}
			needed--
		}
	}
	if l.recheck != nil {
		l.recheck.Stop()
		l.recheck = nil
	}
	if next > 0 {
		l.recheck = time.AfterFunc(next, func() { o.update(l, func(*lane, time.Time) {}) })
	}
}

func (f *flight) yield() {
	f.yields = true
	f.giveWay()
}

// networksThatWait returns how many networks have a message that waits only for a worker, and 1 in
// anyHeld if a message waits that may be held.
func (l *lane) networksThatWait(now time.Time) (n, anyHeld int) {
	for _, q := range l.queues {
		for _, network := range q.turns {
			if slices.ContainsFunc(q.byNetwork[network], func(f *flight) bool { return l.standingOf(f, now) != held }) {
				n++
			} else {
				anyHeld = 1
			}
		}
	}
	return n, anyHeld
}
