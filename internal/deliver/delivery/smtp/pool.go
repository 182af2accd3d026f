package smtp

import (
	"context"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/delivery"
)

// pool keeps the connections to one server, as many as limit allows. Connections that are sending
// QUIT count, too.
//
// If all connections are in use and fewer than limit.least are open, a mail opens another
// connection immediately. If at least so many are open, the mail first waits for growAfter, so that
// only a backlog opens further connections. Idle connections beyond limit.least are closed after
// shrinkAfter.
type pool struct {
	maxMails int // over one connection

	mu      sync.Mutex
	idle    []*session // the longest idle first
	waiting []*waiter  // the longest waiting first
	conns   connCounts
	limit   connLimit
	pace    pace
	closed  bool
	waits   int64 // number of mails that have waited since the start

	quitting sync.WaitGroup
}

// waiter is a mail that waits for a connection.
type waiter struct {
	served  chan *session // receives an idle session, or nil: the mail may open one
	overdue bool          // the mail has waited for growAfter
}

const (
	// growAfter is how long a mail waits for a free connection before one beyond limit.least is
	// opened.
	growAfter = 2 * time.Millisecond
	// maxPaceWait is how long a mail may wait until perMinute allows it. During a longer wait, its
	// code might be used or expire.
	maxPaceWait = 5 * time.Second
	// shrinkAfter is how long a connection beyond limit.least is kept idle.
	shrinkAfter = 5 * time.Second
	// maxIdleTime is the longest time that any connection is kept idle.
	maxIdleTime = 30 * time.Second
)

// acquire returns the idle session that was used last. If no session is idle, acquire waits for
// one, for at most patience. Even with a patience of 0, it waits for growAfter if one more
// connection may be opened. The results are:
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
	if ctx.Err() != nil { // the select below picks among ready cases at random
		return nil, false, newError(ctx, delivery.StageDial, ctx.Err(), delivery.PrivateData{})
	}
	s, ok, t, fail := p.acquireOrQueue(patience)
	if t == nil {
		return s, ok, fail
	}
	growTimer := time.NewTimer(growAfter)
	defer growTimer.Stop()
	turn, stopping := time.NewTicker(maxPaceWait), delivery.Stopping(ctx)
	defer turn.Stop()
	var crowded <-chan time.Time
	for {
		late := false
		select {
		case s := <-t.served:
			return s, true, nil
		case <-growTimer.C:
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
// queues the mail and returns its waiter t. But if patience is 0 and no further connection may be
// opened, it returns no session and no waiter. It returns an error if the pool is closed, or if
// perMinute does not allow the mail soon enough.
func (p *pool) acquireOrQueue(patience time.Duration) (s *session, ok bool, t *waiter, fail *delivery.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, nil, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errClosed}
	}
	s, ok = p.takeOrReserveLocked(false)
	if left := p.pace.left(); !ok && left > min(patience, maxPaceWait) {
		return nil, false, nil, newPaceError(left)
	}
	if !ok && (patience > 0 || p.conns.total() < p.maxConnsLocked()) {
		t = &waiter{served: make(chan *session, 1)}
		p.waiting = append(p.waiting, t)
		p.waits++
	}
	return s, ok, t, nil
}

// markOverdue lets the pool open one connection for a mail that has waited for growAfter, even if
// p.limit.least connections are open already.
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
	p.serveWaitingLocked() // the next mail may be overdue, and so may open a connection
	return true
}

// takeOrReserveLocked returns an idle session. If it returns nil and true, the caller may open a
// session. If it returns false, the mail has to wait. The caller must hold the lock.
func (p *pool) takeOrReserveLocked(overdue bool) (s *session, ok bool) {
	if left := p.pace.left(); left > 0 {
		p.pace.wakeAfter(left, p.serveWaiting)
		return nil, false
	}
	if s, ok = p.takeLocked(overdue); ok {
		p.pace.begin()
	}
	return s, ok
}

// paceError returns an error if perMinute lets no mail begin now; otherwise nil.
func (p *pool) paceError() *delivery.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.pace.left(); left > 0 {
		return newPaceError(left)
	}
	return nil
}

// forgetLast locks the pool for pace.forgetLast.
func (p *pool) forgetLast() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.forgetLast()
}

// takeLocked does the same as takeOrReserveLocked, without the pace.
func (p *pool) takeLocked(overdue bool) (s *session, ok bool) {
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
		s.expiry.Stop()
		return s, true
	}
	if p.conns.total() >= p.maxConnsLocked() || p.conns.open >= p.limit.least && !overdue {
		return nil, false
	}
	if p.conns.open == 0 {
		p.limit.firstBegins(time.Now())
	}
	p.conns.open++
	p.conns.unproven++
	return nil, true
}

func (p *pool) maxConnsLocked() int { return p.limit.max(p.conns.unproven, time.Now()) }

func (p *pool) serveWaiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveWaitingLocked()
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
		p.conns.unproven--
	}
	if usable && s != nil {
		p.limit.noteAnswered(time.Now())
	}
	switch {
	case s == nil:
		p.conns.open--
	case !usable || p.closed:
		p.conns.open--
		s.closeSocket()
	case s.mails >= p.maxMails:
		p.quitLaterLocked(s)
	default:
		p.addIdleLocked(s)
	}
	p.serveWaitingLocked()
}

// connRefused locks the pool for connLimit.connRefused.
func (p *pool) connRefused(silent bool) (othersWork bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.connRefused(p.conns, silent, time.Now())
}

// mailRefused locks the pool for connLimit.mailRefused.
func (p *pool) mailRefused() (closes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.mailRefused(p.conns, time.Now())
}

// noteOpened locks the pool for connLimit.noteOpened.
func (p *pool) noteOpened(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.noteOpened(took, time.Now())
}

// isSilent locks the pool for connLimit.isSilent.
func (p *pool) isSilent(waited time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.isSilent(p.conns, waited, time.Now())
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
	p.conns.unproven--
	p.limit.noteAccepted(p.conns)
	p.serveWaitingLocked()
}

// addIdleLocked makes a session idle. The caller holds the lock.
func (p *pool) addIdleLocked(s *session) {
	p.idle = append(p.idle, s)
	s.idleSince = time.Now()
	lasts := maxIdleTime
	if p.conns.open > p.limit.least {
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
	p.conns.open--
	p.conns.quits++
	p.quitting.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.conns.quits--
			p.serveWaitingLocked()
		}()
		defer panics.Recover(panics.Other)
		s.quit()
	})
}

// expire closes a session that has been idle too long. If at most p.limit.least sessions are open,
// the session stays open until it has been idle for maxIdleTime.
func (p *pool) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.idle, s)
	if n < 0 {
		return
	}
	if left := maxIdleTime - time.Since(s.idleSince); left > 0 && p.conns.open <= p.limit.least {
		s.expiry.Reset(left)
		return
	}
	p.idle = slices.Delete(p.idle, n, n+1)
	p.quitLaterLocked(s)
	p.limit.backlogEnded(p.conns, time.Now())
}

// replace is called when the most recently used session proved to be broken, before a new session
// replaces it. The idle sessions have been idle for even longer, so they are probably broken, too.
// replace closes them all without QUIT.
func (p *pool) replace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns.unproven++
	for _, s := range p.idle {
		s.expiry.Stop()
		s.closeSocket()
	}
	p.conns.open -= len(p.idle)
	p.idle = nil
	p.serveWaitingLocked()
}

// close ends the idle sessions with QUIT and waits until they have ended. A session in use is
// closed when it is released.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.pace.stop()
	for _, s := range p.idle {
		s.expiry.Stop()
		p.quitLaterLocked(s)
	}
	p.idle = nil
	p.mu.Unlock()
	p.quitting.Wait()
}
