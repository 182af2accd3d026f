package gates

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

const (
	// On average, shared reads of the same rows begin at least minReadSpacing apart. Up to
	// readBurst reads may begin without a pause.
	minReadSpacing = 20 * time.Millisecond
	readBurst      = 32
	// These constants limit the shared reads for the answers to refused requests: how many may be
	// under way at once for strangers (unknown browsers), and how many for other callers. All calls
	// of ReadHistory share a statement, which holds a limited number of calls. The sum of the
	// constants is less than this number, so calls for other requests still fit into the statement.
	maxReadsOfStrangers, maxReadsOfOthers = 100, 150
)

// sharedReads lets requests that need the same rows share a read. So a flood on one recipient costs
// few reads. A request joins a read only if the read has not begun. So the read includes every send
// that was answered before the request came. sharedReads is safe for concurrent use.
type sharedReads[T any] struct {
	// The channels strangers and others have a slot for each read under way that is for the answer
	// to a refused request. Because the slots are limited, these reads never fill the statement
	// that calls of ReadHistory share.
	strangers, others chan struct{}

	mu      sync.Mutex
	waiting map[readKey]*sharedRead[T] // reads that have not begun
	last    map[readKey]*sharedRead[T] // the last read that has begun, until the next one may begin
}

// readKey is the key by which requests share a read. It identifies the rows. It also says whether a
// stranger needs the rows. The field look is true if the read is for a peek, and false if it is for
// the answer to a refused request. A read for a peek takes none of the slots that limit the other
// reads.
type readKey struct {
	bucket             string
	counting, rejected time.Duration
	stranger, look     bool
}

// sharedRead is a read and its answer.
type sharedRead[T any] struct {
	done       chan struct{} // closed when the fields below are set
	turn       time.Time     // when the next read begins if all begin minReadSpacing apart
	askedAt    time.Time     // when the read began, on this process's clock
	answeredAt time.Time     // when the read had its answer, on this process's clock
	rows       T
	err        error
}

// errPanicked is the error of a read that a panic ended.
var errPanicked = store.WrapUnavailable(panics.Err)

func newSharedReads[T any]() sharedReads[T] {
	return sharedReads[T]{
		strangers: make(chan struct{}, maxReadsOfStrangers), others: make(chan struct{}, maxReadsOfOthers),
		waiting: map[readKey]*sharedRead[T]{}, last: map[readKey]*sharedRead[T]{},
	}
}

// read returns the answer of a read that began after the call of this method. Its err is the error
// of the read. If the read did not begin within store.CallTimeout, err is fault.Unavailable.
func (r *sharedReads[T]) read(ctx context.Context, key readKey, now func() time.Time,
	read func(context.Context) (T, error),
) *sharedRead[T] {
	r.mu.Lock()
	x, before := r.waiting[key], r.last[key]
	if x != nil {
		r.mu.Unlock()
		<-x.done
		return x
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
	}
	x.err = x.takeTurn(ctx, before, slots)
	r.mu.Lock()
	delete(r.waiting, key)
	if x.err != nil {
		r.mu.Unlock()
		return x
	}
	r.last[key] = x
	r.mu.Unlock()
	time.AfterFunc(time.Until(x.turn), func() {
		<-x.done
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last[key] == x {
			delete(r.last, key)
		}
	})
	defer func() { <-slots }()
	x.askedAt, x.err = now(), errPanicked
	x.rows, x.err = read(ctx)
	x.answeredAt = now()
	return x
}

// takeTurn waits until the read may begin, and takes a slot. The parameter before is the previous
// read of the same rows. If there is none, before is nil. If ctx ends first, takeTurn returns
// fault.Unavailable.
func (s *sharedRead[T]) takeTurn(ctx context.Context, before *sharedRead[T], slots chan<- struct{}) error {
	s.turn = time.Now()
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			return store.WrapUnavailable(ctx.Err())
		}
		if before.turn.After(s.turn) {
			s.turn = before.turn
		}
	}
	if early := time.Until(s.turn) - readBurst*minReadSpacing; early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return store.WrapUnavailable(ctx.Err())
		}
	}
	s.turn = s.turn.Add(minReadSpacing)
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.WrapUnavailable(ctx.Err())
	}
}

// readHistory reads the rows of a subject's recipient. Refused requests may share a read with each
// other. Requests that only peek at the quota may do so, too, but not with refused requests. If the
// plan has no rule on the recipient or its failures, readHistory reads nothing and returns nil. It
// returns the error of the database.
func (g *Gates) readHistory(ctx context.Context, p buckets.Plan, refusal bool) (*sharedRead[rowrules.History], error) {
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
		p.Class.IsStranger(), !refusal,
	}
	x := g.histories.read(ctx, key, g.now, func(ctx context.Context) (rowrules.History, error) { return g.db.ReadHistory(ctx, look) })
	return x, x.err
}
