package gates

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"sendcode/internal/limit/bucketnames"
	"sendcode/quota"
)

// WithoutRedis reports whether the only limiter is in this process.
func (g *Gates) WithoutRedis() bool { return g.shared == nil }

// refusedBefore has the recipients that the rows refused, until their wait ends, as far as this process
// knows. It decides nothing, and nothing of it is told: by it, a process without Redis first reads the
// rows of such a recipient, in a read that others share, and does not first count the send. So a flood
// on one recipient costs few reads, and takes no place of a wider rule. A recipient whose slot another
// one took is forgotten. Safe for concurrent use.
type refusedBefore struct {
	mu    sync.Mutex
	seed  maphash.Seed
	slots []refusedUntil // 16 bytes each
}

type refusedUntil struct {
	name  uint64 // a hash of the recipient, and of what its limits depend on
	until int64  // µs since 1970
}

func (b *refusedBefore) nameOf(s bucketnames.Subject) uint64 {
	return maphash.String(b.seed, string(s.Class)+" "+bucketnames.Recipient(s.App, s.Channel, s.Purpose.CountedAs(), s.Recipient))
}

func (b *refusedBefore) add(name uint64, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots[name%uint64(len(b.slots))] = refusedUntil{name, until.UnixMicro()}
}

func (b *refusedBefore) has(name uint64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.slots[name%uint64(len(b.slots))]
	return x.name == name && now.UnixMicro() < x.until
}

// rememberWait remembers, without Redis, how long the rows refuse the subject's next send.
func (g *Gates) rememberWait(s bucketnames.Subject, r databaseRows) {
	if wait := (quota.Decision{Rules: r.states}).RetryAfter(); wait > 0 && g.WithoutRedis() {
		g.refused.add(g.refused.nameOf(s), g.now().Add(wait))
	}
}

// AnswerRefusedBefore answers a send without counting it, if the rows refused the subject before and
// still refuse. refused is false if the gates must decide the send: so they must if another rule
// refuses, for which no row is read. Error: of the database.
func (g *Gates) AnswerRefusedBefore(ctx context.Context, s bucketnames.Subject) (told Answer, refused bool, err error) {
	if !g.WithoutRedis() || !g.refused.has(g.refused.nameOf(s), g.now()) {
		return Answer{}, false, nil
	}
	asked := g.now()
	d, err := g.peekLocally(ctx, s)
	if err != nil || !d.Allowed() {
		return Answer{}, false, err
	}
	told, err = g.AnswerRefusal(ctx, s, d, asked)
	return told, err == nil && !told.Allowed(), err
}
