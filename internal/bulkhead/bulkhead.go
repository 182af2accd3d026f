// Package bulkhead keeps the requests for one name from making all others wait. Those for one name wait in a line of their own: few of them
// are worked on at once, and the slot of one that was not let in is free again only a moment after its answer. That is 1,000 answers a
// second and name from each process, however many ask; requests at the pace of people never wait. To refuse the others would be no
// help: they would ask again.
//
// It stands before the gates, in package verification, where a name is a recipient.
package bulkhead

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of a line.
const (
	Abreast  = 32                    // requests for one name that are worked on at once
	Pace     = 32 * time.Millisecond // for which the slot of a request that was not let in stays taken
	Patience = 5 * time.Second       // for which a request stands in the line
)

// ErrTooLong says that the line is too long, or the client is gone.
var ErrTooLong = errors.New("bulkhead: the line is too long")

// Lines bounds the requests for each name that are worked on at once in this process. Safe for concurrent use.
type Lines struct {
	mu sync.Mutex
	of map[string]*line
}

type line struct {
	name  string
	slots chan struct{}
	used  int       // slots taken, and waited for
	last  time.Time // when the last of those that stay taken is free
}

// New has no line yet.
func New() *Lines { return &Lines{of: map[string]*line{}} }

// Slot is one in a line. It is released once.
type Slot struct {
	lines *Lines
	line  *line
	once  sync.Once
}

// Enter waits for a slot. Errors: ErrTooLong.
func (l *Lines) Enter(ctx context.Context, name string) (*Slot, error) {
	l.mu.Lock()
	of := l.of[name]
	if of == nil {
		of = &line{name: name, slots: make(chan struct{}, Abreast)}
		l.of[name] = of
	}
	of.used++
	l.mu.Unlock()
	t := &Slot{lines: l, line: of}
	select {
	case of.slots <- struct{}{}:
		return t, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	select {
	case of.slots <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		l.leave(of)
		return nil, ErrTooLong
	}
}

// Len is how many names have a line.
func (l *Lines) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}

func (l *Lines) leave(of *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.used--; of.used == 0 {
		delete(l.of, of.name)
	}
}

func (t *Slot) free() {
	<-t.line.slots
	t.lines.leave(t.line)
}

// ReleaseNow frees the slot of a request that goes on to wait for its mail.
func (t *Slot) ReleaseNow() { t.once.Do(t.free) }

// Release frees the slot of a request that was not let in, a moment later, and no two of a line at once: what came together would go
// on together, and others would wait for all of them.
func (t *Slot) Release() {
	t.once.Do(func() {
		t.lines.mu.Lock()
		defer t.lines.mu.Unlock()
		wait := max(Pace, time.Until(t.line.last)+Pace/Abreast)
		t.line.last = time.Now().Add(wait)
		time.AfterFunc(wait, t.free)
	})
}
