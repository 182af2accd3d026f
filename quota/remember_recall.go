package quota

import (
	"hash/maphash"
	"slices"
	"time"
)

// recall finds what is remembered. If that is true no more, the first caller gets a channel to lead with, and asks again;
// the others get it to wait for.
func (m *Remembering) recall(key uint64, req Request) (d *Decision, wait, lead chan struct{}) {
	now, version := m.now(), m.version(req)
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	r, ok := part.refusals.get(key)
	switch {
	case !ok || !r.answers(req):
		return nil, nil, nil
	case r.version == version && !now.Before(r.heard) && now.Before(r.until):
		answer := r.answer.later(now.Sub(r.heard).Truncate(time.Microsecond))
		return &answer, nil, nil
	case r.renewing != nil:
		return nil, r.renewing, nil
	}
	r.renewing = make(chan struct{})
	return nil, nil, r.renewing
}

// renewed lets those go on who waited.
func (m *Remembering) renewed(key uint64, lead chan struct{}) {
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	if r, ok := part.refusals.get(key); ok && r.renewing == lead {
		r.renewing = nil
	}
	close(lead)
}

func (m *Remembering) keep(key uint64, r *refusal) {
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.refusals.put(key, r)
}

func (m *Remembering) forget(key uint64) {
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.refusals.drop(key)
}

// answers reports whether the request asks the same.
func (r *refusal) answers(req Request) bool {
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

func names(req Request) []string {
	all := make([]string, len(req.Rules))
	for i, r := range req.Rules {
		all[i] = req.Buckets[r.Scope]
	}
	return all
}

// key is never 0. Two questions with one key are told apart by answers.
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

func (m *Remembering) know(id string) {
	key := maphash.String(m.seed, id)
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.ids.put(key, true)
}

func (m *Remembering) knows(id string) bool {
	key := maphash.String(m.seed, id)
	part := &m.memories[key%memories]
	part.mu.Lock()
	defer part.mu.Unlock()
	_, ok := part.ids.get(key)
	return ok
}

func (m *Remembering) touch(buckets ...string) {
	for _, b := range buckets {
		m.versions[maphash.String(m.seed, b)%bucketVersions].Add(1)
	}
}

// version is the sum of the versions of the request's buckets. It changes when any of them does, since each only grows.
func (m *Remembering) version(req Request) (sum uint64) {
	for _, r := range req.Rules {
		sum += m.versions[maphash.String(m.seed, req.Buckets[r.Scope])%bucketVersions].Load()
	}
	return sum
}

// recent keeps what was used last: at least most, at most twice as many. It drops half at once, which costs nothing.
type recent[V any] struct {
	most       int
	young, old map[uint64]V
}

func (r *recent[V]) get(key uint64) (V, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.put(key, v)
	}
	return v, ok
}

func (r *recent[V]) put(key uint64, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.most {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[uint64]V{}
	}
	r.young[key] = v
	delete(r.old, key)
}

func (r *recent[V]) drop(key uint64) {
	delete(r.young, key)
	delete(r.old, key)
}
