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
// connections are taken first, so those in use and those idle are together never more than the places.
//
// The least connections are opened as soon as a mail has none. More are opened only for a mail that has waited for one of these: so
// connections grow with the backlog, and a server that is quick gets few. What is idle beyond the least ends soon.
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

// enter waits for a place until ctx is done, which is a failure, or patience is at its end, which is none.
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

// take gives the session that was used last, or the one that is free next; nil: the caller opens one, and it is counted already. Needs
// a place, which is kept with a failure.
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

// queue takes an idle session or, while fewer than the least are open, the right to open one. Where there is neither, turn tells when
// there is.
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

// withdraw ends a wait, to open so many sessions; false: its turn has come meanwhile.
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

// next takes the mail that has waited longest off the queue; nil: none waits. The caller holds the lock.
func (p *pool) next() (turn chan *session) {
	if len(p.waiting) > 0 {
		turn = p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
	return turn
}

// giveBack hands on what a mail was given that needs it no more.
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

// failed counts off a connection that could not be opened, and gives its place back.
func (p *pool) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(1)
	p.leave()
}

// ended counts off connections. Mails that wait may open others. The caller holds the lock.
func (p *pool) ended(n int) {
	for p.open -= n; p.open < p.least && len(p.waiting) > 0; p.open++ {
		p.next() <- nil
	}
}

// release ends the use of a session and gives its place back: a mail that waits has it, or it is kept, or has served its time and
// goes in the background, or is dropped.
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

// farewell says QUIT without making anyone wait, and gives the place back afterwards.
func (p *pool) farewell(s *session) {
	p.ended(1)
	p.farewells.Go(func() { s.quit(); p.leave() })
}

// expire closes a session that has been idle too long. It takes a place meanwhile, so that no new
// connection comes on top of it; without a free one it goes without a word. One that is by now among the least is kept for longer.
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

// dropIdle cuts every idle session: one of them was found dead, and the others were idle for longer.
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

// close says farewell to the idle sessions and waits for it. Those in use are closed when they are released.
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
