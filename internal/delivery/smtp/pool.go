package smtp

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"sendcode/internal/delivery"
)

// pool keeps the connections to one server. A place stands for one mail that is sent or waits for a connection; idle
// connections are taken first, so connections in use and idle ones together are never more than the places.
//
// While fewer than least connections are open, a mail without one opens one. Beyond that, only a mail that has waited for growAfter opens
// one: so connections grow with the backlog, and a quick server gets few. Idle connections beyond the least are closed soon.
type pool struct {
	places   chan struct{}
	least    int
	maxMails int

	mu      sync.Mutex
	idle    []*session      // the longest idle first
	waiting []chan *session // mails that wait for a session, or for nil: the right to open one; the longest first
	open    int             // sessions in use, being opened, or idle
	closed  bool

	farewells sync.WaitGroup
}

const (
	// growAfter is how long a mail waits for a connection in use before one more is opened.
	growAfter = 20 * time.Millisecond
	// shrinkAfter is how long a connection beyond the least is kept without work.
	shrinkAfter = 5 * time.Second
	// maxIdle is how long any connection is kept without work.
	maxIdle = 30 * time.Second
)

func newPool(config Config) *pool {
	return &pool{
		places: make(chan struct{}, config.MaxConns), least: config.MinConns, maxMails: config.MaxMails,
	}
}

// forever is the patience of a mail that has no other server to go to.
const forever time.Duration = math.MaxInt64

// enter waits for a place and returns true. It returns false after patience, and a failure when ctx is done.
func (p *pool) enter(ctx context.Context, patience time.Duration) (bool, *delivery.Error) {
	if ctx.Err() != nil { // select would choose by chance
		return false, failure(ctx, delivery.StageDial, ctx.Err())
	}
	select {
	case p.places <- struct{}{}:
		return p.entered()
	default:
	}
	crowded := time.NewTimer(patience)
	defer crowded.Stop()
	select {
	case p.places <- struct{}{}:
		return p.entered()
	case <-ctx.Done():
		return false, failure(ctx, delivery.StageDial, ctx.Err())
	case <-crowded.C:
		return false, nil
	}
}

func (p *pool) entered() (bool, *delivery.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.leave()
		return false, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errClosed}
	}
	return true, nil
}

func (p *pool) leave() { <-p.places }

// take returns the idle session that was used last, or waits for the next one; nil: the caller opens one, which is counted already. The
// caller has a place, and keeps it after a failure.
func (p *pool) take(ctx context.Context) (*session, *delivery.Error) {
	s, turn := p.queue()
	if turn == nil {
		return s, nil
	}
	patience := time.NewTimer(growAfter)
	defer patience.Stop()
	select {
	case s := <-turn:
		return s, nil
	case <-patience.C:
		if p.withdraw(turn, 1) {
			return nil, nil
		}
		return <-turn, nil
	case <-ctx.Done():
		if !p.withdraw(turn, 0) {
			p.giveBack(<-turn)
		}
		return nil, failure(ctx, delivery.StageDial, ctx.Err())
	}
}

// queue returns an idle session, or nil as the right to open one while fewer than the least are open. Otherwise it returns turn, which
// later receives one of the two.
func (p *pool) queue() (s *session, turn chan *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
		s.expiry.Stop()
		return s, nil
	}
	if p.open < p.least {
		p.open++
		return nil, nil
	}
	turn = make(chan *session, 1)
	p.waiting = append(p.waiting, turn)
	return nil, turn
}

// withdraw takes a mail off the queue and counts the sessions that it will open. It returns false if the mail has been served meanwhile.
func (p *pool) withdraw(turn chan *session, opens int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.waiting, turn)
	if n < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, n, n+1)
	p.open += opens
	return true
}

// next takes the mail that has waited longest off the queue and returns its turn; nil if none waits. The caller holds the lock.
func (p *pool) next() (turn chan *session) {
	if len(p.waiting) > 0 {
		turn = p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
	return turn
}

// giveBack passes on a session, or the right to open one, that came to a mail after its context ended.
func (p *pool) giveBack(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s != nil && !p.closed {
		p.pass(s)
		return
	}
	p.ended(1)
	if s != nil {
		s.cut()
	}
}

// failed records that a connection could not be opened, and gives its place back.
func (p *pool) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(1)
	p.leave()
}

// ended records that n connections are gone, and lets waiting mails open others. The caller holds the lock.
func (p *pool) ended(n int) {
	for p.open -= n; p.open < p.least && len(p.waiting) > 0; p.open++ {
		p.next() <- nil
	}
}

// release ends the use of a session and gives its place back. The session goes to a waiting mail or is kept; after maxMails it is closed
// in the background, and if it is not usable it is cut.
func (p *pool) release(s *session, usable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !usable || p.closed:
		p.ended(1)
		s.cut()
	case s.mails >= p.maxMails:
		p.farewell(s)
		return
	default:
		p.pass(s)
	}
	p.leave()
}

// pass hands a session to a mail that waits for one, or keeps it. The caller holds the lock.
func (p *pool) pass(s *session) {
	if turn := p.next(); turn != nil {
		turn <- s
		return
	}
	p.idle = append(p.idle, s)
	s.idleSince = time.Now()
	lasts := maxIdle
	if p.open > p.least {
		lasts = min(lasts, shrinkAfter)
	}
	if s.expiry == nil {
		s.expiry = time.AfterFunc(lasts, func() { p.expire(s) })
	} else {
		s.expiry.Reset(lasts)
	}
}

// farewell says QUIT in the background, and gives the place back afterwards.
func (p *pool) farewell(s *session) {
	p.ended(1)
	p.farewells.Go(func() { s.quit(); p.leave() })
}

// expire closes a session that has been idle too long. It takes a place meanwhile, so that no new
// connection comes on top of it; without a free one the session is cut. A session that is by now among the least is kept for longer.
func (p *pool) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.idle, s)
	if n < 0 {
		return
	}
	if left := maxIdle - time.Since(s.idleSince); left > 0 && p.open <= p.least {
		s.expiry.Reset(left)
		return
	}
	p.idle = slices.Delete(p.idle, n, n+1)
	select {
	case p.places <- struct{}{}:
		p.farewell(s)
	default:
		p.ended(1)
		s.cut()
	}
}

// dropIdle cuts every idle session. It is called when the most recent one was found dead: the others were idle for longer.
func (p *pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle {
		s.expiry.Stop()
		s.cut()
	}
	p.ended(len(p.idle))
	p.idle = nil
}

// close ends the idle sessions with QUIT and waits for that. Sessions in use are closed when they are released.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.ended(len(idle))
	for _, s := range idle {
		s.expiry.Stop()
		p.farewells.Go(s.quit)
	}
	p.mu.Unlock()
	p.farewells.Wait()
}
