// Package recent keeps the last answer of a part of the service that is asked in the background, so
// that a part that hangs delays no caller.
package recent

import (
	"context"
	"sync"
	"time"
)

// MaxWait is how long Get waits for a newer answer.
const MaxWait = 250 * time.Millisecond

// Value asks for a value and keeps the last answer. Safe for concurrent use.
type Value[T any] struct {
	Ask     func(context.Context) (T, error) // called without the deadline of Get's caller
	Every   time.Duration                    // the least time between two calls of Ask
	Share   int                              // calls take at most a part in Share of the time; 0: any part
	Timeout time.Duration                    // of one call; 0: Ask has one of its own

	mu      sync.Mutex
	running chan struct{} // closed when the present call ends; nil: there is none
	last    Answer[T]
}

// Answer is the last answer; zero before there is one.
type Answer[T any] struct {
	Value T         // of the last call that did not fail
	Asked time.Time // when that began
	Err   error     // of the last call
	Next  time.Time // when the next call may begin
}

// Get returns the last answer. If a call may begin, it begins one; it waits up to Wait for the call
// that is under way.
func (v *Value[T]) Get(ctx context.Context) Answer[T] {
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
		case <-time.After(MaxWait):
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

func (v *Value[T]) refresh(ctx context.Context, ended chan struct{}) {
	if v.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, v.Timeout)
		defer cancel()
	}
	began := time.Now()
	value, err := v.Ask(ctx)
	took := time.Since(began)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.Err = err; err == nil {
		v.last.Value, v.last.Asked = value, began
	}
	v.last.Next = began.Add(max(v.Every, took+time.Duration(v.Share)*took))
	v.running = nil
	close(ended)
}
