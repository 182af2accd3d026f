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

// Bounds of a Remembering.
const (
	rememberFor      = 250 * time.Millisecond // longest time until changes by other processes are noticed
	cacheShards      = 64                     // shards, each with its own lock
	refusalsPerShard = 128                    // refusals of each shard and generation; there are two generations
	idsPerShard      = 1024                   // IDs of each shard and generation
	versionCounters  = 4096                   // version counters; buckets share them by hash
)

// Remembering is a limiter that caches the refusals of another limiter: a client that is refused
// ten thousand times a second does not cost ten thousand calls. Safe for concurrent use.
type Remembering struct {
	limiter Limiter
	now     func() time.Time
	seed    maphash.Seed
	shards  [cacheShards]cacheShard
	// version counters by hash of a bucket's name; a counter increases whenever a call of this
	// Remembering may have changed the bucket
	versions [versionCounters]atomic.Uint64
}

type cacheShard struct {
	mu       sync.Mutex
	refusals generationCache[*refusal]
	ids      generationCache[bool]
}

// refusal is a cached refusal for one list of rules and their buckets. It stays in the cache after
// it has expired.
type refusal struct {
	rules    []Rule
	buckets  []string // of each rule
	version  uint64   // of the buckets, before the limiter was called
	answer   Decision
	heard    time.Time     // when the answer arrived; the waits in it count from here
	until    time.Time     // when it expires
	renewing chan struct{} // closed when the call that renews it has ended; nil if none is under way
}

// Remember puts a cache of refusals in front of a limiter. A refusal is cached until its first
// counted event leaves, and at most 250 ms. Meanwhile Take returns it for the same rules and
// buckets, with waits reduced by the time that has passed on the monotonic clock of now. When it
// has expired, one caller asks the limiter again and the others wait for its answer.
//
// Changes to the buckets by calls of this Remembering take effect at once; those by other processes
// within 250 ms. An ID that this Remembering saw admitted, refunded, recorded or with an error gets
// no cached refusal, while it is among the newest IDs of this kind, about 60,000. If another
// process may have taken the ID before, set Request.Repeated: else it may be refused for 250 ms
// although the limiter would admit it again. At most 16,384 refusals are cached. Peek is never
// cached.
func Remember(limiter Limiter, now func() time.Time) *Remembering {
	m := &Remembering{limiter: limiter, now: now, seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].refusals.capacity, m.shards[i].ids.capacity = refusalsPerShard, idsPerShard
	}
	return m
}

// Take returns a cached refusal, or calls the limiter; see [Remember] and [Limiter].
func (m *Remembering) Take(ctx context.Context, req Request) (Decision, error) {
	if req.Repeated || checkID(req.ID) != nil || m.remembersID(req.ID) {
		return m.takeUncached(ctx, req, 0)
	}
	key := m.key(req)
	d, wait, lead := m.lookUp(key, req)
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return Decision{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		d, _, lead = m.lookUp(key, req) // do not wait twice
	}
	if lead != nil {
		defer m.endRenewal(key, lead)
	}
	if d != nil {
		return *d, nil
	}
	return m.takeUncached(ctx, req, key)
}

// takeUncached calls the limiter's Take. It caches a refusal under key, unless key is 0. After an
// admission or an error it remembers the ID and invalidates the cached refusals of the buckets.
func (m *Remembering) takeUncached(ctx context.Context, req Request, key uint64) (Decision, error) {
	version := m.version(req)
	asked := m.now()
	d, err := m.limiter.Take(ctx, req)
	if err != nil || d.Admitted {
		m.rememberID(req.ID)
		for _, r := range req.Rules {
			m.invalidate(req.Buckets[r.Scope])
		}
		m.dropRefusal(key)
		return d, err
	}
	if life := d.cacheFor(); life > 0 && key != 0 {
		m.putRefusal(key, &refusal{
			rules: slices.Clone(req.Rules), buckets: bucketsOfRules(req), version: version, answer: d.aged(0),
			heard: m.now(), until: asked.Add(life),
		})
	} else {
		m.dropRefusal(key)
	}
	return d, nil
}

// Peek calls the limiter; see [Limiter].
func (m *Remembering) Peek(ctx context.Context, req Request) (Decision, error) {
	return m.limiter.Peek(ctx, req)
}

// Refund calls the limiter and invalidates cached refusals of the buckets; see [Limiter].
func (m *Remembering) Refund(ctx context.Context, id string, buckets ...string) error {
	m.rememberID(id)
	defer m.invalidate(buckets...)
	return m.limiter.Refund(ctx, id, buckets...)
}

// Record calls the limiter and invalidates cached refusals of the bucket; see [Limiter].
func (m *Remembering) Record(ctx context.Context, bucket string, keep time.Duration, events []AgedEvent) error {
	for _, e := range events {
		m.rememberID(e.ID)
	}
	defer m.invalidate(bucket)
	return m.limiter.Record(ctx, bucket, keep, events)
}

// Reset calls the limiter and invalidates cached refusals of the buckets; see [Limiter].
func (m *Remembering) Reset(ctx context.Context, buckets ...string) error {
	defer m.invalidate(buckets...)
	return m.limiter.Reset(ctx, buckets...)
}

// cacheFor returns how long a refusal may be cached: until the first event leaves or a period ends,
// at most rememberFor.
func (d Decision) cacheFor() time.Duration {
	life := rememberFor
	if d.Allowed() {
		return 0
	}
	for _, s := range d.Rules {
		if s.Calendar() {
			_, end := s.Rule.Period(d.At)
			life = min(life, end.Sub(d.At))
		}
		for _, wait := range []time.Duration{s.ResetAfter, s.RetryAfter} {
			if wait > 0 {
				life = min(life, wait)
			}
		}
	}
	return life
}

// aged returns the decision as it is after the time passed: with a later instant and shorter waits.
func (d Decision) aged(passed time.Duration) Decision {
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
