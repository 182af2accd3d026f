package metrics

import (
	"context"
	"sync"
	"time"
)

// reading asks the database for what gauges show, in the background, so that a scrape never waits
// for one that hangs. It asks at most every readEvery, and takes at most a part in readShare of the
// time. Safe for concurrent use.
type reading[T any] struct {
	ask func(context.Context) (T, error)

	mu      sync.Mutex
	next    time.Time     // no reading begins before
	running chan struct{} // closed when the present reading ends; nil: there is none
	value   T
	known   bool // the last reading did not fail
}

const (
	readEvery   = 5 * time.Second
	readShare   = 20
	readTimeout = 5 * time.Second        // of one reading
	readWait    = 250 * time.Millisecond // how long a scrape waits for one
	readValid   = 15 * time.Second       // how long a value is shown after the next reading could have begun
)

// get returns the last value; false if there is none, or it is too old.
func (r *reading[T]) get() (T, bool) {
	r.mu.Lock()
	if r.running == nil && !time.Now().Before(r.next) {
		r.running = make(chan struct{})
		go r.run(r.running)
	}
	running := r.running
	r.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(readWait):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.known && time.Since(r.next) < readValid
}

func (r *reading[T]) run(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	began := time.Now()
	value, err := r.ask(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value, r.known = value, err == nil
	r.next = time.Now().Add(max(readEvery, readShare*time.Since(began)))
	r.running = nil
	close(ended)
}
