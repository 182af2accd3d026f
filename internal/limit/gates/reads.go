package gates

import (
	"context"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

const (
	// reuseFor is how long after a read began its rows may be used again; see sharedReads.
	reuseFor = 50 * time.Millisecond
	// readPause is the least time between the starts of two reads for refused requests of one
	// recipient. It applies after readsAtOnce reads whose rows may not be used again, because a
	// send is in flight. If the mail server is away, that may last for hours. Requests that come
	// meanwhile share the later read. So a flood on such a recipient costs a process at most 200
	// reads a second for strangers and as many for others.
	readPause   = 5 * time.Millisecond
	readsAtOnce = 20
	// Refused requests have at most so many shared reads under way at once. Calls of ReadHistory
	// share statements of at most 256 calls (package batch). The two bounds add up to less, so that
	// calls of other requests still fit.
	maxReadsOfStrangers, maxReadsOfOthers = 100, 150
)

// sharedReads lets requests for the same rows share a read, so that a flood on one recipient costs
// few reads. A request joins a read that hasn't begun, because that read has every send that was
// answered before the request came. It uses the rows of an earlier read if it can show that they
// are still true. Safe for concurrent use.
type sharedReads[T any] struct {
	// A slot for each read under way for a refused request, so that these never fill the statement
	// that calls of ReadHistory share.
	strangers, others chan struct{}

	mu      sync.Mutex
	waiting map[readKey]*sharedRead[T] // the reads that haven't begun
	last    map[readKey]*sharedRead[T] // the reads that have begun and may still be used again
}

// readKey identifies the reads that requests can share: by the rows, and by whether a stranger
// needs them. look is true for a peek and false for a refused request; a peek's read takes no slot.
type readKey struct {
	bucket             string
	counting, rejected time.Duration
	stranger, look     bool
}

type sharedRead[T any] struct {
	done       chan struct{} // closed when the read has ended, and all fields below are set
	beganAt    time.Time     // time.Now when the read began, for readPause; set before sharedReads.last has the read
	inARow     int           // how many reads began before, each within reuseFor of the next
	askedAt    time.Time     // when it began, on this process's clock
	answeredAt time.Time     // on this process's clock
	rows       T
	err        error
}

// wait waits until the read is done, and returns r. If ctx ends first, wait returns a read with the
// error fault.Unavailable.
func (r *sharedRead[T]) wait(ctx context.Context) *sharedRead[T] {
	select {
	case <-r.done:
		return r
	case <-ctx.Done():
		return &sharedRead[T]{err: store.WrapUnavailable(ctx.Err())}
	}
}

// errPanicked is the error of a read that a panic ended.
var errPanicked = store.WrapUnavailable(panics.Err)

func newSharedReads[T any]() sharedReads[T] {
	return sharedReads[T]{
		strangers: make(chan struct{}, maxReadsOfStrangers), others: make(chan struct{}, maxReadsOfOthers),
		waiting: map[readKey]*sharedRead[T]{}, last: map[readKey]*sharedRead[T]{},
	}
}

// read returns the answer of a read that began after the call of this method, or of the last read
// before the call if usable accepts its rows. After many reads in a row for refused requests, the
// next one begins readPause after the one before. The answer's err is the error of the read. If the
// read did not begin within store.CallTimeout, or if ctx ended while read waited for another
// caller's read, err is fault.Unavailable.
func (r *sharedReads[T]) read(ctx context.Context, key readKey, now func() time.Time, usable func(T) bool,
	read func(context.Context) (T, error),
) *sharedRead[T] {
	r.mu.Lock()
	last := r.last[key]
	if last != nil {
		r.mu.Unlock()
		if x := last.wait(ctx); x != last || x.err == nil && usable(x.rows) {
			return x
		}
		r.mu.Lock()
	}
	x, before := r.waiting[key], r.last[key]
	if x == nil && before != last {
		x = before // this read began after the call
	}
	if x != nil {
		r.mu.Unlock()
		return x.wait(ctx)
	}
	x = &sharedRead[T]{done: make(chan struct{}), err: errPanicked}
	r.waiting[key] = x
	r.mu.Unlock()
	defer close(x.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	slots := r.others
	if key.stranger {
		slots = r.strangers
	}
	if key.look {
		slots = make(chan struct{}, 1)
	} else if before != nil {
		if x.inARow = before.inARow + 1; x.inARow >= readsAtOnce {
			select {
			case <-time.After(time.Until(before.beganAt.Add(readPause))):
			case <-ctx.Done():
			}
		}
	}
	x.err = takeSlot(ctx, slots)
	r.mu.Lock()
	x.beganAt = time.Now()
	delete(r.waiting, key)
	if x.err != nil {
		r.mu.Unlock()
		return x
	}
	r.last[key] = x
	r.mu.Unlock()
	forget := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last[key] == x {
			delete(r.last, key)
		}
	}
	if key.look { // no later peek uses its rows
		defer forget()
	} else {
		time.AfterFunc(reuseFor, func() {
			<-x.done
			forget()
		})
	}
	defer func() { <-slots }()
	x.askedAt, x.err = now(), errPanicked
	x.rows, x.err = read(ctx)
	x.answeredAt = now()
	return x
}

// takeSlot returns fault.Unavailable if ctx ends first.
func takeSlot(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.WrapUnavailable(ctx.Err())
	}
}

// historyRead is a history that was read for a peek, or for a refused request.
type historyRead struct {
	rowrules.History
	askedAt time.Time       // when it began, on this process's clock
	refused *quota.Decision // the limiter's refusal before it; nil for a peek
}

// isTrueFor reports whether the rows h are still those that the database counts, when the limiter
// has refused another request by the decision d. This is so if two conditions hold:
//
//   - The rows still refuse every send to the recipient, whoever asks, and none of them is in
//     flight, so none can be refunded. So the database has admitted no send that the rows lack.
//   - The limiter counts the same events of the recipient as before the read. So none was reset.
//
// A failed send that another replica cannot refund in the limiter may count for the rules on
// failures. So these rules must have two free places.
func (g *Gates) isTrueFor(h historyRead, p buckets.Plan, d quota.Decision) bool {
	if g.shared == nil || h.refused == nil || d.Local || h.refused.Local ||
		slices.ContainsFunc(h.Past, func(s rowrules.PastSend) bool { return s.InFlight }) {
		return false
	}
	ends := func(d quota.Decision, wait time.Duration) time.Time {
		if wait == 0 {
			return time.Time{}
		}
		return d.At.Add(wait)
	}
	if !slices.EqualFunc(d.Rules, h.refused.Rules, func(a, b quota.State) bool {
		return a.Rule == b.Rule && (!policy.CountedInDatabase(a.Rule) || a.Used == b.Used &&
			ends(d, a.ResetAfter).Equal(ends(*h.refused, b.ResetAfter)) && ends(d, a.RetryAfter).Equal(ends(*h.refused, b.RetryAfter)))
	}) {
		return false
	}
	r := g.countedRows(p, h.History, h.askedAt)
	rules := slices.Clone(p.SendRules)
	for i := range rules {
		rules[i].Limit += p.Purpose.Reserve[rules[i].Name] // the limit for callers who are no strangers
	}
	full := quota.Evaluate(rules, r.events, r.now).RetryAfter()
	return g.now().Before(h.askedAt.Add(full)) &&
		!slices.ContainsFunc(r.states, func(s quota.State) bool { return s.Scope == policy.FailuresScope && s.Remaining() < 2 })
}

// readHistory reads the rows of the plan's recipient. Refused requests share reads, and so do
// peeks, but not with each other. refused is the limiter's refusal, or nil for a peek. The result
// is nil without rules on the recipient or its failures. Error: the database's.
func (g *Gates) readHistory(ctx context.Context, p buckets.Plan, refused *quota.Decision) (*sharedRead[historyRead], error) {
	look := rowrules.HistoryQuery{SendBucket: p.SendBucket()}
	if window := quota.LongestKeep(p.SendRules); window > 0 {
		look.CountedWithin = window + HistoryMargin
	}
	if len(p.FailureRules) > 0 {
		look.RejectedWithin = g.policy.Get().LongestFailureWindow()
	}
	if look.CountedWithin == 0 && look.RejectedWithin == 0 {
		return nil, nil
	}
	key := readKey{
		buckets.Recipient(p.App, p.Channel, p.Purpose.SharedBucketName(), p.Recipient), look.CountedWithin, look.RejectedWithin,
		p.Class.IsStranger(), refused == nil,
	}
	usable := func(h historyRead) bool { return refused != nil && g.isTrueFor(h, p, *refused) }
	x := g.histories.read(ctx, key, g.now, usable, func(ctx context.Context) (historyRead, error) {
		askedAt := g.now()
		h, err := g.db.ReadHistory(ctx, look)
		return historyRead{h, askedAt, refused}, err
	})
	return x, x.err
}

// asOfNow adds the time since answeredAt to h.Now. The rows must still be those that the database
// counts. answeredAt is when the database answered, on this process's clock.
func (g *Gates) asOfNow(h rowrules.History, answeredAt time.Time) rowrules.History {
	h.Now = h.Now.Add(g.now().Sub(answeredAt).Truncate(time.Microsecond))
	return h
}
