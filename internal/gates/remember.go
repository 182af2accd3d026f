package gates

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/buckets"
	"sendcode/quota"
)

const (
	limiterOnlyCacheLife    = 250 * time.Millisecond // how long events that only the limiter has are used for refusals
	RewriteEvery            = time.Second            // least time between two rewrites of a limiter's bucket by one process
	maxEntriesPerGeneration = 16_384                 // entries of each generation of a recentMap
	versionCounters         = 4096                   // number of version counters; buckets share them by hash
)

// limiterOnlyCache remembers the events that only the limiter has, so that each refusal in a flood
// on one recipient does not read and compare them again. Safe for concurrent use.
type limiterOnlyCache struct {
	recent   recentMap[limiterOnlyEvents] // by the buckets of a subject
	seed     maphash.Seed
	versions [versionCounters]atomic.Uint64 // increased when this process takes events out of a bucket
}

// limiterOnlyEvents are the events that only the limiter had at heard.
type limiterOnlyEvents struct {
	events  map[quota.Scope][]quota.Event
	version uint64    // of the buckets, before the read
	heard   time.Time // on this process's clock
}

func newLimiterOnlyCache() limiterOnlyCache { return limiterOnlyCache{seed: maphash.MakeSeed()} }

// bucketsInDatabase returns the limiter's buckets whose events the database has too.
func bucketsInDatabase(s buckets.Subject) []string {
	return []string{buckets.Recipient(s.App, s.Channel, s.Purpose.Policy.Name, s.Recipient), s.FailuresBucket()}
}

// invalidate makes the process forget the remembered events of these buckets. Call it when this
// process takes events out of them.
func (r *limiterOnlyCache) invalidate(buckets ...string) {
	for _, b := range buckets {
		r.versions[maphash.String(r.seed, b)%versionCounters].Add(1)
	}
}

// version returns a number that changes when invalidate is called for one of the subject's buckets.
func (r *limiterOnlyCache) version(s buckets.Subject) (sum uint64) {
	for _, name := range bucketsInDatabase(s) {
		sum += r.versions[maphash.String(r.seed, name)%versionCounters].Load()
	}
	return sum
}

// recentMap is a map that keeps the newest entries, in two generations. When the young generation
// is full, it replaces the old one, which is dropped. Safe for concurrent use.
type recentMap[V any] struct {
	mu         sync.Mutex
	young, old map[string]V
}

func (r *recentMap[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

func (r *recentMap[V]) put(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= maxEntriesPerGeneration {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[string]V{}
	}
	r.young[key] = v
}

// recentInstants has the instants, on this process's clock, at which this process last rewrote each
// bucket or refunded each ID.
type recentInstants struct{ recentMap[time.Time] }

// mayRewrite reports whether the last rewrite of the bucket was at least RewriteEvery ago. If so,
// it notes a rewrite at now.
func (i *recentInstants) mayRewrite(bucket string, now time.Time) bool {
	if last, ok := i.get(bucket); ok && now.Sub(last).Abs() < RewriteEvery {
		return false
	}
	i.put(bucket, now)
	return true
}

// refundedSince reports whether this process refunded an ID at this instant or later.
func (i *recentInstants) refundedSince(id string, at time.Time) bool {
	refunded, ok := i.get(id)
	return ok && !refunded.Before(at)
}
