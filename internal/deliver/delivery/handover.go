package delivery

import (
	"context"
	"sync/atomic"
)

// stopKey is the key of WithStop.
type stopKey struct{}

// WithStop returns a context with the channel stopping, for Stopping. The channel is closed when
// the service begins to stop.
func WithStop(ctx context.Context, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stopping)
}

// Stopping returns the channel of WithStop; nil: ctx has none. When the channel is closed, messages
// should stop waiting for their turn.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stopping
}

// handoverKey is the key of an attempt's handover in its context.
type handoverKey struct{}

// WithHandover returns the context of one attempt, for which SetHandover and HandedOver work.
func WithHandover(ctx context.Context) context.Context {
	return context.WithValue(ctx, handoverKey{}, new(atomic.Bool))
}

// SetHandover says whether a provider may have the attempt's message: from the first byte of the
// final dot or of a request on, it may. After a panic, the attempt returns nothing, and HandedOver
// has the answer.
func SetHandover(ctx context.Context, may bool) {
	if attempt, ok := ctx.Value(handoverKey{}).(*atomic.Bool); ok {
		attempt.Store(may)
	}
}

// HandedOver returns the last value that SetHandover set for the attempt; false if it was not
// called.
func HandedOver(ctx context.Context) bool {
	attempt, ok := ctx.Value(handoverKey{}).(*atomic.Bool)
	return ok && attempt.Load()
}
