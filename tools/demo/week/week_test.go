//go:build nightly

// Only make nightly runs these tests: nothing but the demo has its week.

package week

import (
	"slices"
	"testing"
	"time"
)

// A week that begins at the same instant is the same week, and everything in it lies within it.
func TestTheSameWeek(t *testing.T) {
	begin := time.Date(2026, 11, 14, 9, 30, 0, 0, time.UTC)
	plan := func() (times []time.Time) {
		w := &week{clock: newSimulatedClock(begin), rng: newSeededRand(2), begin: begin}
		w.plan()
		for _, s := range w.steps {
			times = append(times, s.at)
		}
		return times
	}
	times := plan()
	if !slices.Equal(times, plan()) {
		t.Error("two plans differ")
	}
	if len(times) < signInCount || !slices.IsSortedFunc(times, time.Time.Compare) {
		t.Errorf("%d steps, in order: %v", len(times), slices.IsSortedFunc(times, time.Time.Compare))
	}
	if first, last := times[0], times[len(times)-1]; first.Before(begin) || !last.Before(begin.Add(length)) {
		t.Errorf("from %s to %s", first, last)
	}
}
