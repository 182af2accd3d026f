package quota

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
)

// shards is the number of shards of a Memory. Each shard has its own lock.
const shards = 64

// Memory is the in-process limiter. Tests compare Redis with Memory. A Memory keeps each event for
// as long as a rule can need the event. When the process ends, all events are lost, unless OnChange
// stores the events. A Memory never returns ErrUnavailable. Safe for concurrent use.
type Memory struct {
	// OnChange is called for each change of a bucket. The calls for one bucket have the order of
	// the changes. The bucket is locked during the call. ctx is the context of the call that made
	// the change. OnChange must not block. Set OnChange before the Memory is first used.
	OnChange func(ctx context.Context, c Change)

	now    func() time.Time
	seed   maphash.Seed
	most   int // largest number of buckets of a shard; 0: no bound
	shards [shards]shard
}

// Change is a change of one bucket of a Memory. If Keep is positive, the change adds an event that
// counts from At for the duration Keep. If Keep is 0 and ID is set, the change is the refund of the
// event. If ID is empty, the change is the reset of the bucket.
type Change struct {
	Bucket, ID string
	At         time.Time
	Keep       time.Duration
}

type shard struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	opened  int   // buckets added since the last sweep
	swept   int64 // instant of the last sweep, µs since 1970
	peak    int   // largest number of buckets since the map was made
}

// NewMemory makes an empty limiter that reads the time from now.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{now: now, seed: maphash.MakeSeed(), OnChange: func(context.Context, Change) {}}
	for i := range m.shards {
		m.shards[i].buckets = map[string]*bucket{}
	}
	return m
}

// NewBoundedMemory is NewMemory with a bound on the number of buckets. The parameter buckets gives
// the approximate bound. The bound is at least 64. If the bound is reached, a new bucket replaces a
// random bucket.
func NewBoundedMemory(now func() time.Time, buckets int) *Memory {
	m := NewMemory(now)
	m.most = max(1, buckets/shards)
	return m
}

// Take counts the event in all buckets or in none; see [Limiter].
func (m *Memory) Take(ctx context.Context, req Request) (Decision, error) {
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
			m.OnChange(ctx, Change{Bucket: name, ID: req.ID, At: microsToTime(now), Keep: p.keeps[i]})
		}
	}
	d = m.states(p, now)
	d.Admitted = true
	return d, nil
}

// Peek returns the states of the rules and counts nothing; see [Limiter].
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

// Refund removes the event with this ID from the buckets. It leaves a tombstone for 60 s, even in
// buckets that did not count the ID; see [Limiter].
func (m *Memory) Refund(ctx context.Context, id string, buckets ...string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return m.updateEach(buckets, func(name string, now int64) {
		m.findOrAdd(name, now).refund(id, now)
		m.OnChange(ctx, Change{Bucket: name, ID: id})
	})
}

// Reset deletes the events of the buckets; see [Limiter].
func (m *Memory) Reset(ctx context.Context, buckets ...string) error {
	return m.updateEach(buckets, func(name string, now int64) {
		m.findOrAdd(name, now).reset(now)
		m.OnChange(ctx, Change{Bucket: name})
	})
}

// updateEach calls the function do for every bucket, with the same value of now. During the calls,
// the shards of all these buckets are locked. If a name is empty, updateEach returns ErrBadRequest.
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

// clampToNow moves each event that lies in the future to the instant now. Events lie in the future
// if the clock was set back.
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

// lock locks the shards of the buckets, in ascending order so that callers cannot deadlock. It
// returns the function that unlocks them.
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

// find returns the bucket with this name, or nil if the bucket is missing or has expired. A nil
// bucket counts as an empty bucket. The caller must hold the lock of the bucket's shard.
func (m *Memory) find(name string, now int64) *bucket {
	b := m.shards[m.shardOf(name)].buckets[name]
	if b == nil || b.expiresAt <= now {
		return nil
	}
	return b
}

// findOrAdd returns the bucket of a name, and adds it if it is missing. Before it adds a bucket, it
// deletes the shard's expired buckets if a sweep is due. Then, while the shard is full, it deletes
// random buckets.
func (m *Memory) findOrAdd(name string, now int64) *bucket {
	if b := m.find(name, now); b != nil {
		return b
	}
	s := &m.shards[m.shardOf(name)]
	s.sweepIfDue(now)
	for other := range s.buckets {
		if m.most == 0 || len(s.buckets) < m.most {
			break
		}
		delete(s.buckets, other)
	}
	b := &bucket{}
	s.buckets[name] = b
	return b
}

// sweepIfDue deletes the expired buckets of the shard if a sweep is due. A sweep is due if at least
// 64 buckets were added since the last sweep, and these are at least half of all buckets. A sweep
// is also due one minute after the last sweep, plus one minute for each sweepRate buckets. The
// first condition keeps the cost of each added bucket small. The second condition deletes expired
// buckets after a rush, even if few new buckets follow.
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

// sweepRate is how many buckets of one shard the time-based sweep visits per minute, at most.
const sweepRate = 10_000
