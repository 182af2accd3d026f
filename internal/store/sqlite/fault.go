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

// Fault is how one access to a SQLite log fails in a test.
type Fault int

// The faults.
const (
	None  Fault = iota
	Down        // the access has no effect and fails with fault.Unavailable
	Lost        // the access takes effect, but fails with fault.Unavailable and fault.Uncertain
	Vague       // the access has no effect, and fails with fault.Unavailable and fault.Uncertain
)

var (
	errDown = store.Unavailable(errors.New("down for a test"))
	errLost = store.Uncertain(errors.New("lost for a test"))
)

// nothingDone has the errors of the faults with which an access has no effect.
var nothingDone = map[Fault]error{Down: errDown, Vague: errLost}

// Stage is the point in an access at which the hook is called.
type Stage int

// The stages.
const (
	Asking     Stage = iota // before a write, or before each statement of a read
	Committing              // in a write, after its statements and before the commit; no other write runs meanwhile
)

// Hook returns the fault of an access. It is called at each stage, with the name of the method that was called from outside. It may
// wait: at Asking it holds no lock.
type Hook func(ctx context.Context, method string, at Stage) Fault

// SetFault lets a test make later calls fail. f gets the name of the called method and returns the fault; nil ends that. A call
// that writes asks f once, a call that reads asks before each statement. Calls of f do not overlap, and f must not call the store.
func (s *DB) SetFault(f func(method string) Fault) {
	if f == nil {
		s.SetHook(nil)
		return
	}
	var mu sync.Mutex
	s.SetHook(func(_ context.Context, method string, at Stage) Fault {
		if at != Asking {
			return None
		}
		mu.Lock()
		defer mu.Unlock()
		return f(method)
	})
}

// SetHook is SetFault for tests that act at both stages of a call. Calls of h may overlap.
func (s *DB) SetHook(h Hook) {
	if h == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&h)
}

// Replica returns a second DB on the same connections, as another process has it, with its own hook. Closing the first closes both.
func (s *DB) Replica() *DB { return newDB(s.writer, s.readers.DB, s.now) }

// fault returns what the hook says for this stage; None without a hook.
func (s *DB) fault(ctx context.Context, at Stage) Fault {
	hook := s.hook.Load()
	if hook == nil {
		return None
	}
	return (*hook)(ctx, calledMethod(), at)
}

// methods caches the results of calledMethod by call stack, since simulations call it a hundred thousand times.
var methods sync.Map

// calledMethod returns the name of the method of DB that was called from outside this package and sqldb. It finds it on the stack.
func calledMethod() (method string) {
	var calls [24]uintptr
	n := runtime.Callers(3, calls[:])
	if known, ok := methods.Load(calls); ok {
		return known.(string)
	}
	defer func() { methods.Store(calls, method) }()
	frames := runtime.CallersFrames(calls[:n])
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

// readPool is the pool of reading connections. It calls the hook of a test before each statement.
type readPool struct {
	*sql.DB
	fault func(context.Context, Stage) Fault
}

// QueryContext is sql.DB.QueryContext with the faults of a test. Lost acts as Vague.
func (p readPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	fault := p.fault(ctx, Asking)
	if fault == Lost {
		fault = Vague // a read changes nothing, whether it happens or not
	}
	if err := nothingDone[fault]; err != nil {
		return nil, err
	}
	return p.DB.QueryContext(ctx, query, args...)
}
