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
func (v *Recent[T]) Get(ctx context.Context) RecentAnswer[T] {
	v.mu.Lock()
	if v.running == nil && !time.Now().Before(v.last.Next) {
		v.running = make(chan struct{})
		go v.refresh(context.WithoutCancel(ctx), v.running)
	}
	running := v.running
	v.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(MaxRecentWait):
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

func (v *Recent[T]) refresh(ctx context.Context, ended chan struct{}) {
	if v.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, v.Timeout)
		defer cancel()
	}
	began := time.Now()
	var value T
	err := panics.Err
	defer func() {
		took := time.Since(began)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.last.Err = err
		if err == nil {
			v.last.Value, v.last.Asked = value, began
		}
		v.last.Next = began.Add(max(v.Every, took+time.Duration(v.PauseFactor)*took))
		v.running = nil
		close(ended)
	}()
	defer panics.Recover(panics.Other)
	value, err = v.Ask(ctx)
}
