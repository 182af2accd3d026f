package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
)

// together runs a batch of calls. It answers every call or returns an error. After an error,
// runTogether runs only the calls that are not answered yet. If brief is true, the statements wait
// only briefly for locks.
type together[In, Answer any] func(ctx context.Context, brief bool, calls []*batch.Call[In, Answer]) error

// parts is the number of parts into which a failed batch is divided. So a batch of 256 calls runs
// in parts of 32, then in parts of 4, and then each call runs alone.
const parts = 8

// runTogether runs a batch. If the batch fails and one call may be the cause, by its data or by a
// lock, runTogether divides the batch into parts. It runs each part, and divides a failed part
// again, until the failing call runs alone. Only that call gets the error.
//
// The parts wait only briefly for locks, so that a call that waits for a lock does not delay the
// other calls. All parts have the deadline of ctx. Calls that remain after the deadline get an
// error.
func runTogether[In, Answer any](ctx context.Context, brief bool, calls []*batch.Call[In, Answer], run together[In, Answer]) {
	err := run(ctx, brief, calls)
	if err == nil {
		return
	}
	calls = slices.DeleteFunc(slices.Clone(calls), (*batch.Call[In, Answer]).Answered)
	if n := len(calls); n > 1 && !errors.Is(err, fault.Uncertain) && causedByOneCall(err) {
		for part := range slices.Chunk(calls, (n+parts-1)/parts) {
			runTogether(ctx, true, part, run)
		}
		return
	}
	for _, x := range calls {
		x.SetAnswer(*new(Answer), err)
	}
}

// errPanicBefore is the error of a batch that a panic ended before the batch's statement began.
var errPanicBefore = store.WrapUnavailable(panics.Err)

// causedByOneCall reports whether one call may have made its whole batch fail: by its data
// (SQLSTATE classes 22, 23 and 54), a lock that was not free, a timeout, a deadlock (40), or a
// panic.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func causedByOneCall(err error) bool {
	c := sqlState(err)
	return err == errPanicBefore || isRolledBack(err) && (slices.Contains([]string{"22", "23", "40", "54"}, c[:min(2, len(c))]) ||
		c == lockNotAvailable || c == "57014")
}

// briefLockTimeout is the lock_timeout of the parts of a failed batch. If five of 256 calls wait
// for locks, runTogether runs 68 parts. Of these, 15 parts fail, each after briefLockTimeout, which
// takes 0.75 s in total. On most disks, the batches of other replicas keep a lock for a shorter
// time than briefLockTimeout.
const briefLockTimeout = 50 * time.Millisecond

// waitBrieflySQL begins a transaction whose statements wait only briefly for a lock.
var waitBrieflySQL = fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true)", briefLockTimeout.Milliseconds())

// stuckRows has the IDs of rows that a call could not lock although the call ran alone. If such a
// call is repeated, it runs alone again, because a batch with this call would fail. stuckRows is
// safe for concurrent use. The zero value is empty.
type stuckRows struct {
	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

// maxStuckRows is the largest number of rows in stuckRows. If another row is added, stuckRows first
// forgets all rows.
const maxStuckRows = 1000

func (s *stuckRows) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// note adds the row id to the stuck rows if its call could not lock the row. It removes the row if
// the call succeeded.
func (s *stuckRows) note(id uuid.UUID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.ids, id)
	}
	if sqlState(err) != lockNotAvailable {
		return
	}
	if s.ids == nil || len(s.ids) == maxStuckRows {
		s.ids = map[uuid.UUID]bool{}
	}
	s.ids[id] = true
}
