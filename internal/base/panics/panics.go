// Package panics recovers from panics. It counts each panic by the work that it ended, and logs it
// once, with its stack.
//
// A panic ends one piece of work and not the process. Otherwise a row whose delivery panics would
// end one replica after another. Code that starts a goroutine, or passes a callback for one to a
// library, defers Recover there. Exempt are goroutines and timers of a few lines that only take a
// lock, close a channel or a socket, or compare an address before a dial. If these panic, memory is
// corrupt, and the process ends on purpose. Locks, slots and connections are released by defer, so
// that a panic keeps none.
package panics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"sendcode/internal/base/logs"
)

// The kinds of work, as the label "where" of sendcode_panics_total has them.
const (
	Attempt = "attempt" // one attempt to deliver a send, or the record of its outcome
	Batch   = "batch"   // calls of the database that share a transaction
	Job     = "job"     // one run of a periodic job
	Request = "request" // an HTTP request, or a part of it
	Other   = "other"   // all other work
)

// Counts are the numbers of panics since the process started, by the work that each ended.
var Counts = map[string]*atomic.Int64{Attempt: {}, Batch: {}, Job: {}, Request: {}, Other: {}}

// Err is the error of work that a panic ended.
var Err = errors.New("a panic ended the work")

// Recover must be deferred itself. If the caller panics, Recover logs the panic and calls then to
// set the caller's results.
func Recover(where string, then ...func()) {
	if value := recover(); value != nil {
		Log(context.Background(), slog.Default(), where, value)
		for _, f := range then {
			f()
		}
	}
}

// Log counts and logs a recovered panic. It logs the value's type and not the value, which may hold
// a code or an address.
func Log(ctx context.Context, logger *slog.Logger, where string, value any, more ...any) {
	Counts[where].Add(1)
	logger.ErrorContext(ctx, "panic", append(more, "where", where, "type", fmt.Sprintf("%T", value),
		"stack", string(debug.Stack()), logs.SeeDefect)...)
}
