package outbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

const (
	judgedAfter      = time.Second // a shorter wait says nothing about the throughput
	throughputWindow = time.Minute
	manyDeferred     = 20
	fewEnds          = 2                // a single attempt that has ended says nothing about the throughput
	shortPause       = 10 * time.Second // a backlog that begins within this time after the last one continues it
)

// throughput has the number of messages that went out in each second of the last throughputWindow.
// The oldest second is first.
type throughput []second

type second struct {
	first time.Time
	count int
}

// add counts a message that goes out. The parameter since is the beginning of the present backlog,
// or zero. Messages after that instant get elements of their own, so that they can be counted
// separately.
func (t *throughput) add(now, since time.Time) {
	*t = slices.DeleteFunc(*t, func(s second) bool { return now.Sub(s.first) > throughputWindow+time.Second })
	if n := len(*t) - 1; n >= 0 && now.Sub((*t)[n].first) < time.Second && (*t)[n].first.After(since) {
		(*t)[n].count++
		return
	}
	*t = append(*t, second{now, 1})
}

// since returns how many messages went out after an instant, and when the first of them did.
func (t throughput) since(from time.Time) (n int, first time.Time) {
	for _, s := range slices.Backward(t) {
		if s.first.After(from) {
			n, first = n+s.count, s.first
		}
	}
	return n, first
}

// pastBacklog has the throughput of a backlog that has ended.
type pastBacklog struct {
	sentCount float64       // messages that went out
	took      time.Duration // how long the lane was full
	ended     time.Time
}

// backlog has what a lane needs to compute how long a new message waits: the waiting messages, the
// times when servers accepted none, and the messages that went out.
type backlog struct {
	waits     map[string]int // by app: messages that are queued, or deferred because the server accepts none now
	waiting   int            // how many messages of all apps wait
	inStore   float64        // messages in the database that no replica holds, and that this process will take over
	wasFull   bool           // whether the lane was full at the last change
	since     time.Time      // the last change at which the lane was not full
	fullUntil time.Time      // the last change at which the lane was full
	last      pastBacklog    // the backlog that ended last
	suspended time.Time      // since when all servers have been suspended; zero: a server is in use
	refused   time.Time      // when the server last said that it accepts no more at present
	paced     time.Time      // when a mail last had to wait for its turn by per_minute (delivery.ErrPace)
	sent      throughput     // messages that went out
}

// count counts n more messages that wait.
func (b *backlog) count(app string, n int) {
	b.waiting += n
	if b.waits[app] += n; b.waits[app] == 0 {
		delete(b.waits, app)
	}
}

// full reports whether a new message would wait in the lane. Deferred messages wait for their next
// attempt. They count only if the server accepts no messages at present, or if there are at least
// manyDeferred of them.
func (l *lane) full(now time.Time, maxWorkers int) bool {
	deferred := l.waiting - l.queued
	takesNoMore := !l.suspended.IsZero() || now.Sub(l.refused) < judgedAfter || now.Sub(l.paced) < throughputWindow ||
		deferred >= manyDeferred
	return l.ready() || l.workers-l.heldWorkers() >= maxWorkers || l.inStore > 0 || deferred > 0 && takesNoMore
}

// update calls f under the lock of the lanes. Only update takes this lock, so nothing can change a
// lane without it. Before f changes anything, update notes whether the lane has been full until
// now. Afterwards, messages of strangers may have to give way to messages that wait (makeWay).
func (o *Outbox) update(l *lane, f func(l *lane, now time.Time)) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	now := time.Now()
	l.maxWorkers = o.maxWorkers(l)
	l.noteFull(now, l.maxWorkers)
	f(l, now)
	o.makeWay(o.lanes[store.Queue{Channel: l.Channel, Strangers: true}], now)
}

// noteFull notes whether the lane has been full until now. At the end of a backlog, it keeps the
// backlog's throughput. If only a few messages went out in a backlog, their throughput says little:
// a backlog may last a microsecond, until a worker begins. So if the previous backlog ended shortly
// before this one began, noteFull adds a part of the messages and of the duration of the previous
// one. The fewer messages went out in this backlog, the larger that part is. The sum lasts at most
// throughputWindow.
func (l *lane) noteFull(now time.Time, maxWorkers int) {
	if l.full(now, maxWorkers) {
		l.wasFull, l.fullUntil = true, now
		return
	}
	if l.wasFull {
		from := l.measuredFrom(l.fullUntil)
		sentCount, _ := l.sent.since(from)
		past := pastBacklog{float64(sentCount), l.fullUntil.Sub(from), l.fullUntil}
		if l.continuesLastBacklog() {
			keep := max(0, min(1-float64(sentCount)/float64(maxWorkers), float64(throughputWindow-past.took)/float64(l.last.took+1)))
			past.sentCount, past.took = past.sentCount+keep*l.last.sentCount, past.took+time.Duration(keep*float64(l.last.took))
		}
		l.last = past
	}
	l.wasFull, l.since = false, now
}

// measuredFrom returns the beginning of the time over which the throughput is measured at an
// instant: the beginning of the backlog, but at most throughputWindow before the instant.
func (l *lane) measuredFrom(at time.Time) time.Time {
	if from := at.Add(-throughputWindow); from.After(l.since) {
		return from
	}
	return l.since
}

// continuesLastBacklog reports whether the present backlog began shortly after another one in which
// messages went out. Until enough messages have gone out in the present backlog, the throughput of
// the earlier one is the best estimate.
func (l *lane) continuesLastBacklog() bool {
	return l.last.sentCount > 0 && l.since.Sub(l.last.ended) < shortPause
}

// expectedWait computes ExpectedWait for a lane. Call it within update. The parameter share is the
// number of messages that each app may hold in this process even when the memory for messages is
// full.
func (l *lane) expectedWait(app, network string, ends, now time.Time, share int) (wait time.Duration, stalled bool) {
	continues := l.continuesLastBacklog()
	switch {
	case !l.wasFull && (!continues || now.Sub(l.fullUntil) >= judgedAfter): // a worker that has just become free is soon busy again
		return 0, false
	case !continues && now.Sub(l.since) < judgedAfter && l.suspended.IsZero():
		return 0, false
	}
	from := l.measuredFrom(now)
	if now.Sub(l.paced) < throughputWindow { // with per_minute a minute's mails begin together
		from = now.Add(-throughputWindow)
	}
	sent, first := l.sent.since(from)
	if sent == 0 {
		from = l.since
	}
	switch {
	case sent == 0 && !l.suspended.IsZero():
		return now.Sub(l.suspended), true
	case sent == 0 && l.workers == 0 && !continues:
		return now.Sub(l.since), true
	}
	own := l.waits[app]
	if q := l.queues[app]; q != nil {
		own -= l.later(q, network, ends, now)
	}
	before := float64(l.workers - l.heldWorkers())
	for other, n := range l.waits {
		if other == app {
			n = own
		}
		before += float64(min(n, own+1))
	}
	if l.behind[app] && l.flightsByApp[app] >= share {
		before += l.inStore
	}
	sentCount, took := float64(sent), now.Sub(from)
	switch few := from.Equal(l.since) && sent < max(fewEnds, l.workers); {
	case few && continues:
		sentCount, took = sentCount+l.last.sentCount, took+l.last.took
	case few && (sent < fewEnds || now.Sub(first) < first.Sub(from)):
		sentCount = float64(max(sent, l.workers)) // the other workers' first attempts may also end soon
	}
	wait = time.Duration(before / sentCount * float64(took))
	if l.Strangers && l.reputations.slowForAll(now) && now.Sub(l.newcomer) >= 2*l.slowPause() {
		return min(wait, 2*l.slowPause()), false // the newest message is tried soon
	}
	if l.Strangers && l.waiting == l.queued && l.suspended.IsZero() && now.Sub(l.paced) >= throughputWindow &&
		!l.reputations.slowForAll(now) {
		waits := l.demand(now)
		waits.longest = 0
		wait = min(wait, time.Duration(before)*l.patience(waits, &flight{standing: fresh}, true)/time.Duration(max(1, l.maxWorkers)))
	}
	return wait, false
}

// ExpectedWait returns how long a new message of an app would wait until it goes out. The wait is
// the number of messages that go out before the new message, divided by the throughput. The
// throughput is measured over the last minute, or since messages began to wait if that is shorter.
// The parameter life is how long the new message's code can be entered. Waiting messages of the
// same app and network with codes that live longer go out later.
//
// Apps take turns, and so do the networks of an app's strangers. So each other app or network is
// counted with at most as many messages as the new message's own app or network has, including the
// new message.
//
// A message of a stranger waits at most as long as the messages before it may keep their workers
// (makeWay). While prefersNewest is true, it may wait twice as long. That is early enough, because
// strangers' sends are refused long before the wait is as long as their codes live.
//
// ExpectedWait returns 0 in the first second of a backlog, unless the backlog continues an earlier
// one or all servers are suspended. It also returns 0 if, during the whole last second, a new
// message would have been tried at once. In these two cases, only waitOfHeld can make the wait
// longer.
//
// The result stalled is true if no message has gone out in the measured time, and either all
// servers are suspended, or no worker runs and the backlog does not continue an earlier one. The
// result wait is then the time since the servers were suspended. If they are not suspended, it is
// the time since messages began to wait.
func (o *Outbox) ExpectedWait(q store.Queue, app, network string, life time.Duration) (wait time.Duration, stalled bool) {
	o.update(o.lanes[q], func(l *lane, now time.Time) {
		wait, stalled = l.expectedWait(app, network, o.Now().Add(life), now, o.capacity(l)/appShare)
		wait = max(wait, l.waitOfHeld(app, network, now))
	})
	return wait, stalled
}

// waitOfHeld returns how long a new message of a network waits because the network's last messages
// were held. It assumes that each message before the new one takes as long as the message that has
// been under way longest. It returns 0 if the network is not held, and while one more held message
// may begin.
func (l *lane) waitOfHeld(app, network string, now time.Time) time.Duration {
	if !l.Strangers || !l.reputations.isHeld(networkKey(network), now) || l.heldMayBegin() {
		return 0
	}
	rounds := 1
	if q := l.queues[app]; q != nil {
		rounds += len(q.byNetwork[network].flights) / max(1, l.maxWorkers-1)
	}
	return time.Duration(rounds) * now.Sub(l.underWay[0].begun)
}

// LongestWait returns the longest ExpectedWait of a channel.
func (o *Outbox) LongestWait(ch recipient.Channel) (longest time.Duration) {
	for _, q := range store.Queues() {
		if q.Channel != ch {
			continue
		}
		for _, app := range append(o.appsThatWait(q), "") {
			wait, _ := o.ExpectedWait(q, app, "", store.MaxCodeLife)
			longest = max(longest, wait)
		}
	}
	return longest
}

func (o *Outbox) appsThatWait(q store.Queue) (all []string) {
	o.update(o.lanes[q], func(l *lane, _ time.Time) { all = slices.Collect(maps.Keys(l.waits)) })
	return all
}

// noteAttempt records that an attempt has ended. Each answer about a single message counts for the
// throughput, even a failure, since the worker can then begin the next message. An answer that the
// server accepts no messages at present does not count.
func (o *Outbox) noteAttempt(l *lane, fail *delivery.Error) {
	o.update(l, func(l *lane, now time.Time) {
		if !serverTakesNoMore(fail) {
			begin := l.since
			if !l.wasFull {
				begin = time.Time{}
			}
			l.sent.add(now, begin)
		} else if fail.Err == delivery.ErrPace {
			l.paced = now
		}
	})
}

// serverTakesNoMore reports whether a failure says that the server or carrier accepts no message at
// present. Any other failure concerns one message. That message waits for its next attempt, and
// other messages do not wait. For example, a recipient's domain that defers mails delays no other
// mails.
func serverTakesNoMore(fail *delivery.Error) bool {
	return fail != nil && fail.Class == delivery.Temporary && fail.AffectsOthers()
}

// notePostponed counts a message as waiting until its next attempt, if the server said that it
// accepts no more messages. If the server did not answer, the message counts only if all servers of
// the channel are suspended. The reason is that counted messages make the service refuse new
// messages. One silent carrier that serves only some numbers must not cause refusals of other
// messages. A recipient for whom the server answers too late must not cause them either.
func (o *Outbox) notePostponed(f *flight, fail *delivery.Error, after time.Duration) {
	if !serverTakesNoMore(fail) {
		return
	}
	answered := fail.Status != 0 || fail.About == delivery.AboutPace
	if !answered && !o.suspended(f.lane) {
		return
	}
	app := f.work.Send.App
	o.update(f.lane, func(l *lane, now time.Time) {
		l.refused = now
		l.count(app, 1)
	})
	time.AfterFunc(after+o.Tick, func() { // a replica takes the message over within a tick
		o.update(f.lane, func(l *lane, _ time.Time) { l.count(app, -1) })
	})
}

// suspended reports whether all servers or carriers of a lane's channel are suspended. Don't call
// it within update.
func (o *Outbox) suspended(l *lane) bool { return o.attemptsAllowed(l) < delivery.UnlimitedAttempts }

// readBacklog reads from the database how many messages wait, if this process may not have counted
// all of them. That is the case when this process already holds as many messages as it may, or when
// all servers of a channel are suspended. Some of the waiting messages are held by no replica, and
// the replicas will share them. readBacklog expects that this process takes over the same share of
// them as it has of the messages that the replicas hold now.
func (o *Outbox) readBacklog(ctx context.Context) {
	unknown := false
	for _, l := range o.lanes {
		suspended := o.suspended(l)
		o.update(l, func(l *lane, now time.Time) {
			if !suspended {
				l.suspended = time.Time{}
			} else if l.suspended.IsZero() {
				l.suspended = now
			}
			unknown = unknown || suspended || len(l.behind) > 0 || l.inStore > 0
		})
	}
	if !unknown {
		return
	}
	waiting, err := o.Store.OutboxCounts(ctx)
	if err != nil {
		o.noteAway(ctx, err)
		return
	}
	for q, l := range o.lanes {
		c := waiting[q]
		o.update(l, func(l *lane, _ time.Time) {
			l.inStore = float64(c.Due)
			if l.flights < c.Held {
				l.inStore *= float64(l.flights) / float64(c.Held)
			}
		})
	}
}
