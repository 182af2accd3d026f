package metrics

import (
	"context"
	"time"
)

const (
	readingEvery       = 5 * time.Second
	readingPauseFactor = 20               // after a reading, no reading begins for 20 times its duration
	readingTimeout     = 5 * time.Second  // of one reading
	readingValidFor    = 15 * time.Second // how long a value is shown after the next reading could have begun
)

// reading is a value that a gauge shows and that the database or Redis supplies. A scrape waits at
// most MaxCacheWait for a new value.
type reading[T any] struct{ BackgroundCache[T] }

func newReading[T any](ask func(context.Context) (T, error)) *reading[T] {
	return &reading[T]{BackgroundCache[T]{Ask: ask, Every: readingEvery, PauseFactor: readingPauseFactor, Timeout: readingTimeout}}
}

// get returns the last value. It returns false if there is none, if the value is too old, or if the
// last reading failed.
func (r *reading[T]) get() (T, bool) {
	last := r.Get(context.Background())
	return last.Value, last.Err == nil && time.Since(last.Next) < readingValidFor
}
