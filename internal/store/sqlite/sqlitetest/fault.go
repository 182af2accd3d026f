package sqlitetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Fault is how an access fails in a test.
type Fault int

const (
	None  Fault = iota
	Down        // the access has no effect, and fails with fault.Unavailable
	Lost        // the access takes effect, and fails with fault.Uncertain
	Vague       // the access has no effect, and fails with fault.Uncertain
)

var (
	errDown = store.WrapUnavailable(errors.New("down for a test"))
	errLost = store.WrapUncertain(errors.New("lost for a test"))
)

// nothingDone has the errors of faults without effect.
var nothingDone = map[Fault]error{Down: errDown, Vague: errLost}

// Stage says when during an access the hook is called.
type Stage int

const (
	Asking     Stage = iota // before a write, or before each statement of a read
	Committing              // in a write, after its statements; no other write runs meanwhile
)

// hook returns the fault of an access at each stage. method is the store's method, as in
// sqldb.Engine. The hook may wait at Asking, where no lock is held.
type hook func(ctx context.Context, method string, at Stage) Fault

// SetFault makes later calls fail as f says of the called method; nil ends that. A write calls f
// once, and a read calls it before each statement. Calls of f don't overlap, so f must neither call
// the store nor wait. A hook of SetHook may do both at Asking.
func (d *DB) SetFault(f func(method string) Fault) {
	if f == nil {
		d.SetHook(nil)
		return
	}
	var mu sync.Mutex
	d.SetHook(func(_ context.Context, method string, at Stage) Fault {
		if at != Asking {
			return None
		}
		mu.Lock()
		defer mu.Unlock()
		return f(method)
	})
}

// Fail makes later calls of the named methods, or of all, fail. SetFault(nil) ends that.
func (d *DB) Fail(how Fault, methods ...string) {
	d.SetFault(func(method string) Fault {
		if len(methods) == 0 || slices.Contains(methods, method) {
			return how
		}
		return None
	})
}

// SetHook is SetFault for both stages. Calls of h may overlap.
func (d *DB) SetHook(h hook) {
	if h == nil {
		d.hook.Store(nil)
		return
	}
	d.hook.Store(&h)
}

func (d *DB) fault(ctx context.Context, method string, at Stage) Fault {
	hook := d.hook.Load()
	if hook == nil {
		return None
	}
	return (*hook)(ctx, method, at)
}

// engine adds the faults of a test.
type engine struct {
	sqldb.Engine
	db *DB
}

// Read calls the hook before each statement. A read changes nothing, so Lost is the same as Vague.
func (e engine) Read(ctx context.Context, method string, f func(sqldb.Tx) error) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	return e.Engine.Read(ctx, method, func(q sqldb.Tx) error {
		q.Conn = readConn{q.Conn, func() error {
			fault := e.db.fault(ctx, method, Asking)
			if fault == Lost {
				fault = Vague
			}
			return nothingDone[fault]
		}}
		return f(q)
	})
}

type readConn struct {
	sqldb.Conn
	fault func() error
}

func (c readConn) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	if err := c.fault(); err != nil {
		return 0, err
	}
	return c.Conn.Run(statement, args, each)
}

func (e engine) Write(ctx context.Context, method string, precedence sqldb.Precedence, f func(sqldb.Tx) error) error {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	fault := e.db.fault(ctx, method, Asking)
	if err := nothingDone[fault]; err != nil {
		return err
	}
	err := e.Engine.Write(ctx, method, precedence, func(q sqldb.Tx) error {
		if err := f(q); err != nil {
			return err
		}
		late := e.db.fault(ctx, method, Committing)
		if late == Lost {
			fault = Lost
		}
		return nothingDone[late]
	})
	if err == nil && fault == Lost {
		return errLost
	}
	return err
}
