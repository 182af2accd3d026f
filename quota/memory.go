package quota

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
)

// shards is how many locks the buckets of a Memory are spread over.
const shards = 64

// Memory is the limiter within one process, and the model that the script is held to. It keeps each event for as long
// as a rule can need it and forgets everything when the process ends. It never returns ErrUnavailable. Safe for
// concurrent use.
type Memory struct {
	now    func() time.Time
	clock  string
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	opened  int   // buckets made since the last sweep
	swept   int64 // when that was, µs since 1970
	most    int   // buckets that the map has held at once
}

// NewMemory makes an empty limiter on the clock now, which its decisions call by the name clock.
func NewMemory(now func() time.Time, clock string) *Memory {
	m := &Memory{now: now, clock: clock, seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].buckets = map[string]*bucket{}
	}
	return m
}

// Take counts the event or spends nothing; see [Limiter].
func (m *Memory) Take(_ context.Context, req Request) (Decision, error) {
	p, err := planTake(req)
	if err != nil {
		return Decision{}, err
	}
	defer m.lock(p.buckets)()
	now := m.now().UnixMicro()
	held := make([]bool, len(p.buckets))
	for i, name := range p.buckets {
		if p.keeps[i] == 0 {
			continue
		}
		b := m.find(name, now)
		if b.refunded(req.ID, now) {
			return Decision{}, ErrRefunded
		}
		held[i] = b.counts(req.ID, now, p.keeps[i])
	}
	d := m.explain(p, now)
	for i, s := range d.Rules {
		if s.blocks() && !held[p.of[i]] {
			d.Incomplete = m.incomplete(p, now)
			return d, nil
		}
	}
	for i, name := range p.buckets {
		if !held[i] && p.keeps[i] > 0 {
			b := m.open(name, now)
			b.prune(now, p.keeps[i])
			b.add(req.ID, now)
			b.settle(p.keeps[i])
		}
	}
	d = m.explain(p, now)
	d.Admitted = true
	return d, nil
}

// Peek answers without counting; see [Limiter].
func (m *Memory) Peek(_ context.Context, req Request) (Decision, error) {
	p, err := planPeek(req)
	if err != nil {
		return Decision{}, err
	}
	defer m.lock(p.buckets)()
	now := m.now().UnixMicro()
	d := m.explain(p, now)
	d.Incomplete = m.incomplete(p, now)
	return d, nil
}

// Refund removes the event and remembers that it is refunded; see [Limiter].
func (m *Memory) Refund(_ context.Context, id string, buckets ...string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return m.each(buckets, func(name string, now int64) {
		m.open(name, now).refund(id, now)
	})
}

// Reset forgets the events of the buckets; see [Limiter].
func (m *Memory) Reset(_ context.Context, buckets ...string) error {
	return m.each(buckets, func(name string, _ int64) {
		if b := m.shards[m.home(name)].buckets[name]; b != nil { // also one that lapsed: a step back would revive it
			b.reset()
		}
	})
}

// each runs do on every bucket under one lock and at one instant.
func (m *Memory) each(buckets []string, do func(name string, now int64)) error {
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

func (m *Memory) explain(p plan, now int64) Decision {
	d := Decision{At: instant(now), Clock: m.clock, Rules: make([]State, len(p.rules))}
	for i, r := range p.rules {
		d.Rules[i] = r.tally(m.find(p.buckets[p.of[i]], now).history(), now).state(r, now)
	}
	return d
}

// lock locks the shards of the buckets, always in ascending order so that two callers never wait for each other, and
// returns what unlocks them.
func (m *Memory) lock(buckets []string) (unlock func()) {
	order := make([]uint64, len(buckets))
	for i, name := range buckets {
		order[i] = m.home(name)
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

func (m *Memory) home(name string) uint64 { return maphash.String(m.seed, name) % shards }

// find returns nil, an empty bucket, where there is none or nothing in it can count any more.
func (m *Memory) find(name string, now int64) *bucket {
	b := m.shards[m.home(name)].buckets[name]
	if b == nil || b.until <= now {
		return nil
	}
	return b
}

func (m *Memory) open(name string, now int64) *bucket {
	if b := m.find(name, now); b != nil {
		return b
	}
	s := &m.shards[m.home(name)]
	s.sweep(now)
	b := &bucket{}
	s.buckets[name] = b
	return b
}

// sweep drops buckets that no rule can need any more. It is due when half as many buckets as there are have been opened since the last
// sweep, or after some time, so that the buckets of a rush go even if few follow. For each opened bucket it looks at two at most, and by time
// at no more than sweepRate in a minute.
func (s *shard) sweep(now int64) {
	const least = 64
	pause := time.Minute.Microseconds() * int64(1+len(s.buckets)/sweepRate)
	s.opened++
	if s.opened < max(least, len(s.buckets)/2) && now < s.swept+pause {
		return
	}
	s.opened, s.swept, s.most = 0, now, max(s.most, len(s.buckets))
	maps.DeleteFunc(s.buckets, func(_ string, b *bucket) bool { return b.until <= now })
	if len(s.buckets) < s.most/2 { // a map never gives memory back, so a smaller one takes its place
		smaller := make(map[string]*bucket, len(s.buckets))
		maps.Copy(smaller, s.buckets)
		s.buckets, s.most = smaller, len(smaller)
	}
}

// sweepRate bounds how many buckets of one shard are looked at in a minute by sweeps that are due by time.
const sweepRate = 10_000
