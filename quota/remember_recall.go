package quota

import (
	"hash/maphash"
	"slices"
	"time"
)

// lookUp looks up a cached refusal of the request. All results are nil if none is cached; else
// exactly one is set. d is the refusal, if it is valid. lead is set if the refusal has expired:
// this caller must ask the limiter and then call endRenewal. wait is set if another caller is
// asking the limiter; it is closed when that renewal has ended.
func (m *Remembering) lookUp(key uint64, req Request) (d *Decision, wait, lead chan struct{}) {
	now, version := m.now(), m.version(req)
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	r, ok := part.refusals.get(key)
	switch {
	case !ok || !r.sameRequest(req):
		return nil, nil, nil
	case r.version == version && !now.Before(r.heard) && now.Before(r.until):
		answer := r.answer.aged(now.Sub(r.heard).Truncate(time.Microsecond))
		return &answer, nil, nil
	case r.renewing != nil:
		return nil, r.renewing, nil
	}
	r.renewing = make(chan struct{})
	return nil, nil, r.renewing
}

// endRenewal ends a renewal: it wakes the callers that wait for it.
func (m *Remembering) endRenewal(key uint64, lead chan struct{}) {
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	if r, ok := part.refusals.get(key); ok && r.renewing == lead {
		r.renewing = nil
	}
	close(lead)
}

func (m *Remembering) putRefusal(key uint64, r *refusal) {
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.refusals.put(key, r)
}

func (m *Remembering) dropRefusal(key uint64) {
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.refusals.drop(key)
}

// sameRequest reports whether the request has the same rules and buckets as the refusal.
func (r *refusal) sameRequest(req Request) bool {
	if !slices.Equal(r.rules, req.Rules) {
		return false
	}
	for i, rule := range req.Rules {
		if r.buckets[i] != req.Buckets[rule.Scope] {
			return false
		}
	}
	return true
}

func bucketsOfRules(req Request) []string {
	all := make([]string, len(req.Rules))
	for i, r := range req.Rules {
		all[i] = req.Buckets[r.Scope]
	}
	return all
}

// key returns a hash of the names and buckets of the request's rules. Different requests can have
// the same key, so sameRequest compares them too. It never returns 0, which stands for "cache
// nothing".
func (m *Remembering) key(req Request) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, r := range req.Rules {
		_, _ = h.WriteString(r.Name)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(req.Buckets[r.Scope])
		_ = h.WriteByte(0)
	}
	return h.Sum64() | 1<<63
}

func (m *Remembering) rememberID(id string) {
	key := maphash.String(m.seed, id)
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.ids.put(key, true)
}

func (m *Remembering) remembersID(id string) bool {
	key := maphash.String(m.seed, id)
	part := &m.shards[key%cacheShards]
	part.mu.Lock()
	defer part.mu.Unlock()
	_, ok := part.ids.get(key)
	return ok
}

func (m *Remembering) invalidate(buckets ...string) {
	for _, b := range buckets {
		m.versions[maphash.String(m.seed, b)%versionCounters].Add(1)
	}
}

// version returns the sum of the buckets' version counters. Counters only grow, so any change of a
// bucket changes the sum.
func (m *Remembering) version(req Request) (sum uint64) {
	for _, r := range req.Rules {
		sum += m.versions[maphash.String(m.seed, req.Buckets[r.Scope])%versionCounters].Load()
	}
	return sum
}

// generationCache is a cache of the entries used last, in two generations of at most capacity
// entries each. When the young one is full, it becomes the old one, and the old one is dropped.
type generationCache[V any] struct {
	capacity   int
	young, old map[uint64]V
}

func (r *generationCache[V]) get(key uint64) (V, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.put(key, v)
	}
	return v, ok
}

func (r *generationCache[V]) put(key uint64, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.capacity {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[uint64]V{}
	}
	r.young[key] = v
	delete(r.old, key)
}

func (r *generationCache[V]) drop(key uint64) {
	delete(r.young, key)
	delete(r.old, key)
}
