package delivery

import (
	"context"
	"sync/atomic"
	"time"
)

type stopKey struct{}

// WithStop returns a context with a channel that is closed when the service begins to stop.
func WithStop(ctx context.Context, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stopping)
}

// Stopping returns the channel of WithStop, or nil. Once the channel is closed, messages should
// stop waiting for their turn.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stopping
}

type attemptKey struct{}

// attempt holds the state of one attempt that the outbox and a provider share.
type attempt struct {
	handedOver atomic.Bool
	began      time.Time
	turn       atomic.Int64 // when the message got a connection, in ns since began; 0: without a wait; waitsForTurn: it still waits
}

const waitsForTurn = -1

// WithHandover returns the context of one attempt, for which SetHandover, HandedOver, AwaitTurn,
// BeginTurn and TurnBegan work.
func WithHandover(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, &attempt{began: time.Now()})
}

// AwaitTurn records that the message waits for a connection that other messages use. BeginTurn
// records that it has got one. A provider that calls neither accepts each message at once.
func AwaitTurn(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.turn.Store(waitsForTurn)
	}
}

// BeginTurn records that the message has got a connection; see AwaitTurn.
func BeginTurn(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.turn.Store(max(1, int64(time.Since(a.began))))
	}
}

// TurnBegan returns when the message got a connection, or when the attempt began if the message did
// not wait for one. It returns false if the message still waits.
func TurnBegan(ctx context.Context) (at time.Time, began bool) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return at, true
	}
	turn := a.turn.Load()
	return a.began.Add(time.Duration(max(0, turn))), turn != waitsForTurn
}

// SetHandover records whether the provider may have received the message of the attempt: with SMTP
// once the first byte of the final dot has left, with an HTTP API once the first byte of the
// request has left. If an attempt panics, it returns no result, but HandedOver still returns what
// was recorded.
func SetHandover(ctx context.Context, may bool) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.handedOver.Store(may)
	}
}

// HandedOver returns what SetHandover recorded last, or false if it was not called.
func HandedOver(ctx context.Context) bool {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	return ok && a.handedOver.Load()
}

// CauseOf returns why ctx ended: ErrGaveWay, or the error of ctx. It returns nil if ctx has not
// ended.
func CauseOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == ErrGaveWay {
		return cause
	}
	return ctx.Err()
}
