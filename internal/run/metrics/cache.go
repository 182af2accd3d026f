package metrics

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/base/panics"
)

// MaxRecentWait is how long Get waits at most for a newer answer.
const MaxRecentWait = 250 * time.Millisecond

// Recent calls Ask for a value in the background and keeps the last answer, so that a slow source delays
// a caller by at most MaxRecentWait. Set the fields before the first Get. Safe
// for concurrent use.
type Recent[T any] struct {
	Ask         func(context.Context) (T, error) // called without the deadline of Get's caller
	Every       time.Duration                    // least time between the beginnings of two calls of Ask
	PauseFactor int                              // after a call of Ask, none begins for PauseFactor times its duration
	Timeout     time.Duration                    // of one call; 0: Ask has a timeout of its own

	mu      sync.Mutex
	running chan struct{} // closed when the call under way ends; nil: no call is under way
	last    RecentAnswer[T]
}

// RecentAnswer is the result of the calls of Ask; zero before the first call has ended.
type RecentAnswer[T any] struct {
	Value T         // of the last call that did not fail
	Asked time.Time // when the call that returned Recent began
	Err   error     // of the last call
	Next  time.Time // when the next call may begin
}

// Get returns the last answer. If a call of Ask may begin, Get begins it. If one is under way, Get
// first waits for its end, at most MaxRecentWait, or until ctx ends.
func (r *Recent[T]) Get(ctx context.Context) RecentAnswer[T] {
	r.mu.Lock()
	if r.running == nil && !time.Now().Before(r.last.Next) {
		r.running = make(chan struct{})
		go r.refresh(context.WithoutCancel(ctx), r.running)
	}
	running := r.running
	r.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(MaxRecentWait):
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *Recent[T]) refresh(ctx context.Context, ended chan struct{}) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	began := time.Now()
	var value T
	err := panics.Err
	defer func() {
		took := time.Since(began)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last.Err = err
		if err == nil {
			r.last.Value, r.last.Asked = value, began
		}
		r.last.Next = began.Add(max(r.Every, took+time.Duration(r.PauseFactor)*took))
		r.running = nil
		close(ended)
	}()
	defer panics.Recover(panics.Other)
	value, err = r.Ask(ctx)
}
