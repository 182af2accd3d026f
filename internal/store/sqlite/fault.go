package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"

	"sendcode/internal/store"
)

// Fault is what a test makes of one access to a SQLite log.
type Fault int

// The faults.
const (
	None Fault = iota
	Down       // the log is away: nothing happens, ErrUnavailable
	Lost       // it happens, but the answer is lost: ErrUnavailable and ErrUncertain
)

var (
	errDown = store.Unavailable(errors.New("down for a test"))
	errLost = store.Uncertain(errors.New("lost for a test"))
)

// faults is the hook of a test.
type faults struct {
	mu  sync.Mutex
	ask func(method string) Fault
}

// SetFault makes later accesses ask f, with the name of the method of Log that was called, what goes wrong with them; nil:
// nothing does. A call that changes rows asks once; one that only reads asks for each of its statements. Calls of f follow
// one another, and f must not call the log.
func (s *DB) SetFault(f func(method string) Fault) {
	if f == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&faults{ask: f})
}

// fault asks the hook, if there is one.
func (s *DB) fault() Fault {
	hook := s.hook.Load()
	if hook == nil {
		return None
	}
	method := calledMethod()
	hook.mu.Lock()
	defer hook.mu.Unlock()
	return hook.ask(method)
}

// calledMethod is the method of the store, of this package or of sqldb, through which a caller outside of both came here.
func calledMethod() (method string) {
	calls := make([]uintptr, 24)
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls)])
	for {
		frame, more := frames.Next()
		_, name, ok := strings.Cut(frame.Function, "(*DB).")
		if ok && name[0] >= 'A' && name[0] <= 'Z' && !strings.Contains(name, ".") {
			method = name
		}
		if !more || method != "" && !strings.HasPrefix(frame.Function, "sendcode/internal/store/") {
			return method
		}
	}
}

// readPool is the connections that read, with the hook of a test before each statement.
type readPool struct {
	*sql.DB
	fault func() Fault
}

// QueryContext implements queryer.
func (p readPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	switch p.fault() {
	case Down:
		return nil, errDown
	case Lost:
		return nil, errLost
	}
	return p.DB.QueryContext(ctx, query, args...)
}
