package parts_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"sendcode/internal/parts"
)

// Without Bubble this crashes the test's process in two runs of three under the race detector.
func TestManyTimersEndAtOnceInABubble(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("bubbles", func(t *testing.T) {
		for range 3 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				parts.Bubble(t, func(*testing.T) {
					var all sync.WaitGroup
					for range 64 {
						all.Go(func() {
							for range 300 {
								timer := time.NewTimer(time.Millisecond)
								time.Sleep(time.Millisecond)
								select {
								case <-timer.C:
								case <-time.After(time.Millisecond):
								}
							}
						})
					}
					all.Wait()
				})
			})
		}
	})
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors before, %d after", before, after)
	}
}
