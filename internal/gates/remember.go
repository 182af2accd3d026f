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
	rememberedFor   = 250 * time.Millisecond // how long events that only the limiter has are used for refusals
	RewriteEvery    = time.Second            // a bucket of the limiter is rewritten at most so often by a process
	maxRemembered   = 16_384                 // entries of each generation of a recentMap
	versionCounters = 4096                   // version counters; buckets share them by hash
)

// limiterOnlyCache remembers the events that only the limiter has, so that a flood of refusals on
// one recipient does not read and compare them each time. Safe for concurrent use.
type limiterOnlyCache struct {
	recent   recentMap[limiterOnlyEvents] // by the buckets of a subject
	seed     maphash.Seed
	versions [versionCounters]atomic.Uint64 // increased when this process takes events out of a bucket
}

// limiterOnlyEvents is the events that only the limiter has, as they were read.
type limiterOnlyEvents struct {
	events  map[quota.Scope][]quota.Event
	version uint64 // of the buckets, before the read
	heard   time.Time
}

func newLimiterOnlyCache() limiterOnlyCache { return limiterOnlyCache{seed: maphash.MakeSeed()} }

// bucketsInDatabase returns the limiter's buckets of which the database knows.
func bucketsInDatabase(s buckets.Subject) []string {
	return []string{buckets.Recipient(s.App, s.Channel, s.Purpose.Policy.Name, s.Recipient), s.FailuresBucket()}
}

// invalidate makes the process forget the events of these buckets: it has taken some out.
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

// recentMap is a map with the newest entries, in two generations: when the young one is full, it
// becomes the old one, and the old one is dropped. Safe for concurrent use.
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
	if len(r.young) >= maxRemembered {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[string]V{}
	}
	r.young[key] = v
}

// recentInstants is when this process last rewrote a bucket, or refunded an ID, by its own clock.
type recentInstants struct{ recentMap[time.Time] }

// mayRewrite reports whether the bucket was not rewritten within RewriteEvery, and then notes that
// it is.
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
