package outbox

import (
	"context"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

// pace measures how fast the messages of a lane go out, while messages wait. While none waits, they go out as fast as
// they are asked for, and that says nothing. Outbox.lanesMu guards it.
type pace struct {
	// messages that wait for the server, by app: in the lane's queues, or postponed because the server takes no more
	waits     map[string]int
	inStore   float64    // messages that no replica holds, as far as this process will take them over
	since     time.Time  // since when messages have waited, or slow attempts have been under way; zero: none waits
	slow      bool       // the last attempt took judgedAfter or longer, and most workers are busy
	suspended time.Time  // since when all servers have been suspended; zero: they are not
	outage    bool       // since is the begin of a suspension
	paced     time.Time  // when a mail last waited for its turn by per_minute (delivery.ErrPace)
	refused   time.Time  // when a message was last postponed because its server takes no more
	busy      time.Time  // when the first of the workers began: before that no pace could be seen
	ends      []interval // attempts that ended with an answer of a server, the oldest first
}

// interval has the attempts that ended within a second.
type interval struct {
	first, last time.Time
	count       int
}

const (
	judgedAfter = time.Second // what has waited or taken less says nothing of the pace
	minEnds     = 20          // the pace is that of the last attempts, so many where there are
	paceWindow  = time.Minute // with per_minute the pace is that of a minute: its mails begin together
)

// ExpectedWait returns how long a new message of an app would wait until it goes out: the messages that are before it in
// its lane, by the pace of the last attempts. Apps take turns, so of each other app as many are before it as of its own. It is
// 0 while few messages or none wait and attempts are quick, so one is always taken, and in the first second. stalled: nothing has gone out
// since messages began to wait or all servers were suspended, and wait is how long ago that was.
func (o *Outbox) ExpectedWait(q store.Queue, app string) (wait time.Duration, stalled bool) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	return o.expectedWait(o.lanes[q], app)
}

// LongestWait returns the longest ExpectedWait of a channel.
func (o *Outbox) LongestWait(ch recipient.Channel) (longest time.Duration) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	for _, l := range o.lanes {
		if l.Channel != ch {
			continue
		}
		wait, _ := o.expectedWait(l, "") // all that waits may be at the server
		longest = max(longest, wait)
		for app := range l.waits {
			wait, _ := o.expectedWait(l, app)
			longest = max(longest, wait)
		}
	}
	return longest
}

// expectedWait is ExpectedWait for a caller that holds the lock.
func (o *Outbox) expectedWait(l *lane, app string) (wait time.Duration, stalled bool) {
	now := time.Now()
	if l.since.IsZero() || now.Sub(l.since) < judgedAfter || o.idle(l, now) {
		return 0, false
	}
	count, took := l.measured(now)
	if count == 0 && l.suspended.IsZero() {
		count = l.workers // the first attempts have taken so long already: the pace is this or less
	}
	if count == 0 {
		return now.Sub(l.since), true
	}
	before := float64(l.workers)
	for _, n := range l.waits {
		before += float64(min(n, l.waits[app]+1))
	}
	if l.behind[app] && l.held[app] >= o.capacity(l)/roomShare {
		before += l.inStore
	}
	return time.Duration(before / float64(count) * float64(took)), false
}

// idle reports whether a new message would be tried at once, but for what the channel's other lane has under way, by a server that may
// take it: of those that wait for their next attempt, none was refused a moment ago.
func (o *Outbox) idle(l *lane, now time.Time) bool {
	waiting := 0
	for _, n := range l.waits {
		waiting += n
	}
	return l.queued == 0 && (o.hasRoom(l) || now.Sub(l.busy) < judgedAfter) && l.inStore == 0 && waiting < minEnds && l.suspended.IsZero() &&
		now.Sub(l.refused) >= judgedAfter && now.Sub(l.paced) >= paceWindow
}

// hasRoom reports whether at most half of the workers that a lane may have are busy: a new message is then tried at once.
func (o *Outbox) hasRoom(l *lane) bool { return 2*l.workers <= o.maxWorkers(l) }

// measured returns how many attempts ended last, and within what time up to now.
func (p *pace) measured(now time.Time) (count int, took time.Duration) {
	from, whole := p.since, now.Sub(p.paced) < paceWindow
	if p.busy.After(from) {
		from = p.busy
	}
	if whole {
		from = now.Add(-paceWindow)
	}
	for i := len(p.ends) - 1; i >= 0 && p.ends[i].last.After(from); i-- {
		if count >= minEnds && !whole {
			from = p.ends[i].last
			break
		}
		count += p.ends[i].count
	}
	return count, now.Sub(from)
}

// noteAttempt takes in the end of an attempt at a server that took a while. After a slow one, what is at the server waits
// too, though it left the queue: a server may take 20 mails at once, and a second for each.
func (o *Outbox) noteAttempt(l *lane, fail *delivery.Error, took time.Duration) {
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	now := time.Now()
	refused := serverTakesNoMore(fail)
	l.slow = took >= judgedAfter && !refused && !o.hasRoom(l)
	defer l.addWaiting("", 0)
	if fail != nil && fail.Err == delivery.ErrPace {
		l.paced = now
	}
	if refused {
		return
	}
	newest := len(l.ends) - 1
	if newest < 0 || now.Sub(l.ends[newest].first) >= time.Second || l.ends[newest].first.Before(l.since) {
		l.ends, newest = append(l.ends, interval{first: now}), newest+1
	}
	l.ends[newest].last = now
	l.ends[newest].count++
	for len(l.ends) > minEnds && now.Sub(l.ends[0].last) > paceWindow {
		l.ends = l.ends[1:]
	}
}

// serverTakesNoMore reports whether a failure says that the server or carrier takes no message now. Other failures are about one
// message, which then waits for its next attempt, not for the server: a recipient's domain that defers mails slows no others.
func serverTakesNoMore(fail *delivery.Error) bool {
	return fail != nil && fail.Class == delivery.Temporary && fail.BefallsAll()
}

// notePostponed counts a message as waiting until its next attempt, if the server said that it takes no more. A server that gave
// no answer did not say so: then messages wait for it only while it is suspended, and with it the whole channel. Else a
// carrier of some numbers, or one recipient whose checks take too long, would refuse the others.
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
	l.refused = time.Now()
	l.addWaiting(app, 1)
	time.AfterFunc(after+o.Tick, func() { // a replica takes it over within a tick
		o.lanesMu.Lock()
		defer o.lanesMu.Unlock()
		l.addWaiting(app, -1)
	})
}

// addWaiting counts n more messages that wait. The caller holds the lock.
func (p *pace) addWaiting(app string, n int) {
	p.waits[app] += n
	if p.waits[app] == 0 {
		delete(p.waits, app)
	}
	switch {
	case len(p.waits) == 0 && p.inStore == 0 && !p.slow:
		p.since, p.outage = time.Time{}, false
	case !p.suspended.IsZero() && !p.outage: // once, since a server that comes back for a few messages has a pace
		p.since, p.outage = p.suspended, true
	case p.since.IsZero():
		p.since = time.Now()
	}
}

// suspended reports whether all servers or carriers of a lane's channel are suspended. The caller does not hold the lock.
func (o *Outbox) suspended(l *lane) bool { return o.attemptsAllowed(l) < delivery.UnlimitedAttempts }

// readBacklog reads how many messages wait in the database, if any may that this process does not know of: while memory is full, or
// all servers of a channel are suspended. Of those that no replica holds it takes over as large a part as it has of those that are held.
func (o *Outbox) readBacklog(ctx context.Context) {
	unknown := false
	for _, l := range o.lanes {
		suspended := o.suspended(l)
		o.lanesMu.Lock()
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
		l.inStore = float64(c.Due)
		if l.flights < c.Held {
			l.inStore *= float64(l.flights) / float64(c.Held)
		}
		l.addWaiting("", 0)
	}
}
