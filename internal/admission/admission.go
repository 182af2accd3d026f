// Package admission bounds how many requests are under way at once: in the process, so that all of
// them are answered in time (Admission), and for one recipient, so that a flood for one delays no
// other (Bulkhead).
package admission

import (
	"container/list"
	"maps"
	"sync"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/store"
)

// MaxUnderWay is how many requests an Admission has under way at most: as many as are decided in
// 2.4 s where a round trip takes 600 ms.
const MaxUnderWay = 1024

// Bounds of an admission.
const (
	minUnderWayLimit = 512              // two shared trips have places for as many; fewer would leave some empty
	slowAfter        = time.Second / 2  // while no request takes longer, nothing is refused below MaxUnderWay
	retryAfter       = 3 * time.Second  // an overload that ends is over by then
	paceSlots        = 50               // the pace is known for so many times paceSlotLength
	paceSlotLength   = time.Second / 10 // requests that are decided within it are counted together
)

// maxDecisionTime returns how long an admitted request may take until it is decided. It is less
// than store.CallTimeout, so that those whose answers take longest still get one.
func maxDecisionTime() time.Duration { return store.CallTimeout * 4 / 5 }

// Admission bounds how many requests are under way at once, so that all of them are answered in
// time: those beyond are refused at once (load shedding). Without it, under more load than the
// database can serve, all requests wait and time out together.
//
// Requests are decided first in, first out. So the next one takes the number of those under way,
// divided by the pace at which they are decided (Little's law). The pace is measured over as long
// as the oldest one is under way: it is that of the network, the disk, the locks, Redis and the
// processors, whichever is slowest. Strangers have at most half of the places, and others at least
// half. Safe for concurrent use.
type Admission struct {
	mu        sync.Mutex
	underWay  *list.List     // when each began, oldest first
	strangers int            // among them
	decided   [paceSlots]int // requests decided in each of the last slots of time
	began     time.Time      // when the first slot began
	slot      int64          // the newest of these
	refused   map[string]int // so far, by class
}

// Classes of requests.
const (
	ClassStranger = "stranger"
	ClassKnown    = "known"
	ClassUnread   = "unread" // refused before its key and body were read
)

// New returns an admission with all places free.
func New() *Admission {
	return &Admission{began: time.Now(), underWay: list.New(), refused: map[string]int{ClassStranger: 0, ClassKnown: 0, ClassUnread: 0}}
}

// OverloadedError refuses a request because those under way are as many as can be decided in time.
// It is a fault.Unavailable: nothing was done or counted.
type OverloadedError struct {
	RetryAfter time.Duration // positive
}

func (e *OverloadedError) Error() string {
	return "admission: more requests than can be served in time"
}

// Is reports that it is fault.Unavailable. errors.Is calls it.
func (e *OverloadedError) Is(target error) bool { return target == fault.Unavailable }

// Enter admits a request or returns an *OverloadedError. The caller must call leave when the
// request is decided, or with false if it will not be; only the first call has an effect.
func (a *Admission) Enter(stranger bool) (leave func(decided bool), err error) {
	class := ClassOf(stranger)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if err := a.refuseIfFullLocked(class, now); err != nil {
		return nil, err
	}
	if stranger {
		a.strangers++
	}
	place := a.underWay.PushBack(now)
	var once sync.Once
	return func(decided bool) { once.Do(func() { a.leave(place, stranger, decided) }) }, nil
}

// RefuseIfFull returns the *OverloadedError with which Enter would refuse a request of a class now;
// Unread: any request.
func (a *Admission) RefuseIfFull(class string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuseIfFullLocked(class, time.Now())
}

// refuseIfFullLocked returns an *OverloadedError and counts it if a request of a class has no
// place: all places are taken, of which others have at least half, or strangers have their half.
// The caller holds the lock.
func (a *Admission) refuseIfFullLocked(class string, now time.Time) error {
	most := a.limit(now)
	switch {
	case a.underWay.Len() >= most && a.underWay.Len()-a.strangers >= most/2:
	case class == ClassStranger && a.strangers >= most/2:
	default:
		return nil
	}
	a.refused[class]++
	return &OverloadedError{retryAfter}
}

// ClassOf returns the class of a request whose key was read.
func ClassOf(stranger bool) string {
	if stranger {
		return ClassStranger
	}
	return ClassKnown
}

func (a *Admission) leave(place *list.Element, stranger, decided bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay.Remove(place)
	if stranger {
		a.strangers--
	}
	if decided {
		a.advanceSlots(time.Now())
		a.decided[a.slot%paceSlots]++
	}
}

// limit returns how many requests may be under way at once. The caller holds the lock.
func (a *Admission) limit(now time.Time) int {
	if a.underWay.Len() == 0 {
		return MaxUnderWay
	}
	age := now.Sub(a.underWay.Front().Value.(time.Time))
	if age < slowAfter {
		return MaxUnderWay
	}
	a.advanceSlots(now)
	slots, decided := min(int64(age/paceSlotLength), paceSlots-1), 0
	for i := range slots + 1 { // the newest slot has only begun
		decided += a.decided[(a.slot-i+paceSlots)%paceSlots]
	}
	return min(max(decided*int(maxDecisionTime()/paceSlotLength)/int(slots), minUnderWayLimit), MaxUnderWay)
}

// advanceSlots empties the slots that began since its last call and makes now's the current one.
// The caller holds the lock.
func (a *Admission) advanceSlots(now time.Time) {
	slot := int64(now.Sub(a.began) / paceSlotLength) // by the monotonic clock, which no step of the wall clock moves
	for range min(slot-a.slot, paceSlots) {
		a.slot++
		a.decided[a.slot%paceSlots] = 0
	}
	a.slot = slot
}

// State is how full an admission is, for metrics.
type State struct {
	Most     int            // how many may be under way at once
	UnderWay map[string]int // by class: Stranger or Known
	Refused  map[string]int // at once, since the start, by class: Stranger, Known, or Unread
}

// State returns how full the admission is now.
func (a *Admission) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return State{Most: a.limit(time.Now()), Refused: maps.Clone(a.refused),
		UnderWay: map[string]int{ClassStranger: a.strangers, ClassKnown: a.underWay.Len() - a.strangers}}
}
