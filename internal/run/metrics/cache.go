package metrics

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/base/panics"
)

// MaxCacheWait is how long Get waits at most for a newer answer.
const MaxCacheWait = 250 * time.Millisecond

// BackgroundCache calls Ask in the background and keeps the last answer, so that a slow source
// delays a caller by at most MaxCacheWait. Set the exported fields before the first Get. A
// BackgroundCache is safe for concurrent use.
type BackgroundCache[T any] struct {
	Ask         func(context.Context) (T, error) // called without the deadline of Get's caller
	Every       time.Duration                    // least time between the beginnings of two calls of Ask
	PauseFactor int                              // after a call of Ask, no call begins for PauseFactor times its duration
	Timeout     time.Duration                    // timeout of one call of Ask; 0: BackgroundCache sets no timeout

	mu      sync.Mutex
	running chan struct{} // closed when the call under way ends; nil: no call is under way
	last    CachedAnswer[T]
}

// CachedAnswer has the results of the calls of Ask. It is zero until the first call has ended.
type CachedAnswer[T any] struct {
	Value   T         // of the last call that did not fail
	AskedAt time.Time // when the call that returned Value began
	Err     error     // of the last call
	Next    time.Time // when the next call may begin
}

// Get returns the last answer. It first begins a call of Ask if Next has come. While a call is
// under way, Get waits until the call ends, MaxCacheWait has passed or ctx ends.
func (b *BackgroundCache[T]) Get(ctx context.Context) CachedAnswer[T] {
	b.mu.Lock()
	if b.running == nil && !time.Now().Before(b.last.Next) {
		b.running = make(chan struct{})
		go b.refresh(context.WithoutCancel(ctx), b.running)
	}
	running := b.running
	b.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(MaxCacheWait):
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *BackgroundCache[T]) refresh(ctx context.Context, ended chan struct{}) {
	if b.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.Timeout)
		defer cancel()
	}
	began := time.Now()
	var value T
	err := panics.Err
	defer func() {
		took := time.Since(began)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.last.Err = err
		if err == nil {
			b.last.Value, b.last.AskedAt = value, began
		}
		b.last.Next = began.Add(max(b.Every, took+time.Duration(b.PauseFactor)*took))
		b.running = nil
		close(ended)
	}()
	defer panics.Recover(panics.Other)
	value, err = b.Ask(ctx)
}
