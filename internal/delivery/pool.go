package delivery

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// pool keeps the connections to one server. A place stands for one connection in use; idle ones are taken
// first, so those in use and those idle are together never more than the places.
type pool struct {
	places   chan struct{}
	maxMails int
	maxIdle  time.Duration

	mu     sync.Mutex
	idle   []*session // the longest idle first
	closed bool

	farewells sync.WaitGroup
}

func newPool(config SMTPConfig) *pool {
	return &pool{places: make(chan struct{}, config.MaxConns), maxMails: config.MaxMails, maxIdle: config.MaxIdle}
}

// forever is the patience of who has nowhere else to go.
const forever time.Duration = math.MaxInt64

// enter waits for a place until ctx is done, which is a failure, or patience is at its end, which is none.
func (p *pool) enter(ctx context.Context, patience time.Duration) (bool, *Error) {
	if ctx.Err() != nil { // select would choose by chance
		return false, failure(ctx, StageDial, ctx.Err())
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
		return false, failure(ctx, StageDial, ctx.Err())
	case <-crowded.C:
		return false, nil
	}
}

func (p *pool) entered() (bool, *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.leave()
		return false, &Error{Class: Temporary, Stage: StageDial, Err: errClosed}
	}
	return true, nil
}

func (p *pool) leave() { <-p.places }

// take gives the session that was used last, nil if none is idle. Needs a place.
func (p *pool) take() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	s := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	s.expiry.Stop()
	return s
}

// release ends the use of a session and gives its place back: it is kept, or has served its time and goes
// in the background, or is dropped.
func (p *pool) release(s *session, usable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !usable || p.closed:
		s.cut()
	case s.mails >= p.maxMails:
		p.farewell(s)
		return
	default:
		p.idle = append(p.idle, s)
		if s.expiry == nil {
			s.expiry = time.AfterFunc(p.maxIdle, func() { p.expire(s) })
		} else {
			s.expiry.Reset(p.maxIdle)
		}
	}
	p.leave()
}

// farewell says QUIT without making anyone wait, and gives the place back afterwards.
func (p *pool) farewell(s *session) {
	p.farewells.Go(func() { s.quit(); p.leave() })
}

// expire closes a session that has been idle too long. It takes a place meanwhile, so that no new
// connection comes on top of it; without a free one it goes without a word.
func (p *pool) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.idle, s)
	if n < 0 {
		return
	}
	p.idle = slices.Delete(p.idle, n, n+1)
	select {
	case p.places <- struct{}{}:
		p.farewell(s)
	default:
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
	p.idle = nil
}

// close says farewell to the idle sessions and waits for it. Those in use are closed when they are released.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	for _, s := range idle {
		s.expiry.Stop()
		p.farewells.Go(s.quit)
	}
	p.mu.Unlock()
	p.farewells.Wait()
}
