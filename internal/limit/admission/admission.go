// Package admission bounds how many requests are under way at once. A Limiter bounds all requests
// of the process, so that every admitted request is answered in time. A Bulkhead bounds the
// requests for one recipient, so that a flood for one recipient does not delay requests for others.
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

// MaxUnderWay is the largest limit of requests under way. One round trip to the database can carry
// 256 requests. So if a round trip takes 600 ms, 1,024 requests are decided in 2.4 s. This is less
// than maxDecisionTime, which is 4 s.
const MaxUnderWay = 1024

// Bounds of an admission.
const (
	minUnderWayLimit = 512              // two shared round trips to the database can carry 512 requests
	slowAfter        = time.Second / 2  // while no request takes longer, the limit is MaxUnderWay
	retryAfter       = 3 * time.Second  // a short overload is over by then
	rateSlotCount    = 50               // number of slots of time for which the rate is known
	rateSlotLength   = time.Second / 10 // length of a slot; decided requests are counted by slot
)

// maxDecisionTime returns how long an admitted request may take until it is decided. The time is
// less than store.CallTimeout, so that even the slowest requests get an answer.
func maxDecisionTime() time.Duration { return store.CallTimeout * 4 / 5 }

// Limiter bounds how many requests are under way together, so that all of them are answered in
// time. It refuses requests beyond the limit immediately (load shedding). Without a Limiter, a load
// above the database's capacity would make all requests wait and time out together.
//
// Requests are decided first in, first out. So the time until a new request is decided is the
// number of requests under way, divided by the rate of decisions (Little's law). The Limiter
// measures the rate since the oldest request under way began. The rate depends on the slowest of
// network, disk, locks, Redis and processors.
//
// Strangers get at most half of the places, so other callers get at least half. Limiter is safe for
// concurrent use.
type Limiter struct {
	mu        sync.Mutex
	underWay  *list.List         // the instants at which the requests under way began, oldest first
	strangers int                // number of strangers' requests under way
	decided   [rateSlotCount]int // number of requests decided in each of the last slots of time
	began     time.Time          // when the first slot began
	slot      int64              // number of the newest slot
	refused   map[string]int     // number of refused requests so far, by class
}

// Classes of requests.
const (
	ClassStranger = "stranger"
	ClassKnown    = "known"
	ClassUnread   = "unread" // a request refused before its key and body were read
)

// New returns an admission with all places free.
func New() *Limiter {
	return &Limiter{began: time.Now(), underWay: list.New(), refused: map[string]int{ClassStranger: 0, ClassKnown: 0, ClassUnread: 0}}
}

// OverloadedError refuses a request because the service cannot decide more requests in time, or
// because the request's message would go out too late. For errors.Is, it is a fault.Unavailable.
// Nothing was done or counted for the request.
type OverloadedError struct {
	RetryAfter time.Duration     // positive
	Slow       recipient.Channel // the channel whose messages would go out too late; empty if too many requests are under way
}

func (e *OverloadedError) Error() string {
	if e.Slow != "" {
		return "admission: messages go out too late: " + string(e.Slow)
	}
	return "admission: more requests than can be served in time"
}

// Is reports whether target is fault.Unavailable. errors.Is calls it.
func (e *OverloadedError) Is(target error) bool { return target == fault.Unavailable }

// Enter admits a request or returns an *OverloadedError. The caller must call leave at the end of
// an admitted request. The argument decided is true if the request was decided. Only the first call
// of leave has an effect.
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

// RefuseIfFull returns the *OverloadedError that Enter would return now for a request of the class,
// and counts the refusal. If Enter would admit the request, RefuseIfFull returns nil. A request
// whose class is not known yet has ClassUnread, and is refused only if Enter would refuse requests
// of every class.
func (l *Limiter) RefuseIfFull(class string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuseIfFullLocked(class, time.Now())
}

// refuseIfFullLocked returns an *OverloadedError and counts the refusal if no place is free for a
// request of the class. A stranger's request is refused if strangers hold their half of the places.
// Any request is refused if all places are taken, with one exception: if other callers hold less
// than their half, their requests are still admitted. This can happen after the number of places
// has fallen. The caller must hold the lock.
func (l *Limiter) refuseIfFullLocked(class string, now time.Time) error {
	most := l.limit(now)
	switch {
	case l.underWay.Len() >= most && l.underWay.Len()-l.strangers >= most/2:
	case class == ClassStranger && l.strangers >= most/2:
	default:
		return nil
	}
	l.refused[class]++
	return &OverloadedError{RetryAfter: retryAfter}
}

// ClassOf returns the class of a request whose key has been read.
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

// limit returns how many requests may be under way at once. This is the number of requests that are
// decided in maxDecisionTime at the measured rate. The result is always between minUnderWayLimit
// and MaxUnderWay. The caller must hold the lock.
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

// advanceSlots makes the time slot of now the newest slot. It sets the counts of the slots that
// began since the last call to zero. The caller must hold the lock.
func (l *Limiter) advanceSlots(now time.Time) {
	slot := int64(now.Sub(l.began) / rateSlotLength) // by the monotonic clock, which ignores steps of the wall clock
	for range min(slot-l.slot, rateSlotCount) {
		l.slot++
		l.decided[l.slot%rateSlotCount] = 0
	}
	l.slot = slot
}

// Stats has the numbers of an admission for metrics.
type Stats struct {
	Limit    int            // how many requests may be under way at once
	UnderWay map[string]int // requests under way, by class: ClassStranger or ClassKnown
	Refused  map[string]int // requests refused since the start, by class
}

// Stats returns the admission's numbers now.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{
		Limit: l.limit(time.Now()), Refused: maps.Clone(l.refused),
		UnderWay: map[string]int{ClassStranger: l.strangers, ClassKnown: l.underWay.Len() - l.strangers},
	}
}
