package verification

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sendcode/internal/servertest"
)

func TestALineEndsWithPatienceOrTheClient(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := newBulkhead()
		var slots []*slot
		for range maxConcurrent {
			next, err := l.acquire(t.Context(), "ana")
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, next)
		}
		began := time.Now()
		if _, err := l.acquire(t.Context(), "ana"); !errors.Is(err, errNoSlot) || time.Since(began) != SlotWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		gone, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		began = time.Now()
		if _, err := l.acquire(gone, "ana"); !errors.Is(err, errNoSlot) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		slots[0].releaseNow() // at once, and only once
		slots[0].releaseLater()
		began = time.Now()
		next, err := l.acquire(t.Context(), "ana")
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		next.releaseLater()
		if _, err := l.acquire(t.Context(), "ana"); err != nil || time.Since(began) != releaseDelay {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, held := range slots[1:] {
			held.releaseNow()
		}
		servertest.Same(t, "slots are taken", l.queues["ana"].used, 1)
	})
}

// Requests that came together do not continue together: slots are freed one by one, at the same rate.
func TestTheSlotsOfALineAreFreeOneByOne(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := newBulkhead()
		began := time.Now()
		entered := map[time.Duration]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 8 * maxConcurrent {
			all.Go(func() {
				for time.Since(began) < time.Second {
					next, err := l.acquire(t.Context(), "ana")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					entered[time.Since(began)]++
					mu.Unlock()
					next.releaseLater()
				}
			})
		}
		all.Wait()
		requests := 0
		for at, n := range entered {
			if n > 1 && at > 0 {
				t.Errorf("%d at once after %v", n, at)
			}
			if at < time.Second {
				requests += n
			}
		}
		if entered[0] != maxConcurrent || requests < 950 || requests > 1000+maxConcurrent {
			t.Errorf("%d at first, %d in a second", entered[0], requests)
		}
	})
}
