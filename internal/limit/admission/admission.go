// Package admission bounds how many requests are under way. A Limiter bounds the requests of the
// whole process, so that admitted requests are answered in time. A Bulkhead bounds the requests for
// one recipient, so that a flood for one recipient doesn't delay the others.
package admission

import (
	"container/list"
	"maps"
	"sync"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// MaxUnderWay is the largest limit of requests under way. A round trip to the database carries 256
// requests. Even at 600 ms for each trip, 1,024 requests are decided in 2.4 s, well within
// maxDecisionTime (4 s).
const MaxUnderWay = 1024

const (
	minUnderWayLimit = 512              // two round trips to the database carry them
	slowAfter        = time.Second / 2  // while no request takes longer, the limit is MaxUnderWay
	retryAfter       = 3 * time.Second  // a short overload is over by then
	rateSlotCount    = 50               // the rate is measured over at most 5 s
	rateSlotLength   = time.Second / 10 // decided requests are counted by slot
)

// maxDecisionTime leaves even the slowest admitted request the time to get its answer before
// store.CallTimeout.
func maxDecisionTime() time.Duration { return store.CallTimeout * 4 / 5 }

// Limiter refuses requests beyond a limit at once (load shedding). Without it, a load above the
// database's capacity would make all requests wait, and time out, together.
//
// Requests are decided first in, first out, so a new one is decided after the number under way
// divided by the rate of decisions (Little's law). The rate is measured since the oldest request
// under way began, whatever limits it: network, disk, locks, Redis or processors.
//
// Strangers get at most half of the places. Safe for concurrent use.
type Limiter struct {
	mu        sync.Mutex
	underWay  *list.List         // when each request under way began, oldest first
	strangers int                // requests of strangers among them
	decided   [rateSlotCount]int // requests decided, by slot
	began     time.Time          // start of the first slot
	slot      int64              // number of the newest slot
	refused   map[string]int     // since the start, by class
}

// These are classes of requests.
const (
	ClassStranger = "stranger"
	ClassKnown    = "known"
	ClassUnread   = "unread" // refused before its key and body were read
)

func New() *Limiter {
	return &Limiter{began: time.Now(), underWay: list.New(), refused: map[string]int{ClassStranger: 0, ClassKnown: 0, ClassUnread: 0}}
}

// OverloadedError refuses a request that can't be decided, or whose message can't go out, in time.
// It is a fault.Unavailable for errors.Is. Nothing was done or counted.
type OverloadedError struct {
	RetryAfter time.Duration     // positive
	Slow       recipient.Channel // the channel whose messages go out too late; empty: too many requests
}

func (e *OverloadedError) Error() string {
	if e.Slow != "" {
		return "admission: messages go out too late: " + string(e.Slow)
	}
	return "admission: more requests than can be served in time"
}

func (e *OverloadedError) Is(target error) bool { return target == fault.Unavailable }

// Enter admits a request or returns an *OverloadedError. Call leave at the end of an admitted
// request, and say whether it was decided. Only the first call counts.
func (l *Limiter) Enter(stranger bool) (leave func(decided bool), err error) {
	class := ClassOf(stranger)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err := l.refuseIfFullLocked(class, now); err != nil {
		return nil, err
	}
	if stranger {
		l.strangers++
	}
	place := l.underWay.PushBack(now)
	var once sync.Once
	return func(decided bool) { once.Do(func() { l.leave(place, stranger, decided) }) }, nil
}

// RefuseIfFull returns, and counts, the *OverloadedError that Enter would return now. A request of
// ClassUnread is refused only if Enter would refuse every class.
func (l *Limiter) RefuseIfFull(class string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuseIfFullLocked(class, time.Now())
}

// refuseIfFullLocked refuses strangers beyond their half of the places, and everybody once all
// places are taken. But while callers other than strangers hold less than their half, as after a
// fall of the limit, they still get in.
func (l *Limiter) refuseIfFullLocked(class string, now time.Time) error {
	limit := l.limit(now)
	switch {
	case l.underWay.Len() >= limit && l.underWay.Len()-l.strangers >= limit/2:
	case class == ClassStranger && l.strangers >= limit/2:
	default:
		return nil
	}
	l.refused[class]++
	return &OverloadedError{RetryAfter: retryAfter}
}

func ClassOf(stranger bool) string {
	if stranger {
		return ClassStranger
	}
	return ClassKnown
}

func (l *Limiter) leave(place *list.Element, stranger, decided bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay.Remove(place)
	if stranger {
		l.strangers--
	}
	if decided {
		l.advanceSlots(time.Now())
		l.decided[l.slot%rateSlotCount]++
	}
}

// limit returns how many requests are decided in maxDecisionTime at the measured rate, within
// minUnderWayLimit and MaxUnderWay. l.mu must be locked.
func (l *Limiter) limit(now time.Time) int {
	if l.underWay.Len() == 0 {
		return MaxUnderWay
	}
	age := now.Sub(l.underWay.Front().Value.(time.Time))
	if age < slowAfter {
		return MaxUnderWay
	}
	l.advanceSlots(now)
	slots, decided := min(int64(age/rateSlotLength), rateSlotCount-1), 0
	for i := range slots + 1 { // one slot more, since the newest is not over
		decided += l.decided[(l.slot-i+rateSlotCount)%rateSlotCount]
	}
	return min(max(decided*int(maxDecisionTime()/rateSlotLength)/int(slots), minUnderWayLimit), MaxUnderWay)
}

// advanceSlots makes the slot of now the newest. l.mu must be locked.
func (l *Limiter) advanceSlots(now time.Time) {
	slot := int64(now.Sub(l.began) / rateSlotLength) // by the monotonic clock, which ignores steps of the wall clock
	for range min(slot-l.slot, rateSlotCount) {
		l.slot++
		l.decided[l.slot%rateSlotCount] = 0
	}
	l.slot = slot
}

type Stats struct {
	Limit    int            // how many requests may be under way
	UnderWay map[string]int // by class: ClassStranger or ClassKnown
	Refused  map[string]int // since the start, by class
}

func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{
		Limit: l.limit(time.Now()), Refused: maps.Clone(l.refused),
		UnderWay: map[string]int{ClassStranger: l.strangers, ClassKnown: l.underWay.Len() - l.strangers},
	}
}
