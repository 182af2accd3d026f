package verification

import (
	"context"
	"sync"
	"time"
)

// A caller that asks for one recipient as fast as it gets answers must not make all others wait. So the requests for one recipient
// wait in a line of their own: few of them are worked on at once, and the slot of one that was not let in is free again only a
// moment after its answer. That is 1,000 answers a second and recipient from each process, however many ask; requests at the pace
// of people never wait. To refuse the others would be no help: they would ask again.
const (
	abreast  = 32                    // requests for one recipient that are worked on at once
	pace     = 32 * time.Millisecond // for which the slot of a request that was not let in stays taken
	patience = 5 * time.Second       // for which a request stands in the line
)

// recipientLimiter bounds the requests for each recipient that are worked on at once in this process.
type recipientLimiter struct {
	mu sync.Mutex
	of map[string]*line
}

type line struct {
	name  string
	slots chan struct{}
	used  int       // slots taken, and waited for
	last  time.Time // when the last of those that stay taken is free
}

func newRecipientLimiter() *recipientLimiter { return &recipientLimiter{of: map[string]*line{}} }

// slot is one in a line. It is released once.
type slot struct {
	lines *recipientLimiter
	line  *line
	once  sync.Once
}

// enter waits for a slot. The error is ErrUnavailable: the line is too long, or the client is gone.
func (l *recipientLimiter) enter(ctx context.Context, name string) (*slot, error) {
	l.mu.Lock()
	of := l.of[name]
	if of == nil {
		of = &line{name: name, slots: make(chan struct{}, abreast)}
		l.of[name] = of
	}
	of.used++
	l.mu.Unlock()
	t := &slot{lines: l, line: of}
	select {
	case of.slots <- struct{}{}:
		return t, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case of.slots <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		l.leave(of)
		return nil, ErrUnavailable
	}
}

func (l *recipientLimiter) leave(of *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.used--; of.used == 0 {
		delete(l.of, of.name)
	}
}

func (t *slot) free() {
	<-t.line.slots
	t.lines.leave(t.line)
}

// releaseNow frees the slot of a request that goes on to wait for its mail.
func (t *slot) releaseNow() { t.once.Do(t.free) }

// release frees the slot of a request that was not let in, a moment later, and no two of a line at once: what came together would go
// on together, and others would wait for all of them.
func (t *slot) release() {
	t.once.Do(func() {
		t.lines.mu.Lock()
		defer t.lines.mu.Unlock()
		wait := max(pace, time.Until(t.line.last)+pace/abreast)
		t.line.last = time.Now().Add(wait)
		time.AfterFunc(wait, t.free)
	})
}
