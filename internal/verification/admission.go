package verification

import (
	"container/list"
	"context"
	"maps"
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
	refused   map[string]int // so far, by class
}

// Classes of an Admission.
const (
	ofStranger = "stranger"
	ofKnown    = "known"
	ofUnread   = "unread" // a request that was refused before its key and body were read
)

func newAdmission() *admission {
	return &admission{underWay: list.New(), refused: map[string]int{ofStranger: 0, ofKnown: 0, ofUnread: 0}}
}

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
	class := classOf(stranger)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if err := a.refuse(class, now); err != nil {
		return nil, err
	}
	if stranger {
		a.strangers++
	}
	place := a.underWay.PushBack(now)
	var once sync.Once
	return func(decided bool) { once.Do(func() { a.leave(place, stranger, decided) }) }, nil
}

// check returns the *OverloadedError with which enter would refuse a request of a class now; ofUnread: any request.
func (a *admission) check(class string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuse(class, time.Now())
}

// refuse returns an *OverloadedError and counts it if a request of a class has no place: all places are taken, of which others have at
// least half, or strangers have their half. The caller holds the lock.
func (a *admission) refuse(class string, now time.Time) error {
	most := a.most(now)
	switch {
	case a.underWay.Len() >= most && a.underWay.Len()-a.strangers >= most/2:
	case class == ofStranger && a.strangers >= most/2:
	default:
		return nil
	}
	a.refused[class]++
	return &OverloadedError{retryAfter}
}

func classOf(stranger bool) string {
	if stranger {
		return ofStranger
	}
	return ofKnown
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

// enter admits a request of a class, or returns what countOverload has counted.
func (s *Service) enter(a *admission, what string, class store.Class) (leave func(decided bool), err error) {
	leave, err = a.enter(class.IsStranger())
	return leave, s.countOverload(what, err)
}

// countOverload counts a refusal for the log lines of an overload, if err is one, and returns err.
func (s *Service) countOverload(what string, err error) error {
	if err != nil {
		s.overload.count(what)
		s.LogAlarms(context.Background())
	}
	return err
}

// SendsOverloaded returns the *OverloadedError with which Send would refuse any request now; nil: it would not. It is for callers that have
// not read the request yet: to read one costs more than to refuse it.
func (s *Service) SendsOverloaded() error { return s.countOverload(ofSends, s.sends.check(ofUnread)) }

// ChecksOverloaded is SendsOverloaded for Check and CheckNamed.
func (s *Service) ChecksOverloaded() error {
	return s.countOverload(ofChecks, s.checks.check(ofUnread))
}

// refuseUnparsed returns the *OverloadedError with which Send would refuse a request of its class. nil also if the class is not known yet,
// since a browser may be a known one.
func (s *Service) refuseUnparsed(ask Ask) error {
	if ask.Kind == Browser && (ask.Resend != "" || len(ask.Known) > 0) {
		return nil
	}
	return s.countOverload(ofSends, s.sends.check(classOf(ask.Caller.class().IsStranger())))
}

// What an admission is of.
const (
	ofSends  = "sends"
	ofChecks = "checks"
)

// Admission is how full the process is, for metrics.
type Admission struct {
	Of       string         // sends or checks
	Most     int            // how many may be under way at once
	UnderWay map[string]int // by class: stranger or known
	Refused  map[string]int // at once, since the start, by class: stranger, known, or unread, whose class was not looked at
}

// Admissions returns the state of both admissions.
func (s *Service) Admissions() []Admission {
	return []Admission{s.sends.state(ofSends), s.checks.state(ofChecks)}
}

func (a *admission) state(of string) Admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Admission{Of: of, Most: a.most(time.Now()), Refused: maps.Clone(a.refused),
		UnderWay: map[string]int{ofStranger: a.strangers, ofKnown: a.underWay.Len() - a.strangers}}
}
