package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxWaiting is the greatest number of callers of one tenant (Request.Tenant) that may wait in
	// a Queue at the same time, in all lines together.
	MaxWaiting = 1000
	// recheckInterval is the longest time for which the first caller of a line sleeps. The caller
	// must not sleep longer, because a refund or a reset may free a place before the window of an
	// event ends.
	recheckInterval = 5 * time.Second
	// gracePeriod is how long a caller stays in line after its deadline, if the limiter's last
	// answer shows a free place for the caller. The callers ahead of it need this time to take
	// their own places first.
	gracePeriod = time.Second
	// minSleep is the shortest sleep after a refusal. It is needed because a Cluster may refuse
	// with a wait of 0 while another call is under way.
	minSleep = time.Millisecond
)

// Queue lets callers wait for a place in the limits, first come, first served. Requests with the
// same buckets stand in one line. Only the first caller of a line asks the limiter. After a refusal
// this caller sleeps for the wait in the answer, and asks again. When it leaves, the next caller
// becomes the first. A caller is refused as soon as the limiter's last answer shows that no place
// will be free before the deadline of its context. Callers of other processes do not stand in line.
// Safe for concurrent use.
type Queue struct {
	mu          sync.Mutex
	lines       map[string]*waitingLine
	waiting     map[string]int                // number of callers that wait, by tenant
	sharedWaits map[sharedWaitKey]*sharedWait // waits of Repeated requests
	ended       chan struct{}                 // closed by End
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	return &Queue{
		lines: map[string]*waitingLine{}, waiting: map[string]int{}, sharedWaits: map[sharedWaitKey]*sharedWait{},
		ended: make(chan struct{}),
	}
}

// sharedWaitKey identifies a wait that requests can share. line is the key of the waiting line for
// the requests' buckets. id is the ID of the requests' event.
type sharedWaitKey struct{ line, id string }

// sharedWait is the wait of one request. Further requests with the same event share it.
type sharedWait struct {
	over   chan struct{} // closed when answer and err are set
	answer Decision
	err    error
}

// waitingLine has the callers that wait for places in the same buckets.
type waitingLine struct {
	waiters []*waiter // in the order of arrival; the first one asks the limiter
	last    Decision  // the limiter's last answer
	heard   time.Time // when the last answer arrived; zero: none did yet
}

// waiter is one caller in a line.
type waiter struct {
	tenant   string
	deadline time.Time     // zero: none
	asks     bool          // the waiter is the first of its line, or was
	first    chan struct{} // closed when the waiter becomes the first
	refused  chan Decision // gets the refusal if the waiter cannot be admitted in time
}

// Take calls the function take, without waiting in line. take is the Take method of a [Limiter], or
// a function that calls it. If the callers in line need all remaining places, Take refuses and does
// not call take. RetryAfter of this refusal is the time until those callers and this caller can be
// admitted. For a Repeated request, Take always calls take, because the event may already be
// counted. Errors: those of take.
func (q *Queue) Take(ctx context.Context, req Request, take func(context.Context, Request) (Decision, error)) (Decision,
	error,
) {
	if d, refused := q.refusalBehindLine(req); refused && !req.Repeated {
		return d, nil
	}
	return take(ctx, req)
}

// Wait calls the function take until the event is admitted. Wait returns a refusal at the deadline
// of ctx, or as soon as the event cannot be admitted before that deadline. A refused event is not
// counted. If MaxWaiting callers of the tenant already wait, or after End, Wait does not wait, but
// decides at once as the method Take does. The end of ctx does not interrupt a call of the function
// take. Errors: the errors of the function take; ErrUnavailable if ctx is canceled, and then
// nothing is counted.
//
// With a Redis Cluster, the function take must use a new ID for each call. The reason is that a
// refused call may refund its ID, and a later call with a refunded ID fails with ErrRefunded.
//
// If two Repeated requests with the same event wait, the second request waits for the outcome of
// the first request. If the first request is admitted, the second request is admitted, too. If the
// first request is not admitted, the second request waits by itself.
func (q *Queue) Wait(ctx context.Context, req Request, take func(context.Context, Request) (Decision, error)) (Decision,
	error,
) {
	key := lineKey(req)
	if !req.Repeated {
		return q.waitUnshared(ctx, key, req, take)
	}
	for {
		t, first := q.findOrAddSharedWait(sharedWaitKey{key, req.ID})
		if first {
			defer q.endSharedWait(sharedWaitKey{key, req.ID}, t)
			t.answer, t.err = q.waitUnshared(ctx, key, req, take)
			return t.answer, t.err
		}
		over, err := q.awaitShared(ctx, req.Tenant, t)
		switch {
		case err != nil:
			return Decision{}, err
		case !over:
			return take(context.WithoutCancel(ctx), req)
		case t.err == nil && t.answer.Admitted:
			d := t.answer
			d.Rules = slices.Clone(d.Rules)
			return d, nil
		}
	}
}

// awaitShared waits until the shared wait t is over, and returns true. It returns false if ctx ends
// first, or if MaxWaiting callers of the tenant already wait. Error: ErrUnavailable if ctx is
// canceled.
func (q *Queue) awaitShared(ctx context.Context, tenant string, t *sharedWait) (over bool, err error) {
	q.mu.Lock()
	may := q.addWaiting(tenant)
	q.mu.Unlock()
	if !may {
		return false, nil
	}
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.removeWaiting(tenant)
	}()
	select {
	case <-t.over:
		return true, nil
	case <-ctx.Done():
		return false, errorIfCanceled(ctx)
	}
}

// findOrAddSharedWait returns the shared wait of an event. The result first is true if the caller
// is the first caller that waits for the event. Then the caller must call endSharedWait.
func (q *Queue) findOrAddSharedWait(e sharedWaitKey) (t *sharedWait, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t = q.sharedWaits[e]
	if t != nil {
		return t, false
	}
	t = &sharedWait{over: make(chan struct{})}
	q.sharedWaits[e] = t
	return t, true
}

func (q *Queue) endSharedWait(e sharedWaitKey, t *sharedWait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.sharedWaits, e)
	close(t.over)
}

// waitUnshared is Wait without shared waits.
func (q *Queue) waitUnshared(ctx context.Context, key string, req Request,
	take func(context.Context, Request) (Decision, error),
) (Decision, error) {
	counting := context.WithoutCancel(ctx) // the end of ctx interrupts no call
	if req.Repeated {                      // the event may be counted already
		if d, err := take(counting, req); err != nil || d.Admitted {
			return d, err
		}
	}
	w := q.join(ctx, key, req.Tenant)
	if w == nil {
		return q.Take(counting, req, take)
	}
	defer q.leave(key, w)
	late, inGrace := ctx.Done(), false
	for asks := false; !asks; {
		select {
		case <-w.first:
			asks = true
			continue
		case d := <-w.refused:
			return d, nil
		case <-late:
		}
		if d, left, err := q.finalRefusal(ctx, key, w); left {
			return d, err
		}
		if inGrace {
			return take(counting, req)
		}
		bounded, cancel := context.WithTimeout(counting, gracePeriod)
		defer cancel()
		late, inGrace = bounded.Done(), true
	}
	for last := false; ; {
		select {
		case <-time.After(q.askDelay(key)):
		case <-ctx.Done():
			last = true
		case <-q.ended:
			last = true
		}
		if last {
			if d, left, err := q.finalRefusal(ctx, key, w); left {
				return d, err
			}
		}
		d, err := take(counting, req)
		if q.noteAnswer(key, d, err) || last {
			return d, err
		}
	}
}

// End ends all waits. The first caller of each line returns with the limiter's answer, then the
// next caller, until the line is empty. After End no further caller waits. Call End once.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.ended)
}

// lineKey joins the buckets of the request's rules.
func lineKey(req Request) string { return strings.Join(bucketsOfRules(req), "\n") }

// join adds a caller to the end of a line. It returns nil if the caller must not wait.
func (q *Queue) join(ctx context.Context, key, tenant string) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.ended:
		return nil
	default:
	}
	w := &waiter{tenant: tenant, first: make(chan struct{}), refused: make(chan Decision, 1)}
	w.deadline, _ = ctx.Deadline()
	l := q.lines[key]
	if l != nil && l.tooLate(w, len(l.waiters)) || !q.addWaiting(tenant) {
		return nil
	}
	if l == nil {
		l = &waitingLine{}
		q.lines[key] = l
	}
	q.setWaitersAndWakeFirst(key, l, append(l.waiters, w))
	return w
}

// addWaiting counts a caller that waits, or returns false if MaxWaiting callers of the tenant wait
// already. q.mu must be locked.
func (q *Queue) addWaiting(tenant string) bool {
	if q.waiting[tenant] == MaxWaiting {
		return false
	}
	q.waiting[tenant]++
	return true
}

// removeWaiting counts a caller that waits no longer. q.mu must be locked.
func (q *Queue) removeWaiting(tenant string) {
	if q.waiting[tenant]--; q.waiting[tenant] == 0 {
		delete(q.waiting, tenant)
	}
}

// setWaitersAndWakeFirst replaces the waiters of a line. If the line has a new first waiter, it
// wakes this waiter.
func (q *Queue) setWaitersAndWakeFirst(key string, l *waitingLine, waiters []*waiter) {
	l.waiters = waiters
	if len(waiters) == 0 {
		delete(q.lines, key)
	} else if first := waiters[0]; !first.asks {
		first.asks = true
		close(first.first)
	}
}

// leave removes the waiter from its line, if the line still has it.
func (q *Queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeWaiting(w.tenant)
	if l := q.lines[key]; l != nil {
		q.setWaitersAndWakeFirst(key, l, slices.DeleteFunc(slices.Clone(l.waiters), func(x *waiter) bool { return x == w }))
	}
}

// noteAnswer stores the limiter's answer to the first waiter of a line, and refuses all waiters
// that cannot be admitted in time. The result done is true if the first waiter must leave the line
// with this answer.
func (q *Queue) noteAnswer(key string, d Decision, err error) (done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if err == nil {
		l.last, l.heard = d, time.Now()
	}
	done = err != nil || d.Admitted || l.tooLate(l.waiters[0], 0)
	var waiting []*waiter
	for i, w := range l.waiters {
		switch {
		case i == 0 && done:
		case i > 0 && l.tooLate(w, len(waiting)): // the first was judged above, by the same clock reading
			w.refused <- l.answerBehind(len(waiting))
		default:
			waiting = append(waiting, w)
		}
	}
	q.setWaitersAndWakeFirst(key, l, waiting)
	return done
}

// askDelay returns how long the first waiter of a line sleeps before it asks the limiter.
func (q *Queue) askDelay(key string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	pause := min(l.minWaitBehind(0), recheckInterval)
	if !l.heard.IsZero() && !l.last.Admitted {
		pause = max(pause, minSleep)
	}
	return pause
}

// refusalBehindLine returns a refusal and true if the waiting callers need all places that are left
// in the limits. The refusal is for a caller that does not wait in line.
func (q *Queue) refusalBehindLine(req Request) (Decision, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return Decision{}, false
	}
	l := q.lines[lineKey(req)]
	if l == nil || l.minWaitBehind(len(l.waiters)) <= 0 {
		return Decision{}, false
	}
	return l.answerBehind(len(l.waiters)), true
}

// finalRefusal decides whether a waiter must leave its line, after the waiter's deadline, a
// cancellation of ctx or End. If leave is true, the waiter leaves the line with the answer d, or
// with the error. If leave is false, the limiter's last answer has a free place for the waiter, so
// the caller asks the limiter once more.
func (q *Queue) finalRefusal(ctx context.Context, key string, w *waiter) (d Decision, leave bool, err error) {
	if err := errorIfCanceled(ctx); err != nil {
		return d, true, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case d = <-w.refused:
		return d, true, nil
	default:
	}
	l := q.lines[key]
	ahead := slices.Index(l.waiters, w)
	return l.answerBehind(ahead), l.minWaitBehind(ahead) > 0, nil
}

// errorIfCanceled returns ErrUnavailable if ctx was canceled. It returns nil if ctx has not ended,
// or if the deadline of ctx has passed.
func errorIfCanceled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return nil
}

// tooLate reports whether the waiter cannot be admitted in time. The parameter ahead is the number
// of waiters before this waiter.
func (l *waitingLine) tooLate(w *waiter, ahead int) bool {
	return !w.deadline.IsZero() && l.minWaitBehind(ahead) > time.Until(w.deadline)
}

// minWaitBehind returns the shortest time until a caller can be admitted. The parameter ahead is
// the number of callers before this caller. If the limiter has not answered yet, the result is 0.
func (l *waitingLine) minWaitBehind(ahead int) (longest time.Duration) {
	if l.heard.IsZero() {
		return 0
	}
	passed := time.Since(l.heard)
	for _, s := range l.last.Rules {
		if !s.Observe {
			longest = max(longest, s.minWaitBehind(ahead, l.last.At)-passed)
		}
	}
	return longest
}

// answerBehind returns the limiter's last answer, changed for a caller that is later in the line.
// The parameter ahead is the number of callers before this caller. The waits in the result begin at
// the present instant.
func (l *waitingLine) answerBehind(ahead int) Decision {
	passed := time.Since(l.heard).Truncate(time.Microsecond)
	d := l.last.aged(passed)
	d.Admitted = false
	for i, s := range l.last.Rules {
		d.Rules[i].ResetAfter = max(0, d.Rules[i].ResetAfter)
		d.Rules[i].RetryAfter = max(0, s.minWaitBehind(ahead, l.last.At)-passed)
	}
	return d
}

// minWaitBehind returns the shortest time until the rule admits an event that comes after other
// events. The parameter ahead is the number of these other events. The result counts from the
// instant of the decision, which is in the parameter `now`. One window admits at most s.Limit
// events. So the wait grows by one window whenever the number ahead grows by s.Limit.
func (s State) minWaitBehind(ahead int, now time.Time) time.Duration {
	free := s.Remaining()
	if s.RetryAfter > 0 {
		free = 0
	}
	if ahead < free || !s.Scope.Counted() {
		return s.RetryAfter
	}
	wait := s.RetryAfter
	if free > 0 {
		wait = s.ResetAfter
		if wait == 0 { // none is counted: the first event ahead leaves first
			wait = s.leavesAt(now).Sub(now)
		}
	}
	switch rounds := (ahead - free) / s.Limit; {
	case rounds == 0:
	case s.Calendar():
		wait = s.leavesAt(now.Add(wait)).Sub(now) // a lower bound: if the events need several rounds, the wait is several periods
	default:
		wait += time.Duration(rounds) * s.Window
	}
	return wait
}

// leavesAt returns the instant from which the rule no longer counts an event. The parameter at is
// the instant of the event.
func (r Rule) leavesAt(at time.Time) time.Time {
	if r.Days > 0 {
		return r.expiryByDate(at)
	}
	if r.Calendar() {
		_, end := r.Period(at)
		return end
	}
	return at.Add(r.Window)
}

// aged returns the decision as it is at a later instant. The parameter passed is the time until
// that instant. The waits are shorter by that time.
func (d Decision) aged(passed time.Duration) Decision {
	d.At = d.At.Add(passed)
	d.Rules, d.Also = agedStates(d.Rules, passed), agedStates(d.Also, passed)
	return d
}

func agedStates(states []State, passed time.Duration) []State {
	states = slices.Clone(states)
	for i := range states {
		s := &states[i]
		if s.ResetAfter > 0 {
			s.ResetAfter -= passed
		}
		if s.RetryAfter > 0 {
			s.RetryAfter -= passed
		}
	}
	return states
}

func bucketsOfRules(req Request) []string {
	all := make([]string, len(req.Rules))
	for i, r := range req.Rules {
		all[i] = req.Buckets[r.Scope]
	}
	return all
}
