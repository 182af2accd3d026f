package verification

import (
	"context"
	"sync"
	"time"
)

// Whoever asks for one recipient as often as they get an answer must not make all others wait. So the requests for one
// recipient stand in a line of their own: few of them are worked on at once, and the place of one that was not let in is
// free again only a moment after its answer. That is 1,000 answers a second and recipient from each process, however many
// ask; nobody who asks at the pace of people ever waits. To turn the others away would be no help: they would ask again.
const (
	abreast  = 32                    // requests for one recipient that are worked on at once
	pace     = 32 * time.Millisecond // for which the place of a request that was not let in stays taken
	patience = 5 * time.Second       // for which a request stands in the line
)

// lines are those of all recipients who are asked for now.
type lines struct {
	mu sync.Mutex
	of map[string]*line
}

type line struct {
	name   string
	places chan struct{}
	used   int // places taken, and waited for
}

func newLines() *lines { return &lines{of: map[string]*line{}} }

// turn is a place in a line. It ends once.
type turn struct {
	lines *lines
	line  *line
	once  sync.Once
}

// enter waits for a place. The error is ErrUnavailable: the line is too long, or the client is gone.
func (l *lines) enter(ctx context.Context, name string) (*turn, error) {
	l.mu.Lock()
	of := l.of[name]
	if of == nil {
		of = &line{name: name, places: make(chan struct{}, abreast)}
		l.of[name] = of
	}
	of.used++
	l.mu.Unlock()
	t := &turn{lines: l, line: of}
	select {
	case of.places <- struct{}{}:
		return t, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case of.places <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		l.leave(of)
		return nil, ErrUnavailable
	}
}

func (l *lines) leave(of *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.used--; of.used == 0 {
		delete(l.of, of.name)
	}
}

func (t *turn) free() {
	<-t.line.places
	t.lines.leave(t.line)
}

// letIn frees the place of a request that goes on to wait for its mail.
func (t *turn) letIn() { t.once.Do(t.free) }

// end frees the place of a request that was not let in, a moment later.
func (t *turn) end() {
	t.once.Do(func() { time.AfterFunc(pace, t.free) })
}
