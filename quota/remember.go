package quota

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what a Remembering keeps.
const (
	rememberFor    = 250 * time.Millisecond // how late it may notice what other processes did
	memories       = 64                     // locks
	refusalsEach   = 128                    // of each lock and generation, of which there are two
	idsEach        = 1024                   // likewise
	bucketVersions = 4096
)

// Remembering is a limiter that remembers refusals by the one behind it: a client that is refused ten thousand times a second
// does not cost ten thousand questions. Safe for concurrent use.
type Remembering struct {
	behind   Limiter
	now      func() time.Time
	seed     maphash.Seed
	memories [memories]memory
	versions [bucketVersions]atomic.Uint64 // by hash of a bucket: one more whenever it may have been changed through here
}

type memory struct {
	mu       sync.Mutex
	refusals recent[*refusal]
	ids      recent[bool]
}

// refusal is what was answered to one list of rules over the same buckets, also after it has ceased to be true.
type refusal struct {
	rules    []Rule
	buckets  []string // of each rule
	version  uint64   // of the buckets, before it was asked for
	answer   Decision
	heard    time.Time     // from then on the waits grow shorter
	until    time.Time     // from then on it is true no more
	renewing chan struct{} // closed when a caller who asks again has heard; nil if there is none
}

// Remember puts a memory in front of a limiter. A refusal is remembered until anything that it says could change by
// itself, which is when the first event leaves, and at most 250 ms. So long, Take answers the same rules over the same
// buckets as the limiter would: refused, with waits that are shorter by the time that has passed on the monotonic clock
// of now. When that is over, one caller asks again and the others wait for what it hears.
//
// What is admitted, refunded, recorded and reset through here is noticed at once; what others do to the buckets, within
// 250 ms. An ID that was admitted, refunded, recorded or failed through here is never answered from memory while it is
// among the newest of some 60,000. Of any other that may have been taken before, Request.Repeated has to say so, else it may
// be refused during those 250 ms although the limiter would admit it again. At most 16,384 refusals are kept. Peek always
// asks.
func Remember(behind Limiter, now func() time.Time) *Remembering {
	m := &Remembering{behind: behind, now: now, seed: maphash.MakeSeed()}
	for i := range m.memories {
		m.memories[i].refusals.most, m.memories[i].ids.most = refusalsEach, idsEach
	}
	return m
}

// Take answers from memory or asks; see [Remember] and [Limiter].
func (m *Remembering) Take(ctx context.Context, req Request) (Decision, error) {
	if req.Repeated || checkID(req.ID) != nil || m.knows(req.ID) {
		return m.ask(ctx, req, 0)
	}
	key := m.key(req)
	d, wait, lead := m.recall(key, req)
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return Decision{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		d, _, lead = m.recall(key, req) // waited once is enough
	}
	if lead != nil {
		defer m.renewed(key, lead)
	}
	if d != nil {
		return *d, nil
	}
	return m.ask(ctx, req, key)
}

// ask asks the limiter, and remembers what it says.
func (m *Remembering) ask(ctx context.Context, req Request, key uint64) (Decision, error) {
	version := m.version(req)
	asked := m.now()
	d, err := m.behind.Take(ctx, req)
	if err != nil || d.Admitted {
		m.know(req.ID)
		for _, r := range req.Rules {
			m.touch(req.Buckets[r.Scope])
		}
		m.forget(key)
		return d, err
	}
	if life := d.life(); life > 0 && key != 0 {
		m.keep(key, &refusal{
			rules: slices.Clone(req.Rules), buckets: names(req), version: version, answer: d.later(0),
			heard: m.now(), until: asked.Add(life),
		})
	} else {
		m.forget(key)
	}
	return d, nil
}

// Peek asks the limiter; see [Limiter].
func (m *Remembering) Peek(ctx context.Context, req Request) (Decision, error) {
	return m.behind.Peek(ctx, req)
}

// Refund removes the event behind; see [Limiter].
func (m *Remembering) Refund(ctx context.Context, id string, buckets ...string) error {
	m.know(id)
	defer m.touch(buckets...)
	return m.behind.Refund(ctx, id, buckets...)
}

// Record writes history behind; see [Limiter].
func (m *Remembering) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	for _, e := range events {
		m.know(e.ID)
	}
	defer m.touch(bucket)
	return m.behind.Record(ctx, bucket, keep, events)
}

// Restore writes history behind; see [Limiter].
func (m *Remembering) Restore(ctx context.Context, h History) error {
	for _, e := range h.Events {
		m.know(e.ID)
	}
	defer m.touch(h.Bucket)
	return m.behind.Restore(ctx, h)
}

// Reset forgets the events behind; see [Limiter].
func (m *Remembering) Reset(ctx context.Context, buckets ...string) error {
	defer m.touch(buckets...)
	return m.behind.Reset(ctx, buckets...)
}

// life is for how long a refusal stays true, but for shorter waits: until the first event leaves or a period ends. It is 0
// where an event lies in the future: while the clock has not come back to it, its wait does not grow shorter.
func (d Decision) life() time.Duration {
	life := rememberFor
	if d.Allowed() {
		return 0
	}
	for _, s := range d.Rules {
		if s.Calendar() {
			_, end := s.Rule.Period(d.At)
			life = min(life, end.Sub(d.At))
		} else if s.ResetAfter >= s.Window || s.RetryAfter >= s.Window {
			return 0
		}
		for _, wait := range []time.Duration{s.ResetAfter, s.RetryAfter} {
			if wait > 0 {
				life = min(life, wait)
			}
		}
	}
	return life
}

// later is the refusal some time after.
func (d Decision) later(passed time.Duration) Decision {
	d.At = d.At.Add(passed)
	d.Rules = slices.Clone(d.Rules)
	for i := range d.Rules {
		s := &d.Rules[i]
		if s.ResetAfter > 0 {
			s.ResetAfter -= passed
		}
		if s.RetryAfter > 0 {
			s.RetryAfter -= passed
		}
	}
	return d
}
