package gates

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"sendcode/internal/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

const (
	rememberedFor  = 250 * time.Millisecond // how long rows of the database are used for refusals
	RewriteEvery   = time.Second            // a bucket of the limiter is rewritten at most so often by a process
	maxRemembered  = 16_384                 // entries of each generation of a recent map
	bucketVersions = 4096                   // version counters; buckets share them by hash

	readsOfRefusals = 32 // how many reads for refusals are under way at once, of strangers and of others
)

// rows remembers rows that the database answered, so that a flood on one recipient costs few reads: never an answer, since class, reserve,
// rules and ages are the caller's own. Safe for concurrent use.
type rows struct {
	recent recent[readRows]
	only   recent[readOnly] // by the buckets of a subject
	reads  singleflight.Group
	// refusals of strangers that read at once, and of others: so that they never fill the statement that looks share
	strangers, others chan struct{}
	seed              maphash.Seed
	versions          [bucketVersions]atomic.Uint64 // increased when this process changes what a bucket counts
}

// readRows is a history as it was read.
type readRows struct {
	gate.History
	look    gate.Look
	version uint64    // of the buckets, before the read
	heard   time.Time // when the answer arrived
}

// readOnly is the events that only the limiter has, as they were read.
type readOnly struct {
	events  map[quota.Scope][]quota.Event
	version uint64 // of the buckets, before the read
	heard   time.Time
}

func newRows() rows {
	return rows{seed: maphash.MakeSeed(), strangers: make(chan struct{}, readsOfRefusals), others: make(chan struct{}, readsOfRefusals)}
}

// countedBuckets returns the limiter's buckets of which the database knows.
func countedBuckets(s buckets.Subject) []string {
	return []string{buckets.Recipient(s.App, s.Channel, s.Purpose.Policy.Name, s.Recipient), s.Failures()}
}

// forget makes the process forget the rows of these buckets: it has changed them.
func (r *rows) forget(buckets ...string) {
	for _, b := range buckets {
		r.versions[maphash.String(r.seed, b)%bucketVersions].Add(1)
	}
}

// forgetRecipient is forget of all buckets of the subject's recipient.
func (r *rows) forgetRecipient(s buckets.Subject) {
	r.versions[maphash.Bytes(r.seed, s.Recipient[:])%bucketVersions].Add(1)
}

// version changes with forget of one of the subject's buckets, and with forgetRecipient.
func (r *rows) version(s buckets.Subject) uint64 {
	sum := r.versions[maphash.Bytes(r.seed, s.Recipient[:])%bucketVersions].Load()
	for _, name := range countedBuckets(s) {
		sum += r.versions[maphash.String(r.seed, name)%bucketVersions].Load()
	}
	return sum
}

// readRows reads a history from the database. remembered: one that was read at most rememberedFor ago will do, if this process has changed
// nothing since; of several callers that need one, one reads it. Error: of the database.
func (g *Gates) readRows(ctx context.Context, s buckets.Subject, look gate.Look, remembered bool) (gate.History, error) {
	if !remembered {
		asked := g.now()
		h, err := g.db.Look(ctx, look)
		if err == nil {
			g.clocks.readDatabase(h.Now, asked)
			h = h.Later(max(0, g.clocks.database().Sub(h.Now))) // the answer may be late
		}
		return h, err
	}
	buckets := countedBuckets(s)
	key := strings.Join(slices.Concat(buckets, look.Purposes), "\x00")
	for tries := 0; ; tries++ {
		version, now := g.rows.version(s), g.now()
		known, ok := g.rows.recent.get(key)
		if age := now.Sub(known.heard); ok && known.version == version && age >= 0 && age < rememberedFor &&
			known.look.Counting == look.Counting && known.look.Rejected == look.Rejected {
			return known.Later(age), nil
		}
		if tries > 0 { // what another caller has read is too old by now
			return g.readRows(ctx, s, look, false)
		}
		_, err, _ := g.rows.reads.Do(key, func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
			defer cancel()
			slots := g.rows.others
			if s.Class.IsStranger() {
				slots = g.rows.strangers
			}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return nil, store.Unavailable(ctx.Err())
			}
			h, err := g.readRows(ctx, s, look, false)
			if err == nil {
				g.rows.recent.put(key, readRows{h, look, version, g.now()})
			}
			return nil, err
		})
		if err != nil {
			return gate.History{}, err
		}
	}
}

// recent is a map with the newest entries, in two generations: when the young one is full, it becomes the old one, and the old one is
// dropped. Safe for concurrent use.
type recent[V any] struct {
	mu         sync.Mutex
	young, old map[string]V
}

func (r *recent[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

func (r *recent[V]) put(key string, v V) {
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

// instants is when something happened to a name, by this process's clock.
type instants struct{ recent[time.Time] }

// may reports whether the bucket was not rewritten within RewriteEvery, and then notes that it is.
func (i *instants) may(bucket string, now time.Time) bool {
	if last, ok := i.get(bucket); ok && now.Sub(last).Abs() < RewriteEvery {
		return false
	}
	i.put(bucket, now)
	return true
}

// before reports whether this process refunded an ID at this instant or later.
func (i *instants) before(id string, at time.Time) bool {
	refunded, ok := i.get(id)
	return ok && !refunded.Before(at)
}
