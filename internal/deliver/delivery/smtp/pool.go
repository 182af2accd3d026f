package smtp

import (
	"context"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/delivery"
)

// pool keeps the connections to one server. Their maximum number is the field most. Connections
// that are sending QUIT count, too.
//
// At first, the pool may open `begin` connections. A backlog of waiting mails opens more. But
// beyond the number that has worked so far, the pool opens a connection only while fewer than two
// open connections are unproven. A connection is unproven until the server has accepted a mail over
// it. If the server says that there are too many connections or mails of this service, the pool
// keeps to the number of its other open connections. This limit lasts for growAfterRefusal; see
// heldLocked.
//
// If all connections are in use and fewer than `least` are open, a mail opens another connection
// immediately. If at least `least` are open, the mail first waits for growAfter, so that only a
// backlog opens further connections. Idle connections beyond `least` are closed after shrinkAfter.
type pool struct {
	least, begin, most, maxMails int
	perMinute                    int // mails that may begin within any minute; 0: any number

	mu      sync.Mutex
	idle    []*session // the longest idle first
	waiting []*waiter  // the longest first
	open    int        // sessions in use, being opened, or idle
	quits   int        // sessions that are saying QUIT, not counted in open
	closed  bool
	waits   int64       // mails that ever waited
	begun   []time.Time // when the last perMinute mails began, the longest ago first
	pace    *time.Timer // serves a waiting mail when the oldest of begun is a minute old

	worked     int           // connections that may be open at once without a trial
	unproven   int           // of open: connections that have served no mail yet
	refused    time.Time     // the last refusal for too many connections or mails; zero: none, or a mail was accepted after refusesAll
	refusesAll bool          // the server refused the only connection, and has accepted none since
	alive      time.Time     // when the server last took a mail or a connection; also set when the first connection is begun
	slowest    time.Duration // that the server took until a connection was open

	quitting sync.WaitGroup
}

// waiter is a mail that waits for a connection.
type waiter struct {
	served  chan *session // receives an idle session, or nil: the mail may open one
	overdue bool          // the mail has waited for growAfter
}

const (
	// If no connection is free, a mail waits for growAfter before one more connection is opened.
	growAfter = 2 * time.Millisecond
	// maxPaceWait is how long a mail may wait until perMinute allows it. During a longer wait, its
	// code might be used or expire.
	maxPaceWait = 5 * time.Second
	// shrinkAfter is how long a connection beyond pool.least is kept idle.
	shrinkAfter = 5 * time.Second
	// maxIdleTime is how long any connection is kept idle.
	maxIdleTime = 30 * time.Second
	// growAfterRefusal is how long the pool waits after a refusal. Then it tries one connection
	// more than the number that the server accepted.
	growAfterRefusal = 10 * time.Minute
	growAfterFault   = time.Minute // see heldLocked
	maxTrials        = 2
	// aliveFor is how long a server counts as working after it accepted a mail or a connection.
	aliveFor = 10 * time.Second
)

// limitLocked returns how many connections there may be now. The caller holds the lock.
func (p *pool) limitLocked() int {
	trials := p.trialsLocked()
	if p.unproven >= trials {
		return p.worked
	}
	return min(p.most, p.worked+trials)
}

// trialsLocked returns how many unproven connections there may be at once, beyond the number of
// connections that have worked. If the server has refused nothing, the result is two, so that a
// slow mail on one new connection does not prevent a second one. After a refusal the result is none
// while heldLocked returns true, and then one. The caller must hold the lock.
func (p *pool) trialsLocked() int {
	switch {
	case p.refused.IsZero():
		return maxTrials
	case p.heldLocked():
		return 0
	}
	return 1
}

// heldLocked reports whether the pool may not yet try more connections than have worked. It is true
// for growAfterRefusal after the server refused a connection or a mail because there were too many.
// If the refusals left only one connection of a pool that began with several, it is true only for
// growAfterFault. In that case a short fault may have caused the refusals, or the server may have
// counted connections of a process that has ended. The caller must hold the lock.
func (p *pool) heldLocked() bool {
	lasts := growAfterRefusal
	if p.worked == 1 && p.begin > 1 {
		lasts = growAfterFault
	}
	return !p.refused.IsZero() && time.Since(p.refused) < lasts
}

// acquire returns the idle session that was used last. If no session is idle, acquire waits for
// one, at most for the duration patience. Even with a patience of 0, it waits for growAfter if one
// more connection may be opened. The results are:
//
//   - If ok is true and s is not nil, s is the session.
//   - If ok is true and s is nil, the caller may open a session, which the pool counts already.
//   - If ok is false and fail is nil, no session became free in time.
//   - If fail is not nil, ctx ended, the pool is closed, or fail is ErrPace. ErrPace means that
//     perMinute does not allow the mail within patience, within maxPaceWait, or before the process
//     begins to stop.
//
// Whenever ok is true, the caller must call release.
func (p *pool) acquire(ctx context.Context, patience time.Duration) (s *session, ok bool, fail *delivery.Error) {
	if ctx.Err() != nil { // select picks among ready cases at random
		return nil, false, newError(ctx, delivery.StageDial, ctx.Err(), delivery.PrivateData{})
	}
	s, ok, t, fail := p.acquireOrQueue(patience)
	if t == nil {
		return s, ok, fail
	}
	grow := time.NewTimer(growAfter)
	defer grow.Stop()
	turn, stopping := time.NewTicker(maxPaceWait), delivery.Stopping(ctx)
	defer turn.Stop()
	var crowded <-chan time.Time
	for {
		late := false
		select {
		case s := <-t.served:
			return s, true, nil
		case <-grow.C:
			p.markOverdue(t)
			crowded = time.After(patience - growAfter)
		case <-crowded:
			if p.leaveQueue(t) {
				return nil, false, p.paceError()
			}
		case <-turn.C:
			late = true
		case <-stopping:
			late, stopping = true, nil
		case <-ctx.Done():
			if !p.leaveQueue(t) {
				p.release(<-t.served, true)
			}
			return nil, false, newError(ctx, delivery.StageDial, ctx.Err(), delivery.PrivateData{})
		}
		if late {
			if fail := p.paceError(); fail != nil && p.leaveQueue(t) {
				return nil, false, fail
			}
		}
	}
}

// acquireOrQueue calls takeOrReserveLocked and returns its s and ok. If ok is false, acquireOrQueue
// queues the mail and returns its waiter t. But if all connections are in use and patience is 0, it
// returns no session and no waiter. It returns an error if the pool is closed, or if perMinute does
// not allow the mail soon enough.
func (p *pool) acquireOrQueue(patience time.Duration) (s *session, ok bool, t *waiter, fail *delivery.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, nil, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errClosed}
	}
	s, ok = p.takeOrReserveLocked(false)
	if left := p.paceLeftLocked(); !ok && left > min(patience, maxPaceWait) {
		return nil, false, nil, newPaceError(left)
	}
	if !ok && (patience > 0 || p.open+p.quits < p.limitLocked()) {
		t = &waiter{served: make(chan *session, 1)}
		p.waiting = append(p.waiting, t)
		p.waits++
	}
	return s, ok, t, nil
}

// markOverdue lets the pool open one connection for a mail that has waited for growAfter, even if
// p.least connections are open already.
func (p *pool) markOverdue(t *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.overdue = true
	p.serveWaitingLocked()
}

// leaveQueue removes a mail from the queue. It returns false if the mail has already got a session
// or the right to open one.
func (p *pool) leaveQueue(t *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.waiting, t)
	if n < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, n, n+1)
	p.serveWaitingLocked() // the next one may be overdue
	return true
}

// takeOrReserveLocked returns an idle session. If it returns nil and true, the caller may open a
// session. If it returns false, the mail has to wait. The caller must hold the lock.
func (p *pool) takeOrReserveLocked(overdue bool) (s *session, ok bool) {
	if left := p.paceLeftLocked(); left > 0 {
		p.serveAfterLocked(left)
		return nil, false
	}
	s, ok = p.takeLocked(overdue)
	if ok && p.perMinute > 0 {
		p.begun = append(p.begun, time.Now())
		p.begun = p.begun[max(0, len(p.begun)-p.perMinute):]
	}
	return s, ok
}

// paceLeftLocked returns the time until perMinute lets one more mail begin. It returns 0 if a mail
// may begin now. The caller must hold the lock.
func (p *pool) paceLeftLocked() time.Duration {
	if p.perMinute == 0 || len(p.begun) < p.perMinute {
		return 0
	}
	return max(0, time.Until(p.begun[0].Add(time.Minute)))
}

// serveAfterLocked makes serveWaitingLocked run after the duration left. The caller holds the lock.
func (p *pool) serveAfterLocked(left time.Duration) {
	if p.pace != nil {
		p.pace.Stop()
	}
	p.pace = time.AfterFunc(left, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serveWaitingLocked()
	})
}

// paceError returns an error if perMinute lets no mail begin now; otherwise nil.
func (p *pool) paceError() *delivery.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.paceLeftLocked(); left > 0 {
		return newPaceError(left)
	}
	return nil
}

func newPaceError(left time.Duration) *delivery.Error {
	return &delivery.Error{
		Class: delivery.Temporary, Stage: delivery.StageDial, About: delivery.AboutPace, RetryAfter: left,
		Err: delivery.ErrPace,
	}
}

// forgetLast removes the last mail from the mails that count against perMinute. It is for a mail
// that was allowed to begin but did not begin.
func (p *pool) forgetLast() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.begun); n > 0 {
		p.begun = p.begun[:n-1]
	}
}

// takeLocked is takeOrReserveLocked without the pace.
func (p *pool) takeLocked(overdue bool) (s *session, ok bool) {
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
		s.expiry.Stop()
		return s, true
	}
	if p.open+p.quits >= p.limitLocked() || p.open >= p.least && !overdue {
		return nil, false
	}
	if p.open == 0 {
		p.alive = time.Now().Add(shortTimeout - aliveFor) // shortTimeout from now, further connections may already be open
	}
	p.open++
	p.unproven++
	return nil, true
}

// serveWaitingLocked gives idle sessions, and rights to open sessions, to the waiting mails in
// turn. The caller must hold the lock.
func (p *pool) serveWaitingLocked() {
	for len(p.waiting) > 0 {
		s, ok := p.takeOrReserveLocked(p.waiting[0].overdue)
		if !ok {
			return
		}
		p.waiting[0].served <- s
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// release takes back a session. A nil session stands for the right to open one. A usable session
// becomes idle, or goes to a waiting mail. After maxMails mails, the session is ended with QUIT in
// the background. A session that is not usable is closed without QUIT.
func (p *pool) release(s *session, usable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil || !s.proven {
		p.unproven--
	}
	if usable && s != nil {
		p.alive = time.Now()
	}
	switch {
	case s == nil:
		p.open--
	case !usable || p.closed:
		p.open--
		s.closeSocket()
	case s.mails >= p.maxMails:
		p.quitLaterLocked(s)
	default:
		p.addIdleLocked(s)
	}
	p.serveWaitingLocked()
}

// limitToOthers is called after the server refused a connection. It limits the pool to the number
// of its other open connections. If there are any, it returns true, because the mail can be sent
// over one of them. If there are none, the pool opens only one connection at a time until the
// server has accepted a mail.
//
// A refusal is silent if the server did not reply. A silent refusal limits the pool only if there
// are other connections and the server accepted a mail or a connection within the last aliveFor.
// Any other silent refusal sets no limit, and the result is false.
func (p *pool) limitToOthers(silent bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := p.open + p.quits - 1
	if silent && (others == 0 || time.Since(p.alive) >= aliveFor) {
		p.refusesAll = others == 0 && p.heldLocked()
		return false
	}
	p.worked, p.refused, p.refusesAll = max(1, others), time.Now(), others == 0
	return others > 0
}

// noteOpened is called when the server has accepted a connection. The parameter took is how long
// the server needed.
func (p *pool) noteOpened(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive, p.slowest = time.Now(), max(p.slowest, took)
}

// isSilent reports whether the server may be refusing one more connection by not replying. The
// parameter waited is how long the new connection has waited. The result is true if other
// connections work, and if waited is at least twice the longest time that any connection took to
// open.
func (p *pool) isSilent(waited time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > p.unproven && time.Since(p.alive) < aliveFor && waited >= 2*p.slowest
}

// limitToLeast is called after the server refused a mail with a reply that may mean too many
// connections or mails (delivery.Error.Crowded). If more than `least` connections are open,
// limitToLeast limits the pool to the number of the other connections and returns true. The caller
// then closes its connection. Unlike the limit of limitToOthers, this limit is never below `least`,
// because the server refused a mail and not the connection.
func (p *pool) limitToLeast() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := p.open > p.least
	if more {
		p.worked, p.refused = max(p.least, p.open+p.quits-1), time.Now()
	}
	return more
}

// noteServed is called when the server has accepted a mail over a connection, or refused only that
// mail. If anyone may have chosen the recipient (delivery.Mail.Stranger), it is called when the
// server has accepted the command MAIL, because the server's later replies depend on the recipient.
func (p *pool) noteServed(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.proven {
		return
	}
	s.proven = true
	p.unproven--
	if p.refusesAll {
		p.worked, p.refused, p.refusesAll = p.begin, time.Time{}, false
	}
	p.worked = max(p.worked, p.open-p.unproven+p.quits)
	p.serveWaitingLocked()
}

// addIdleLocked makes a session idle. The caller holds the lock.
func (p *pool) addIdleLocked(s *session) {
	p.idle = append(p.idle, s)
	s.idleSince = time.Now()
	lasts := maxIdleTime
	if p.open > p.least {
		lasts = shrinkAfter
	}
	if s.expiry == nil {
		s.expiry = time.AfterFunc(lasts, func() { p.expire(s) })
	} else {
		s.expiry.Reset(lasts)
	}
}

// quitLaterLocked ends a session with QUIT in the background. The caller holds the lock.
func (p *pool) quitLaterLocked(s *session) {
	p.open--
	p.quits++
	p.quitting.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.quits--
			p.serveWaitingLocked()
		}()
		defer panics.Recover(panics.Other)
		s.quit()
	})
}

// expire closes a session that has been idle too long. If at most p.least sessions are open, the
// session stays open until it has been idle for maxIdleTime.
func (p *pool) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.idle, s)
	if n < 0 {
		return
	}
	if left := maxIdleTime - time.Since(s.idleSince); left > 0 && p.open <= p.least {
		s.expiry.Reset(left)
		return
	}
	p.idle = slices.Delete(p.idle, n, n+1)
	p.quitLaterLocked(s)
	if !p.heldLocked() { // the backlog is over
		p.worked = max(min(p.worked, p.begin), p.open)
	}
}

// replace is called when the most recently used session proved to be broken, before a new session
// replaces it. The idle sessions have been idle for even longer, so they are probably broken, too.
// replace closes them all without QUIT.
func (p *pool) replace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unproven++
	for _, s := range p.idle {
		s.expiry.Stop()
		s.closeSocket()
	}
	p.open -= len(p.idle)
	p.idle = nil
	p.serveWaitingLocked()
}

// close ends the idle sessions with QUIT and waits until they have ended. A session in use is
// closed when it is released.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.pace != nil {
		p.pace.Stop()
	}
	for _, s := range p.idle {
		s.expiry.Stop()
		p.quitLaterLocked(s)
	}
	p.idle = nil
	p.mu.Unlock()
	p.quitting.Wait()
}
