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
	// MaxWaiting is how many callers of one tenant (Request.Tenant) may wait in a Queue at once, in
	// all its lines together.
	MaxWaiting = 1000
	// recheckInterval is the longest pause after which a line's first caller calls the limiter
	// again, because a refund or a reset may free a place early.
	recheckInterval = 5 * time.Second
	// gracePeriod is how long a caller stays in line after its deadline if the limiter's last
	// answer has a place for it, because the callers ahead must take their places first.
	gracePeriod = time.Second
	// minSleep is the shortest pause after a refusal, because a Cluster can refuse with a wait of 0
	// while another call is under way.
	minSleep = time.Millisecond
)

// Queue lets callers wait for a place, first come, first served. Requests with the same buckets
// wait in one line. Only the first caller of a line calls the limiter, waits as long as the answer
// says, and calls it again. Callers are refused as soon as the last answer shows that no place will
// be free before their deadline. Callers of other processes don't wait in these lines. Safe for
// concurrent use.
type Queue struct {
	mu          sync.Mutex
	lines       map[string]*waitingLine
	waiting     map[string]int                // callers that wait, by tenant
	sharedWaits map[sharedWaitKey]*sharedWait // of Repeated requests
	ended       chan struct{}                 // closed by End
}

func NewQueue() *Queue {
	return &Queue{
		lines: map[string]*waitingLine{}, waiting: map[string]int{}, sharedWaits: map[sharedWaitKey]*sharedWait{},
		ended: make(chan struct{}),
	}
}

// sharedWaitKey is the key of a line, and the ID of an event that waits in it.
type sharedWaitKey struct{ line, id string }

// sharedWait is the wait of one request, shared by other requests with the same event.
type sharedWait struct {
	over   chan struct{} // closed when answer and err are set
	answer Decision
	err    error
}

type waitingLine struct {
	waiters []*waiter // in the order of arrival; the first one calls the limiter
	last    Decision  // the limiter's last answer
	lastAt  time.Time // when last arrived; zero: there was no answer yet
}

type waiter struct {
	tenant   string
	deadline time.Time     // zero: none
	wasFirst bool          // the caller is or was the first in its line
	first    chan struct{} // closed when the caller becomes the first
	refused  chan Decision // gets the refusal if the caller can't be admitted in time
}

// Take calls take without waiting in line. take is the Take of a [Limiter], or a function that
// calls it. If the callers in line need all places that are left, the queue's Take refuses instead,
// and RetryAfter is the time until they and this caller can be admitted. For a Repeated request, it
// calls take in any case, because the event may be counted already. Errors: those of take.
func (q *Queue) Take(ctx context.Context, req Request, take func(context.Context, Request) (Decision, error)) (Decision,
	error,
) {
	if d, refused := q.refusalBehindLine(req); refused && !req.Repeated {
		return d, nil
	}
	return take(ctx, req)
}

// Wait calls take until the event is admitted. It returns a refusal, and the event isn't counted,
// as soon as the event can't be admitted before the deadline of ctx. If other callers are still
// ahead when a place becomes free, it may return a second after the deadline. If MaxWaiting callers
// of the tenant wait already, or after End, it decides at once, like Take. The end of ctx never
// interrupts take. Errors: those of take; ErrUnavailable if ctx is canceled, and then this call has
// counted nothing.
//
// On a Redis Cluster, take must use a new ID each time: a refused call may refund its ID, and a
// refunded ID gets ErrRefunded.
//
// Repeated requests with the same event share one wait. If the wait ends with an admission, all of
// them are admitted. Otherwise one of the others begins a new wait.
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

// awaitShared waits until t is over. It returns false if ctx ends first, or if MaxWaiting callers
// of the tenant wait already. Error: ErrUnavailable if ctx is canceled.
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

// If first is true, the caller of findOrAddSharedWait must call endSharedWait.
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
	for isFirst := false; !isFirst; {
		select {
		case <-w.first:
			isFirst = true
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

// End ends all waits: one after another, the callers of each line return with the limiter's answer.
// After that, no caller waits. Call End once.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.ended)
}

func lineKey(req Request) string { return strings.Join(bucketsOfRules(req), "\n") }

// join returns nil if the caller must not wait.
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

// addWaiting returns false if MaxWaiting callers of the tenant wait already. q.mu must be locked.
func (q *Queue) addWaiting(tenant string) bool {
	if q.waiting[tenant] == MaxWaiting {
		return false
	}
	q.waiting[tenant]++
	return true
}

// removeWaiting needs q.mu to be locked.
func (q *Queue) removeWaiting(tenant string) {
	if q.waiting[tenant]--; q.waiting[tenant] == 0 {
		delete(q.waiting, tenant)
	}
}

func (q *Queue) setWaitersAndWakeFirst(key string, l *waitingLine, waiters []*waiter) {
	l.waiters = waiters
	if len(waiters) == 0 {
		delete(q.lines, key)
	} else if first := waiters[0]; !first.wasFirst {
		first.wasFirst = true
		close(first.first)
	}
}

func (q *Queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeWaiting(w.tenant)
	if l := q.lines[key]; l != nil {
		q.setWaitersAndWakeFirst(key, l, slices.DeleteFunc(slices.Clone(l.waiters), func(x *waiter) bool { return x == w }))
	}
}

// noteAnswer stores the limiter's answer to the first waiter of a line, and refuses all waiters
// that can't be admitted in time. If done is true, the first waiter must leave with the answer.
func (q *Queue) noteAnswer(key string, d Decision, err error) (done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if err == nil {
		l.last, l.lastAt = d, time.Now()
	}
	done = err != nil || d.Admitted || l.tooLate(l.waiters[0], 0)
	var waiting []*waiter
	for i, w := range l.waiters {
		switch {
		case i == 0 && done:
		case i > 0 && l.tooLate(w, len(waiting)): // done already says whether the first waiter is too late
			w.refused <- l.answerBehind(len(waiting))
		default:
			waiting = append(waiting, w)
		}
	}
	q.setWaitersAndWakeFirst(key, l, waiting)
	return done
}

func (q *Queue) askDelay(key string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	pause := min(l.minWaitBehind(0), recheckInterval)
	if !l.lastAt.IsZero() && !l.last.Admitted {
		pause = max(pause, minSleep)
	}
	return pause
}

// refusalBehindLine refuses a caller that doesn't wait in line, if the callers in line need all
// places that are left.
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

// finalRefusal decides whether a waiter leaves its line after its deadline, a cancellation or End,
// with d or the error. If the waiter doesn't leave, the last answer has a free place for it, so it
// calls the limiter once more.
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

// errorIfCanceled returns nil if ctx ended by its deadline.
func errorIfCanceled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return nil
}

func (l *waitingLine) tooLate(w *waiter, ahead int) bool {
	return !w.deadline.IsZero() && l.minWaitBehind(ahead) > time.Until(w.deadline)
}

// minWaitBehind returns the shortest time until a caller with this many callers ahead can be
// admitted. It returns 0 before the first answer.
func (l *waitingLine) minWaitBehind(ahead int) (longest time.Duration) {
	if l.lastAt.IsZero() {
		return 0
	}
	passed := time.Since(l.lastAt)
	for _, s := range l.last.Rules {
		if !s.Observe {
			longest = max(longest, s.minWaitBehind(ahead, l.last.At)-passed)
		}
	}
	return longest
}

// answerBehind returns the last answer, brought up to now, for a caller with this many callers
// ahead.
func (l *waitingLine) answerBehind(ahead int) Decision {
	passed := time.Since(l.lastAt).Truncate(time.Microsecond)
	d := l.last.aged(passed)
	d.Admitted = false
	for i, s := range l.last.Rules {
		d.Rules[i].ResetAfter = max(0, d.Rules[i].ResetAfter)
		d.Rules[i].RetryAfter = max(0, s.minWaitBehind(ahead, l.last.At)-passed)
	}
	return d
}

// minWaitBehind returns the shortest time, from the decision at now, until the rule admits an event
// with this many events ahead. A window admits at most s.Limit events, so each further s.Limit
// events ahead take another window.
func (s State) minWaitBehind(ahead int, now time.Time) time.Duration {
	free := s.Remaining()
	if s.RetryAfter > 0 {
		free = 0
	}
	if ahead < free || s.Recorded {
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

// leavesAt returns when the rule stops counting an event.
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

// aged returns the decision brought forward by passed: At is later, and the waits are shorter.
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
