package verification

import (
	"container/list"
	"context"
	"sync"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/store"
)

// Bounds of an admission.
const (
	mostUnderWay  = 1024             // requests at once: as many as are decided in 2.4 s where a round trip takes 600 ms
	leastUnderWay = 512              // two shared trips have places for as many; fewer would leave some empty
	quick         = time.Second / 2  // while no request takes longer, nothing is refused below mostUnderWay
	retryAfter    = 3 * time.Second  // an overload that ends is over by then
	paceSlots     = 50               // the pace is known for so many times paceSlot
	paceSlot      = time.Second / 10 // requests that are decided within it are counted together
)

// answerWithin returns how long an admitted request may take until it is decided. It is less than store.CallTimeout, so that those whose
// answers take longest still get one.
func answerWithin() time.Duration { return store.CallTimeout * 4 / 5 }

// admission bounds how many requests are under way at once, so that all of them are answered in time: those beyond are refused at once
// (load shedding). Without it, under more load than the database can serve, all requests wait and time out together.
//
// Requests are decided first in, first out. So the next one takes the number of those under way, divided by the pace at which they are
// decided (Little's law). The pace is measured over as long as the oldest one is under way: it is that of the network, the disk, the locks,
// Redis and the processors, whichever is slowest. Strangers have at most half of the places, and others at least half. Safe for concurrent use.
type admission struct {
	mu        sync.Mutex
	underWay  *list.List     // when each began, oldest first
	strangers int            // among them
	decided   [paceSlots]int // requests decided in each of the last slots of time
	slot      int64          // the newest of these
}

func newAdmission() *admission { return &admission{underWay: list.New()} }

// OverloadedError refuses a request because those under way are as many as can be decided in time. It is a fault.Unavailable: nothing was
// done or counted.
type OverloadedError struct {
	RetryAfter time.Duration // positive
}

func (e *OverloadedError) Error() string {
	return "verification: more requests than can be served in time"
}

// Is reports that it is fault.Unavailable. errors.Is calls it.
func (e *OverloadedError) Is(target error) bool { return target == fault.Unavailable }

// enter admits a request or returns an *OverloadedError. The caller must call leave when the request is decided, or with false if it will
// not be; only the first call has an effect.
func (a *admission) enter(stranger bool) (leave func(decided bool), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	most := a.most(now)
	full, own := a.underWay.Len() >= most, a.underWay.Len()-a.strangers
	if stranger {
		own = a.strangers
	}
	if own >= most/2 && (full || stranger) {
		return nil, &OverloadedError{retryAfter}
	}
	if stranger {
		a.strangers++
	}
	place := a.underWay.PushBack(now)
	var once sync.Once
	return func(decided bool) { once.Do(func() { a.leave(place, stranger, decided) }) }, nil
}

func (a *admission) leave(place *list.Element, stranger, decided bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay.Remove(place)
	if stranger {
		a.strangers--
	}
	if decided {
		a.advance(time.Now())
		a.decided[a.slot%paceSlots]++
	}
}

// most returns how many requests may be under way at once. The caller holds the lock.
func (a *admission) most(now time.Time) int {
	if a.underWay.Len() == 0 {
		return mostUnderWay
	}
	age := now.Sub(a.underWay.Front().Value.(time.Time))
	if age < quick {
		return mostUnderWay
	}
	a.advance(now)
	slots, decided := min(int64(age/paceSlot), paceSlots-1), 0
	for i := range slots + 1 { // the newest slot has only begun
		decided += a.decided[(a.slot-i+paceSlots)%paceSlots]
	}
	return min(max(decided*int(answerWithin()/paceSlot)/int(slots), leastUnderWay), mostUnderWay)
}

// advance begins the slot of the present time. The caller holds the lock.
func (a *admission) advance(now time.Time) {
	slot := now.UnixNano() / int64(paceSlot)
	for range min(max(slot-a.slot, 0), paceSlots) {
		a.slot++
		a.decided[a.slot%paceSlots] = 0
	}
	a.slot = slot
}

// enter admits a request of a class, or counts its refusal for the log lines of an overload.
func (s *Service) enter(a *admission, what string, class store.Class) (leave func(decided bool), err error) {
	leave, err = a.enter(class.IsStranger())
	if err != nil {
		s.overload.count(what)
		s.LogAlarms(context.Background())
	}
	return leave, err
}
