// Package panics recovers from panics. It logs each panic once, with its stack, and counts panics
// by the kind of work that they ended.
//
// A panic must end one piece of work and not the process. Otherwise a row whose delivery panics
// would end one replica after another. A function that runs in a new goroutine must defer Recover.
// The same is true for a callback that a library runs in a goroutine.
//
// There is one exception: goroutines and timers of a few lines that only take a lock, close a
// channel or a socket, or compare an address before a dial. If such a goroutine panics, memory is
// corrupt, and the process must end. Locks, slots and connections are released by defer, so they
// are also released after a panic.
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

// Counts has the number of panics since the process started, for each kind of work that a panic can
// end.
var Counts = map[string]*atomic.Int64{Attempt: {}, Batch: {}, Job: {}, Request: {}, Other: {}}

// Err is the error of work that a panic ended.
var Err = errors.New("a panic ended the work")

// Recover recovers from a panic of the function that defers Recover. It logs the panic and then
// calls the functions in the parameter then. These functions can set the results of the deferring
// function. Defer Recover itself. If you defer a function that calls Recover, the panic is not
// recovered.
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
