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
	// MaxWaiting is how many callers of a Queue wait at once, in all lines together. Tenants share
	// these places; see Queue.
	MaxWaiting = 1000
	// recheckInterval is how long the first of a line sleeps at most: a place may come back before
	// its window ends, by a refund or a reset.
	recheckInterval = 5 * time.Second
	// gracePeriod is how long a caller whose wait has ended stays in line for a place that is free:
	// those before it take theirs.
	gracePeriod = time.Second
	// minSleep is the shortest sleep after a refusal. A Cluster may refuse without a wait, while
	// another call is under way.
	minSleep = time.Millisecond
)

// Queue lets callers wait for a place, first come, first served. Requests with the same buckets
// stand in one line. Only the first of a line asks the limiter, and sleeps until the wait that it
// was told has passed; then the next one asks. The others are refused as soon as the limiter's last
// answer shows that they cannot be admitted before the deadline of their context. Callers of other
// processes do not stand in line. Safe for concurrent use.
//
// A tenant (Request.Tenant) may have all MaxWaiting places while no other wants one. A caller of
// another tenant then takes the place of the newest caller of the tenant that has most, until both
// have the same number. The wait of a caller that loses its place ends.
type Queue struct {
	mu          sync.Mutex
	lines       map[string]*line
	places      map[string][]*place         // that are taken, by tenant, in the order of arrival
	waiting     int                         // places that are taken
	sharedWaits map[queuedEvent]*sharedWait // of Repeated requests that wait
	ended       chan struct{}               // closed by End
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	return &Queue{lines: map[string]*line{}, places: map[string][]*place{}, sharedWaits: map[queuedEvent]*sharedWait{},
		ended: make(chan struct{})}
}

// place is one of the MaxWaiting places of a caller that waits.
type place struct {
	tenant string
	lost   chan struct{} // closed when another tenant takes the place
}

// queuedEvent is the ID of an event and the line of its buckets.
type queuedEvent struct{ line, id string }

// sharedWait is the wait of the first of several requests with the same event.
type sharedWait struct {
	over   chan struct{} // closed when answer and err are there
	answer Decision
	err    error
}

// line is the callers that wait for places in the same buckets.
type line struct {
	waiters []*waiter // in the order of arrival; the first one asks the limiter
	last    Decision  // the limiter's last answer
	heard   time.Time // when it arrived; zero: never
}

type waiter struct {
	*place
	deadline time.Time     // zero: none
	asks     bool          // it is or was the first
	first    chan struct{} // closed when it becomes the first
	refused  chan Decision // gets the refusal when it is removed since it cannot be admitted in time
}

// Take calls take, that of a [Limiter] or a function around it, and does not wait. If callers that
// wait will need all places that are left, it refuses without a call, with the wait until those
// callers and then this one can be admitted; a Repeated request is never refused so. Errors: of
// take.
func (q *Queue) Take(ctx context.Context, req Request, take func(context.Context, Request) (Decision, error)) (Decision,
	error) {
	if d, refused := q.refusalBehindLine(req); refused && !req.Repeated {
		return d, nil
	}
	return take(ctx, req)
}

// Wait is take, repeated until the event is admitted. It returns the refusal, which counts nothing,
// as soon as it is clear that the event cannot be admitted before the deadline of ctx, and at the
// deadline; at once if there is no place for the caller, or after End. The end of ctx interrupts no
// call of take. A Cluster may refund the ID of a refused call: before one, let take use a new ID
// for each call. Errors: of take; ErrUnavailable if ctx is canceled, when nothing is counted.
//
// A Repeated request whose event another request waits for gets that one's place in line: it is
// admitted when that one is. If that one leaves without being admitted, it waits by itself.
func (q *Queue) Wait(ctx context.Context, req Request, take func(context.Context, Request) (Decision, error)) (Decision,
	error) {
	key := lineKey(req)
	if !req.Repeated {
		return q.wait(ctx, key, req, take)
	}
	for {
		t, first := q.sharedWaitOf(queuedEvent{key, req.ID})
		if first {
			defer q.endSharedWait(queuedEvent{key, req.ID}, t)
			t.answer, t.err = q.wait(ctx, key, req, take)
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

// awaitShared waits for the end of a turn, and reports whether it is over. false: the caller's own
// time is over, or it has no place. Error: ErrUnavailable if ctx is canceled.
func (q *Queue) awaitShared(ctx context.Context, tenant string, t *sharedWait) (over bool, err error) {
	q.mu.Lock()
	p := q.takePlace(tenant)
	q.mu.Unlock()
	if p == nil {
		return false, nil
	}
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.freePlace(p)
	}()
	select {
	case <-t.over:
		return true, nil
	case <-ctx.Done():
		return false, cancelError(ctx)
	case <-p.lost:
		return false, nil
	}
}

// sharedWaitOf returns the turn of an event, and whether the caller is the first: then it must call
// endSharedWait.
func (q *Queue) sharedWaitOf(e queuedEvent) (t *sharedWait, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t = q.sharedWaits[e]; t != nil {
		return t, false
	}
	t = &sharedWait{over: make(chan struct{})}
	q.sharedWaits[e] = t
	return t, true
}

func (q *Queue) endSharedWait(e queuedEvent, t *sharedWait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.sharedWaits, e)
	close(t.over)
}

// wait is Wait for a request whose event no other one waits for.
func (q *Queue) wait(ctx context.Context, key string, req Request,
	take func(context.Context, Request) (Decision, error)) (Decision, error) {
	counting := context.WithoutCancel(ctx) // a call that is under way decides
	if req.Repeated {                      // it may count already
		if d, err := take(counting, req); err != nil || d.Admitted {
			return d, err
		}
	}
	w := q.join(ctx, key, req.Tenant)
	if w == nil {
		return q.Take(ctx, req, take)
	}
	defer q.leave(key, w)
	late, lost, again := ctx.Done(), w.lost, false
	for asks := false; !asks; {
		select {
		case <-w.first:
			asks = true
			continue
		case d := <-w.refused:
			return d, nil
		case <-late:
		case <-lost:
		}
		if d, left, err := q.giveUp(ctx, key, w); left {
			return d, err
		}
		if again {
			return take(counting, req)
		}
		bounded, cancel := context.WithTimeout(counting, gracePeriod)
		defer cancel()
		late, lost, again = bounded.Done(), nil, true
	}
	for last := false; ; {
		select {
		case <-time.After(q.askDelay(key)):
		case <-ctx.Done():
			last = true
		case <-w.lost:
			last = true
		case <-q.ended:
			last = true
		}
		if last {
			if d, left, err := q.giveUp(ctx, key, w); left {
				return d, err
			}
		}
		d, err := take(counting, req)
		if q.noteAnswer(key, d, err) || last {
			return d, err
		}
	}
}

// End makes the first of each line return with the limiter's answer, so one after the other all,
// and no other caller wait from now on. Call it once.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.ended)
}

// lineKey joins the buckets of the request's rules.
func lineKey(req Request) string { return strings.Join(bucketsOfRules(req), "\n") }

// join adds a caller to the end of a line. nil: it must not wait.
func (q *Queue) join(ctx context.Context, key, tenant string) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.ended:
		return nil
	default:
	}
	w := &waiter{first: make(chan struct{}), refused: make(chan Decision, 1)}
	w.deadline, _ = ctx.Deadline()
	l := q.lines[key]
	if l != nil && l.tooLate(w, len(l.waiters)) {
		return nil
	}
	if w.place = q.takePlace(tenant); w.place == nil {
		return nil
	}
	if l == nil {
		l = &line{}
		q.lines[key] = l
	}
	q.setWaiters(key, l, append(l.waiters, w))
	return w
}

// takePlace takes a place for a caller of a tenant. If all are taken, it takes that of the newest
// caller of the tenant with most, if this one then has at least as many as the other. nil: there is
// no place. The caller holds the lock.
func (q *Queue) takePlace(tenant string) *place {
	if q.waiting == MaxWaiting {
		most := tenant
		for other, places := range q.places {
			if len(places) > len(q.places[most]) {
				most = other
			}
		}
		places := q.places[most]
		if len(places)-1 < len(q.places[tenant])+1 {
			return nil
		}
		newest := places[len(places)-1]
		q.freePlace(newest)
		close(newest.lost)
	}
	p := &place{tenant: tenant, lost: make(chan struct{})}
	q.places[tenant] = append(q.places[tenant], p)
	q.waiting++
	return p
}

// freePlace frees a place, if it was not taken from its caller. The caller of vacate holds the
// lock.
func (q *Queue) freePlace(p *place) {
	places := q.places[p.tenant]
	i := slices.Index(places, p)
	if i < 0 {
		return
	}
	q.waiting--
	if q.places[p.tenant] = slices.Delete(places, i, i+1); len(places) == 1 {
		delete(q.places, p.tenant)
	}
}

// setWaiters replaces the callers of a line, and tells a new first one.
func (q *Queue) setWaiters(key string, l *line, waiters []*waiter) {
	if l.waiters = waiters; len(waiters) == 0 {
		delete(q.lines, key)
	} else if first := waiters[0]; !first.asks {
		first.asks = true
		close(first.first)
	}
}

// leave frees a caller's place, and removes it from its line, if it is still there.
func (q *Queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freePlace(w.place)
	if l := q.lines[key]; l != nil {
		q.setWaiters(key, l, slices.DeleteFunc(slices.Clone(l.waiters), func(x *waiter) bool { return x == w }))
	}
}

// noteAnswer takes the answer that the first of a line got, and refuses all that cannot be admitted
// in time after it. It reports whether the first one has left, with this answer.
func (q *Queue) noteAnswer(key string, d Decision, err error) (done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if err == nil {
		l.last, l.heard = d, time.Now()
	}
	done = err != nil || d.Admitted || l.tooLate(l.waiters[0], 0)
	var kept []*waiter
	for i, w := range l.waiters {
		switch {
		case i == 0 && done:
		case l.tooLate(w, len(kept)):
			w.refused <- l.answerBehind(len(kept))
		default:
			kept = append(kept, w)
		}
	}
	q.setWaiters(key, l, kept)
	return done
}

// askDelay returns how long the first of a line has to wait before it asks.
func (q *Queue) askDelay(key string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	pause := min(l.wait(0), recheckInterval)
	if !l.heard.IsZero() && !l.last.Admitted {
		pause = max(pause, minSleep)
	}
	return pause
}

// refusalBehindLine returns the refusal of a caller that does not wait, if those that wait need all
// places that are left.
func (q *Queue) refusalBehindLine(req Request) (Decision, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return Decision{}, false
	}
	l := q.lines[lineKey(req)]
	if l == nil || l.wait(len(l.waiters)) <= 0 {
		return Decision{}, false
	}
	return l.answerBehind(len(l.waiters)), true
}

// giveUp returns the answer to a caller whose wait has ended. left is false if the limiter's last
// answer does not refuse it.
func (q *Queue) giveUp(ctx context.Context, key string, w *waiter) (d Decision, left bool, err error) {
	if err := cancelError(ctx); err != nil {
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
	return l.answerBehind(ahead), l.wait(ahead) > 0, nil
}

// cancelError returns ErrUnavailable if ctx is canceled; nil also at its deadline.
func cancelError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return nil
}

// tooLate reports whether a caller with so many before it cannot be admitted before its deadline.
func (l *line) tooLate(w *waiter, ahead int) bool {
	return !w.deadline.IsZero() && l.wait(ahead) > time.Until(w.deadline)
}

// wait returns the shortest time until a caller with so many before it can be admitted; 0 if the
// limiter has not answered yet.
func (l *line) wait(ahead int) (longest time.Duration) {
	if l.heard.IsZero() {
		return 0
	}
	passed := time.Since(l.heard)
	for _, s := range l.last.Rules {
		if !s.Observe {
			longest = max(longest, s.earliestAdmission(ahead, l.last.At)-passed)
		}
	}
	return longest
}

// answerBehind returns the last answer as it is now for a caller with so many before it.
func (l *line) answerBehind(ahead int) Decision {
	passed := time.Since(l.heard).Truncate(time.Microsecond)
	d := l.last.aged(passed)
	d.Admitted = false
	for i, s := range l.last.Rules {
		d.Rules[i].ResetAfter = max(0, d.Rules[i].ResetAfter)
		d.Rules[i].RetryAfter = max(0, s.earliestAdmission(ahead, l.last.At)-passed)
	}
	return d
}

// earliestAdmission returns the shortest time from now, the instant of the decision, until the rule
// admits an event before which so many others are admitted. No limit of them lies within one
// window, so each further limit of them adds a window.
func (s State) earliestAdmission(ahead int, now time.Time) time.Duration {
	free := s.Remaining()
	if s.RetryAfter > 0 {
		free = 0
	}
	if ahead < free || !s.Scope.Counted() {
		return s.RetryAfter
	}
	wait := s.RetryAfter
	if free > 0 {
		if wait = s.ResetAfter; wait == 0 { // the first of those before it leaves first
			wait = s.leavesAt(now).Sub(now)
		}
	}
	switch rounds := (ahead - free) / s.Limit; {
	case rounds == 0:
	case s.Calendar():
		wait = s.leavesAt(now.Add(wait)).Sub(now) // at least
	default:
		wait += time.Duration(rounds) * s.Window
	}
	return wait
}

// leavesAt returns the instant from which the rule does not count an event of at.
func (r Rule) leavesAt(at time.Time) time.Time {
	if r.Days > 0 {
		return r.expiryOf(at)
	}
	if r.Calendar() {
		_, end := r.Period(at)
		return end
	}
	return at.Add(r.Window)
}
