package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/kit/servertest"
)

func TestBulkheadAcquireEndsWithPatienceOrTheClient(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := NewBulkhead()
		var slots []*Slot
		for range MaxPerRecipient {
			next, err := l.Acquire(t.Context(), "ana", false)
			servertest.OK(t, err)
			slots = append(slots, next)
		}
		began := time.Now()
		if _, err := l.Acquire(t.Context(), "ana", false); !errors.Is(err, errNoSlot) || time.Since(began) != MaxSlotWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		gone, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		began = time.Now()
		if _, err := l.Acquire(gone, "ana", false); !errors.Is(err, errNoSlot) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		slots[0].Release(true) // free at once; the second Release does nothing
		slots[0].Release(false)
		began = time.Now()
		next, err := l.Acquire(t.Context(), "ana", false)
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		next.Release(false)
		if _, err := l.Acquire(t.Context(), "ana", false); err != nil || time.Since(began) != releaseDelay {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, held := range slots[1:] {
			held.Release(true)
		}
		servertest.Same(t, "slots are taken", l.queues["ana"].used, 1)
	})
}

// A flood of strangers takes half of the slots. A known caller's request then gets a slot at once,
// and a stranger's request gets none, in whichever order slots are released. A stranger that
// disconnects during either wait takes no slot.
func TestBulkheadGivesStrangersHalf(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := NewBulkhead()
		acquire := func(stranger bool, patience time.Duration) *Slot {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s, _ := l.Acquire(ctx, "ana", stranger)
			return s
		}
		var held []*Slot
		for range maxStrangersPerRecipient {
			held = append(held, acquire(true, 0))
		}
		for range 3 {
			servertest.Same(t, "one more stranger has a slot", acquire(true, time.Second) != nil, false)
		}
		for range MaxPerRecipient - maxStrangersPerRecipient {
			held = append(held, acquire(false, 0))
		}
		servertest.Same(t, "one more of those known has a slot", acquire(false, time.Second) != nil, false)
		held[0].Release(true)
		others := []*Slot{acquire(false, 0)} // other callers may take strangers' slots
		servertest.Same(t, "a stranger has a slot where others have all", acquire(true, time.Second) != nil, false)
		others[0].Release(false)
		again := acquire(true, time.Second)
		servertest.Same(t, "a stranger has a slot after one was released", again != nil, true)
		began := time.Now()
		next := make(chan *Slot, 1)
		go func() { next <- acquire(false, time.Minute) }()
		time.AfterFunc(MaxSlotWait/2, func() { held[1].Release(true) }) // the next caller gets this slot
		servertest.Same(t, "a stranger's slot that others take first", acquire(true, time.Minute), nil)
		servertest.Same(t, "its wait", time.Since(began), MaxSlotWait)
		for _, s := range append(held[2:], <-next, again) {
			s.Release(false)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		servertest.Same(t, "queues", len(l.queues), 0)
	})
}

// Requests that came at the same time do not continue at the same time: slots become free one by
// one, at an even rate.
func TestBulkheadFreesSlotsOneByOne(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		l := NewBulkhead()
		began := time.Now()
		entered := map[time.Duration]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 8 * MaxPerRecipient {
			all.Go(func() {
				for time.Since(began) < time.Second {
					next, err := l.Acquire(t.Context(), "ana", false)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					entered[time.Since(began)]++
					mu.Unlock()
					next.Release(false)
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
		if entered[0] != MaxPerRecipient || requests < 950 || requests > 1000+MaxPerRecipient {
			t.Errorf("%d at first, %d in a second", entered[0], requests)
		}
	})
}
