package metrics

import (
	"context"
	"time"

	"sendcode/internal/recent"
)

const (
	readEvery   = 5 * time.Second
	readShare   = 20
	readTimeout = 5 * time.Second  // of one reading
	readValid   = 15 * time.Second // how long a value is shown after the next reading could have begun
)

// reading is what gauges show of the database or of Redis. A scrape never waits for one that hangs.
type reading[T any] struct{ recent.Value[T] }

func newReading[T any](ask func(context.Context) (T, error)) *reading[T] {
	return &reading[T]{recent.Value[T]{Ask: ask, Every: readEvery, Share: readShare, Timeout: readTimeout}}
}

// get returns the last value; false if there is none, it is too old, or the last reading failed.
func (r *reading[T]) get() (T, bool) {
	last := r.Get(context.Background())
	return last.Value, last.Err == nil && time.Since(last.Next) < readValid
}
