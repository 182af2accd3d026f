// Package panics recovers from panics. It counts each panic by the kind of work that it ended, and
// logs it once, with its stack.
//
// A panic ends one piece of work and not the process. Otherwise a row whose delivery panics would
// end one replica after another. Code that starts a goroutine, or passes a callback to a library
// for a goroutine, defers Recover in that goroutine. Exempt are goroutines and timers of a few
// lines that only take a lock, close a channel or a socket, or compare an address before a dial. If
// these panic, memory is corrupt, and the process ends on purpose. Locks, slots and connections are
// released by defer, so a panic keeps none of them.
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

// The kinds of work, which are values of the label "where" of sendcode_panics_total.
const (
	Attempt = "attempt" // one attempt to deliver a send, or the record of its outcome
	Batch   = "batch"   // calls of the database that share a transaction
	Job     = "job"     // one run of a periodic job
	Request = "request" // an HTTP request, or a part of it
	Other   = "other"   // all other work
)

// Counts are the numbers of panics since the process started. The key is the kind of work that the
// panic ended.
var Counts = map[string]*atomic.Int64{Attempt: {}, Batch: {}, Job: {}, Request: {}, Other: {}}

// Err is the error of work that a panic ended.
var Err = errors.New("a panic ended the work")

// Recover recovers from a panic of the function that defers it: it logs the panic and calls then,
// which set the function's results. Defer Recover itself, not a function that calls it.
func Recover(where string, then ...func()) {
	if value := recover(); value != nil {
		Log(context.Background(), slog.Default(), where, value)
		for _, f := range then {
			f()
		}
	}
}

// Log counts and logs a recovered panic. It logs the type of the panic's value but not the value,
// which may contain a code or an address.
func Log(ctx context.Context, logger *slog.Logger, where string, value any, more ...any) {
	Counts[where].Add(1)
	logger.ErrorContext(ctx, "panic", append(more, "where", where, "type", fmt.Sprintf("%T", value),
		"stack", string(debug.Stack()), logs.SeeDefect)...)
}
