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

// together runs a batch of calls and answers every call, or returns an error. Calls that were
// answered before the error are not run again. If brief is set, its statements wait only briefly
// for a lock.
type together[In, Answer any] func(ctx context.Context, brief bool, calls []*batch.Call[In, Answer]) error

// parts is in how many parts a batch that failed runs: 256 calls run 32 by 32, 4 by 4, and then one
// by one.
const parts = 8

// runTogether runs a batch. If the data or the lock of one call may have made the batch fail, it
// runs the batch in parts, and these again in parts, until that call is alone; only that call gets
// the error. The parts wait only briefly for locks, so that a call that waits for a lock does not
// delay the others. All parts have the deadline of ctx. Calls that remain after the deadline get an
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

// errPanicBefore is the error of a batch if a panic ended it before its statement began.
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

// briefLockTimeout is the lock_timeout of parts. If five of 256 calls wait for locks, 15 of 68
// repetitions fail, which takes 0.75 s. On most disks, other replicas' batches hold a lock for
// less.
const briefLockTimeout = 50 * time.Millisecond

// waitBrieflySQL begins a transaction whose statements wait only briefly for a lock.
var waitBrieflySQL = fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true)", briefLockTimeout.Milliseconds())

// stuckRows are the IDs of rows that a call could not lock although it ran alone. If such a call is
// repeated, it runs alone again: its batch would fail with it. Safe for concurrent use; the zero
// value is empty.
type stuckRows struct {
	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

// maxStuckRows bounds the rows that stuckRows remembers. When there are more, it forgets all rows.
const maxStuckRows = 1000

func (s *stuckRows) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// note remembers a row if its call got no lock, and forgets it if its call succeeded.
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
