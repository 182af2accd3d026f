// Package bulkhead keeps many requests for one name from delaying the requests for others. Each name has a queue, a line, with few slots:
// so many of its requests are worked on at once. A request that was not admitted holds its slot a moment longer than its answer takes.
// So a name gets at most 1,000 answers a second from each process, however many requests come; normal users never wait. Refusing the
// excess would not help, since clients would retry.
//
// It stands before the gates, in package verification, where a name is a recipient.
package bulkhead

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of the queue for one name.
const (
	Abreast  = 32                    // requests for one name that are worked on at once
	Pace     = 32 * time.Millisecond // how long a request that was not admitted keeps its slot after its answer
	Patience = 5 * time.Second       // how long a request waits for a slot
)

// ErrTooLong says that no slot became free within Patience, or that ctx ended.
var ErrTooLong = errors.New("bulkhead: the line is too long")

// Lines bounds how many requests for each name are worked on at once in this process. Safe for concurrent use.
type Lines struct {
	mu sync.Mutex
	of map[string]*line
}

type line struct {
	name  string
	slots chan struct{}
	used  int       // requests that hold a slot or wait for one
	last  time.Time // when the last delayed release happens
}

// New makes an empty Lines.
func New() *Lines { return &Lines{of: map[string]*line{}} }

// Slot is the right to work on one request for a name. Only its first release has an effect.
type Slot struct {
	lines *Lines
	line  *line
	once  sync.Once
}

// Enter takes a slot for a request, and waits for one if all are taken. The caller must release it. Error: ErrTooLong.
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
		l.removeRequest(of)
		return nil, ErrTooLong
	}
}

// Len returns how many names have requests now.
func (l *Lines) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}

// removeRequest ends a request's use of a line, and deletes the line if it was the last.
func (l *Lines) removeRequest(of *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.used--; of.used == 0 {
		delete(l.of, of.name)
	}
}

func (t *Slot) free() {
	<-t.line.slots
	t.lines.removeRequest(t.line)
}

// ReleaseNow frees the slot at once. It is for admitted requests, which may go on to wait for their outcome.
func (t *Slot) ReleaseNow() { t.once.Do(t.free) }

// Release frees the slot of a request that was not admitted after Pace, and never two of a line at the same time: else requests that came
// together would continue together, and others would wait for all of them.
func (t *Slot) Release() {
	t.once.Do(func() {
		t.lines.mu.Lock()
		defer t.lines.mu.Unlock()
		wait := max(Pace, time.Until(t.line.last)+Pace/Abreast)
		t.line.last = time.Now().Add(wait)
		time.AfterFunc(wait, t.free)
	})
}
