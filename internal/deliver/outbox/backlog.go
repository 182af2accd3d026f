package outbox

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

const (
	judgedAfter      = time.Second // a shorter wait says nothing of the throughput
	throughputWindow = time.Minute
	manyDeferred     = 20
)

// throughput counts the messages that went out within the last throughputWindow, second by second,
// the oldest first.
type throughput []second

type second struct {
	first time.Time
	count int
}

// add counts a message that goes out. since is the instant from which messages have waited;
// messages before it are counted separately.
func (t *throughput) add(now, since time.Time) {
	*t = slices.DeleteFunc(*t, func(s second) bool { return now.Sub(s.first) > throughputWindow+time.Second })
	if n := len(*t) - 1; n >= 0 && now.Sub((*t)[n].first) < time.Second && (*t)[n].first.After(since) {
		(*t)[n].count++
		return
	}
	*t = append(*t, second{now, 1})
}

// since returns how many messages went out after an instant.
func (t throughput) since(from time.Time) (n int) {
	for _, s := range t {
		if s.first.After(from) {
			n += s.count
		}
	}
	return n
}

// backlog is why a new message of a lane may wait: earlier messages are in front of it, or the
// server takes no more.
type backlog struct {
	waits     map[string]int // by app: messages that are queued, or deferred because the server takes no more
	waiting   int            // of all apps
	inStore   float64        // messages in the database that no replica holds, and that this process will take over
	since     time.Time      // since when messages have waited without a pause
	suspended time.Time      // since when all servers have been suspended; zero: a server is in use
	refused   time.Time      // when the server last said that it takes no more at present
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

// full reports whether a new message would wait in a lane with at most most workers. Deferred
// messages count only while the server takes no more, or if there are many.
func (l *lane) full(now time.Time, most int) bool {
	deferred := l.waiting - l.queued
	takesNoMore := !l.suspended.IsZero() || now.Sub(l.refused) < judgedAfter || now.Sub(l.paced) < throughputWindow ||
		deferred >= manyDeferred
	return l.queued > 0 || l.workers-l.patient >= most || l.inStore > 0 || deferred > 0 && takesNoMore
}

// change is called before anything that full reads changes.
func (l *lane) change(now time.Time, most int) {
	if !l.full(now, most) {
		l.since = now
	}
}

// expectedWait is ExpectedWait for a lane. most is the largest number of the lane's workers, share
// the number of an app's flights that memory keeps.
func (l *lane) expectedWait(app, network string, now time.Time, most, share int) (wait time.Duration, stalled bool) {
	if !l.full(now, most) || now.Sub(l.since) < judgedAfter && l.suspended.IsZero() {
		return 0, false
	}
	from := now.Add(-throughputWindow)
	if l.since.After(from) && now.Sub(l.paced) >= throughputWindow { // with per_minute a minute's mails begin together
		from = l.since
	}
	gone := l.sent.since(from)
	if gone == 0 {
		from = l.since
	}
	switch {
	case gone == 0 && !l.suspended.IsZero():
		return now.Sub(l.suspended), true
	case gone == 0 && l.workers == 0:
		return now.Sub(l.since), true
	}
	own := l.waits[app]
	if q := l.queues[app]; q != nil {
		own -= q.later(l.turnOf(network))
	}
	before := float64(l.workers - l.patient)
	for other, n := range l.waits {
		if other == app {
			n = own
		}
		before += float64(min(n, own+1))
	}
	if l.behind[app] && l.held[app] >= share {
		before += l.inStore
	}
	gone = max(gone, l.workers) // until the first attempts have ended, this is an upper bound of the throughput
	return time.Duration(before / float64(gone) * float64(now.Sub(from))), false
}

// ExpectedWait returns how long a new message of an app would wait until it goes out. That is the
// number of messages before it in its lane, divided by the throughput of the last minute in which
// messages waited. Apps take turns, and so do the networks of an app's strangers. So of each other
// app or network, as many messages go first as of its own. ExpectedWait is 0 while a new message is
// tried immediately, and in the first second of a backlog. stalled: nothing has gone out since
// messages began to wait or all servers were suspended; wait is then the time since that.
func (o *Outbox) ExpectedWait(q store.Queue, app, network string) (wait time.Duration, stalled bool) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	l := o.lanes[q]
	return l.expectedWait(app, network, time.Now(), o.maxWorkers(l), o.capacity(l)/appShare)
}

// LongestWait returns the longest ExpectedWait of a channel.
func (o *Outbox) LongestWait(ch recipient.Channel) (longest time.Duration) {
	for _, q := range store.Queues() {
		if q.Channel != ch {
			continue
		}
		for _, app := range append(o.appsThatWait(q), "") {
			wait, _ := o.ExpectedWait(q, app, "")
			longest = max(longest, wait)
		}
	}
	return longest
}

func (o *Outbox) appsThatWait(q store.Queue) (all []string) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	for app := range o.lanes[q].waits {
		all = append(all, app)
	}
	return all
}

// noteAttempt records that an attempt has ended. Each answer about a message counts for the
// throughput, since the next message may then begin.
func (o *Outbox) noteAttempt(l *lane, fail *delivery.Error) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	now := time.Now()
	if !serverTakesNoMore(fail) {
		l.sent.add(now, l.since)
	} else if fail.Err == delivery.ErrPace {
		l.change(now, o.maxWorkers(l))
		l.paced = now
	}
}

// serverTakesNoMore reports whether a failure says that the server or carrier takes no message at
// present. Other failures concern one message, which waits for its next attempt, not for the
// server. For example, a recipient's domain that defers mails slows no other mails.
func serverTakesNoMore(fail *delivery.Error) bool {
	return fail != nil && fail.Class == delivery.Temporary && fail.BefallsAll()
}

// notePostponed counts a message as waiting until its next attempt, if the server said that it
// takes no more. If the server did not answer, the message counts only while the lane's whole
// channel is suspended. Otherwise a carrier of some numbers, or one recipient with slow checks,
// would cause refusals for other messages.
func (o *Outbox) notePostponed(f *flight, fail *delivery.Error, after time.Duration) {
	if !serverTakesNoMore(fail) {
		return
	}
	answered := fail.Status != 0 || fail.About == delivery.AboutPace
	if !answered && !o.suspended(f.lane) {
		return
	}
	l, app := f.lane, f.work.Send.App
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	now := time.Now()
	l.change(now, o.maxWorkers(l))
	l.refused = now
	l.count(app, 1)
	time.AfterFunc(after+o.Tick, func() { // a replica takes the message over within a tick
		o.lanesMu.Lock()
		defer o.lanesMu.Unlock()
		l.change(time.Now(), o.maxWorkers(l))
		l.count(app, -1)
	})
}

// suspended reports whether all servers or carriers of a lane's channel are suspended. The caller
// does not hold the lock.
func (o *Outbox) suspended(l *lane) bool { return o.attemptsAllowed(l) < delivery.UnlimitedAttempts }

// readBacklog reads how many messages wait in the database, while this process may not know of all
// of them: while memory is full, or all servers of a channel are suspended. Of the messages that no
// replica holds, it expects to take over the same part as it has of the held messages.
func (o *Outbox) readBacklog(ctx context.Context) {
	unknown := false
	for _, l := range o.lanes {
		suspended := o.suspended(l)
		o.lanesMu.Lock()
		l.change(time.Now(), o.maxWorkers(l))
		if !suspended {
			l.suspended = time.Time{}
		} else if l.suspended.IsZero() {
			l.suspended = time.Now()
		}
		unknown = unknown || suspended || len(l.behind) > 0 || l.inStore > 0
		o.lanesMu.Unlock()
	}
	if !unknown {
		return
	}
	waiting, err := o.Store.OutboxCounts(ctx)
	if err != nil {
		o.noteAway(ctx, err)
		return
	}
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	for q, l := range o.lanes {
		c := waiting[q]
		l.change(time.Now(), o.maxWorkers(l))
		l.inStore = float64(c.Due)
		if l.flights < c.Held {
			l.inStore *= float64(l.flights) / float64(c.Held)
		}
	}
}
