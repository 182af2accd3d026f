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

// batchFunc answers every call or returns an error, after which runBatch runs only the unanswered
// calls. With brief, statements wait only briefly for locks.
type batchFunc[In, Answer any] func(ctx context.Context, brief bool, calls []*batch.Call[In, Answer]) error

// parts is how many parts a failed batch is divided into: 256 calls run in parts of 32, then of 4,
// then each alone.
const parts = 8

// runBatch runs a batch. If it fails and one call may be the cause, by its data or a lock, it
// divides the batch into parts, and failed parts again, until the failing call runs alone and gets
// the error.
//
// Parts wait only briefly for locks, so that a call that waits for one doesn't delay the others.
// All parts have the deadline of ctx, at which the remaining calls get an error.
func runBatch[In, Answer any](ctx context.Context, brief bool, calls []*batch.Call[In, Answer], run batchFunc[In, Answer]) {
	err := run(ctx, brief, calls)
	if err == nil {
		return
	}
	calls = slices.DeleteFunc(slices.Clone(calls), (*batch.Call[In, Answer]).Answered)
	if n := len(calls); n > 1 && !errors.Is(err, fault.Uncertain) && causedByOneCall(err) {
		for part := range slices.Chunk(calls, (n+parts-1)/parts) {
			runBatch(ctx, true, part, run)
		}
		return
	}
	for _, x := range calls {
		x.SetAnswer(*new(Answer), err)
	}
}

// errPanicBefore says that a panic ended the batch before its statement began.
var errPanicBefore = store.WrapUnavailable(panics.Err)

// causedByOneCall reports whether one call may have made its batch fail: by its data (SQLSTATE
// classes 22, 23 and 54), a lock, a timeout, a deadlock (40) or a panic. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func causedByOneCall(err error) bool {
	c := sqlState(err)
	return err == errPanicBefore || isRolledBack(err) && (slices.Contains([]string{"22", "23", "40", "54"}, c[:min(2, len(c))]) ||
		c == lockNotAvailable || c == "57014")
}

// briefLockTimeout is the lock_timeout of a failed batch's parts. If five of 256 calls wait for
// locks, 68 parts run, of which 15 fail, in 0.75 s together. On most disks, batches of other
// replicas keep a lock for less.
const briefLockTimeout = 50 * time.Millisecond

// waitBrieflySQL sets briefLockTimeout for the rest of the transaction.
var waitBrieflySQL = fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true)", briefLockTimeout.Milliseconds())

// stuckRows are rows that a call could not lock although it ran alone. A repeated call runs alone
// again, because its batch would fail. Safe for concurrent use. The zero value is empty.
type stuckRows struct {
	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

// maxStuckRows bounds the rows in stuckRows. If there is one more, all are forgotten.
const maxStuckRows = 1000

func (s *stuckRows) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// note adds the row if its call could not lock it, and removes it if the call succeeded.
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
