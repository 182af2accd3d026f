package quota

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
)

const shards = 64 // each with a lock of its own

// Memory counts in one process. When the process ends, all events are lost, unless OnChange stores
// them. Memory never returns ErrUnavailable. Safe for concurrent use.
type Memory struct {
	// OnChange is called for each change, in the order of a bucket's changes. The bucket is locked
	// meanwhile, so OnChange must not block. Set it before the Memory is first used.
	OnChange func(c Change)

	now        func() time.Time
	seed       maphash.Seed
	maxBuckets int // of a shard; 0: no bound
	shards     *[shards]shard
}

// Silent returns the same limiter, except that its changes don't call OnChange. It is for changes
// that were read from the place where OnChange stores them.
func (m *Memory) Silent() *Memory {
	silent := *m
	silent.OnChange = func(Change) {}
	return &silent
}

// Change is a change of one bucket. If Keep is positive, the event with this ID was added, and
// counts from At for Keep. If Keep is 0, the event was refunded or, without an ID, the bucket was
// reset.
type Change struct {
	Bucket, ID string
	At         time.Time
	Keep       time.Duration
}

type shard struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	opened  int   // buckets added since the last sweep
	swept   int64 // instant of the last sweep, in µs since 1970
	peak    int   // most buckets since the map was made
}

// NewMemory makes an empty limiter on the clock now.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{now: now, seed: maphash.MakeSeed(), OnChange: func(Change) {}, shards: &[shards]shard{}}
	for i := range m.shards {
		m.shards[i].buckets = map[string]*bucket{}
	}
	return m
}

// NewBoundedMemory makes a Memory that keeps at most about this many buckets, or 64 if that is
// more. When it is full, a new bucket replaces a random one.
func NewBoundedMemory(now func() time.Time, buckets int) *Memory {
	m := NewMemory(now)
	m.maxBuckets = max(1, buckets/shards)
	return m
}

// Take implements [Limiter].
func (m *Memory) Take(_ context.Context, req Request) (Decision, error) {
	p, err := planTake(req)
	if err != nil {
		return Decision{}, err
	}
	defer m.lock(p.buckets)()
	now := m.now().UnixMicro()
	m.clampToNow(p.buckets, now)
	held := make([]bool, len(p.buckets))
	for i, name := range p.buckets {
		if p.keeps[i] == 0 {
			continue
		}
		b := m.find(name, now)
		if b.refunded(req.ID, now) {
			return Decision{}, ErrRefunded
		}
		held[i] = b.countsID(req.ID, now, p.keeps[i])
	}
	d := m.states(p, now)
	for i, s := range d.Rules {
		if s.blocks() && !held[p.bucketOf[i]] {
			return d, nil
		}
	}
	for i, name := range p.buckets {
		if !held[i] && p.keeps[i] > 0 {
			b := m.findOrAdd(name, now)
			b.prune(now, p.keeps[i])
			b.add(req.ID, now)
			b.setExpiry(p.keeps[i])
			m.OnChange(Change{Bucket: name, ID: req.ID, At: microsToTime(now), Keep: p.keeps[i]})
		}
	}
	d = m.states(p, now)
	d.Admitted = true
	return d, nil
}

// Peek implements [Limiter].
func (m *Memory) Peek(_ context.Context, req Request) (Decision, error) {
	p, err := planPeek(req)
	if err != nil {
		return Decision{}, err
	}
	defer m.lock(p.buckets)()
	now := m.now().UnixMicro()
	m.clampToNow(p.buckets, now)
	return m.states(p, now), nil
}

// Refund implements [Limiter].
func (m *Memory) Refund(_ context.Context, id string, buckets ...string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return m.updateEach(buckets, func(name string, now int64) {
		m.findOrAdd(name, now).refund(id, now)
		m.OnChange(Change{Bucket: name, ID: id})
	})
}

// Reset implements [Limiter].
func (m *Memory) Reset(_ context.Context, buckets ...string) error {
	return m.updateEach(buckets, func(name string, now int64) {
		m.findOrAdd(name, now).reset(now)
		m.OnChange(Change{Bucket: name})
	})
}

// updateEach calls do for every bucket, at one instant and with all of them locked.
func (m *Memory) updateEach(buckets []string, do func(name string, now int64)) error {
	if err := checkBuckets(buckets); err != nil {
		return err
	}
	defer m.lock(buckets)()
	now := m.now().UnixMicro()
	for _, name := range buckets {
		do(name, now)
	}
	return nil
}

func (m *Memory) clampToNow(buckets []string, now int64) {
	for _, name := range buckets {
		m.find(name, now).clampToNow(now)
	}
}

func (m *Memory) states(p requestPlan, now int64) Decision {
	d := Decision{At: microsToTime(now), Rules: make([]State, len(p.rules))}
	for i, r := range p.rules {
		d.Rules[i] = r.tally(m.find(p.buckets[p.bucketOf[i]], now).eventTimes(), now).state(r, now)
	}
	return p.split(d)
}

// lock locks the buckets' shards, in ascending order so that callers can't deadlock.
func (m *Memory) lock(buckets []string) (unlock func()) {
	order := make([]uint64, len(buckets))
	for i, name := range buckets {
		order[i] = m.shardOf(name)
	}
	slices.Sort(order)
	order = slices.Compact(order)
	for _, i := range order {
		m.shards[i].mu.Lock()
	}
	return func() {
		for _, i := range order {
			m.shards[i].mu.Unlock()
		}
	}
}

func (m *Memory) shardOf(name string) uint64 { return maphash.String(m.seed, name) % shards }

// find returns nil, which is an empty bucket, if the bucket is missing or has expired. Its shard
// must be locked.
func (m *Memory) find(name string, now int64) *bucket {
	b := m.shards[m.shardOf(name)].buckets[name]
	if b == nil || b.expiresAt <= now {
		return nil
	}
	return b
}

// findOrAdd also sweeps the shard if that is due, and makes room for a new bucket in a full shard.
func (m *Memory) findOrAdd(name string, now int64) *bucket {
	if b := m.find(name, now); b != nil {
		return b
	}
	s := &m.shards[m.shardOf(name)]
	s.sweepIfDue(now)
	for other := range s.buckets {
		if m.maxBuckets == 0 || len(s.buckets) < m.maxBuckets {
			break
		}
		delete(s.buckets, other)
	}
	b := &bucket{}
	s.buckets[name] = b
	return b
}

// sweepIfDue deletes expired buckets if at least 64 buckets, and at least half of all, are new
// since the last sweep. That keeps the cost for each new bucket small. It also deletes them after a
// pause of one minute, plus one for each sweepRate buckets, so that a rush is cleared up even if
// few new buckets follow.
func (s *shard) sweepIfDue(now int64) {
	const least = 64
	pause := time.Minute.Microseconds() * int64(1+len(s.buckets)/sweepRate)
	s.opened++
	if s.opened < max(least, len(s.buckets)/2) && now < s.swept+pause {
		return
	}
	s.opened, s.swept, s.peak = 0, now, max(s.peak, len(s.buckets))
	maps.DeleteFunc(s.buckets, func(_ string, b *bucket) bool { return b.expiresAt <= now })
	if len(s.buckets) < s.peak/2 { // a Go map never shrinks, so copy it to a smaller one
		smaller := make(map[string]*bucket, len(s.buckets))
		maps.Copy(smaller, s.buckets)
		s.buckets, s.peak = smaller, len(smaller)
	}
}

// sweepRate is the most buckets of one shard that the timed sweeps visit in a minute.
const sweepRate = 10_000
