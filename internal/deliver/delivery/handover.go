package delivery

import (
	"context"
	"sync/atomic"
)

// stopKey is the key of WithStop.
type stopKey struct{}

// WithStop returns a context that carries the given channel. The function Stopping gets the channel
// from the context. The channel is closed when the service begins to stop.
func WithStop(ctx context.Context, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stopping)
}

// Stopping returns the channel that WithStop put into ctx. It returns nil if ctx has no such
// channel. When the channel is closed, messages should stop waiting for their turn.
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

// SetHandover records whether the provider may have received the message of the attempt. With SMTP,
// this is so once the first byte of the final dot has left. With an HTTP API, it is so once the
// first byte of the request has left. An attempt that panics returns no result, but HandedOver then
// returns the recorded value.
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
