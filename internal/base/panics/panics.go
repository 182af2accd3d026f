// Package panics recovers from panics, logs each once with its stack, and counts them by the kind
// of work that they ended.
//
// A panic must end one piece of work and not the process. Otherwise a row whose delivery panics
// would end one replica after another. So a function that runs in a new goroutine must defer
// Recover, and so must a callback that a library runs in a goroutine.
//
// Goroutines and timers of a few lines need no Recover if they only take a lock, close a channel or
// a socket, or compare an address before a dial. If one of these panics, memory is corrupt, and the
// process must end. Locks, slots and connections are released by defer, so a panic releases them,
// too.
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

// These are kinds of work: values of the label "where" of sendcode_panics_total.
const (
	Attempt = "attempt" // one attempt to deliver a send, or the record of its outcome
	Batch   = "batch"   // calls of the database that share a transaction
	Job     = "job"     // one run of a periodic job
	Request = "request" // an HTTP request, or a part of it
	Other   = "other"   // all other work
)

// Counts has the number of panics since the process started, by kind of work.
var Counts = map[string]*atomic.Int64{Attempt: {}, Batch: {}, Job: {}, Request: {}, Other: {}}

// Err is the error of work that a panic ended.
var Err = errors.New("a panic ended the work")

// Recover logs a panic of the function that defers it, and then calls the functions in then, which
// can set the results of the deferring function. Defer Recover itself: a deferred function that
// calls Recover doesn't recover the panic.
func Recover(where string, then ...func()) {
	if value := recover(); value != nil {
		Log(context.Background(), slog.Default(), where, value)
		for _, f := range then {
			f()
		}
	}
}

// Log counts and logs a recovered panic. It logs the value's type and not the value, which may
// contain a code or an address.
func Log(ctx context.Context, logger *slog.Logger, where string, value any, more ...any) {
	Counts[where].Add(1)
	logger.ErrorContext(ctx, "panic", append(more, "where", where, "type", fmt.Sprintf("%T", value),
		"stack", string(debug.Stack()), logs.SeeDefect)...)
}
