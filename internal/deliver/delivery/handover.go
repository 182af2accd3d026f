package delivery

import (
	"context"
	"sync/atomic"
)

type stopKey struct{}

// WithStop puts a channel into the context, which is closed when the service begins to stop.
func WithStop(ctx context.Context, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stopping)
}

// Stopping returns the channel of WithStop, or nil. Once it is closed, messages should stop waiting
// for their turn.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stopping
}

type handoverKey struct{}

// WithHandover returns the context of one attempt, for which SetHandover and HandedOver work.
func WithHandover(ctx context.Context) context.Context {
	return context.WithValue(ctx, handoverKey{}, new(atomic.Bool))
}

// SetHandover records whether the provider may have received the message of the attempt: with SMTP
// once the first byte of the final dot has left, with an HTTP API once the first byte of the
// request has left. An attempt that panics returns no result, but HandedOver then still tells.
func SetHandover(ctx context.Context, may bool) {
	if attempt, ok := ctx.Value(handoverKey{}).(*atomic.Bool); ok {
		attempt.Store(may)
	}
}

// HandedOver is false if SetHandover was not called.
func HandedOver(ctx context.Context) bool {
	attempt, ok := ctx.Value(handoverKey{}).(*atomic.Bool)
	return ok && attempt.Load()
}
