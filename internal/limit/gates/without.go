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

// maxRefusedBefore bounds the entries of refusedBefore, of 16 bytes each.
const maxRefusedBefore = 50_000

// refusedBefore has the recipients that the rows refused, until their wait ends, as far as this process
// knows. It decides nothing, and nothing of it is told: by it, a process without Redis first reads the
// rows of such a recipient, in a read that others share, and does not first count the send. So a flood
// on one recipient costs few reads, and takes no place of a wider rule. A name is a hash: two recipients
// with the same one cost a read. Safe for concurrent use.
type refusedBefore struct {
	mu    sync.Mutex
	seed  maphash.Seed
	until map[uint64]int64 // µs since 1970
}

func (b *refusedBefore) add(bucket string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.seed, b.until = maphash.MakeSeed(), map[uint64]int64{}
	}
	for other := range b.until {
		if len(b.until) < maxRefusedBefore {
			break
		}
		delete(b.until, other)
	}
	b.until[maphash.String(b.seed, bucket)] = until.UnixMicro()
}

func (b *refusedBefore) has(bucket string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) == 0 {
		return false
	}
	name := maphash.String(b.seed, bucket)
	if now.UnixMicro() < b.until[name] {
		return true
	}
	delete(b.until, name)
	return false
}

// refusedName names a subject in refusedBefore: limits depend on the class of the caller.
func refusedName(s bucketnames.Subject) string {
	return string(s.Class) + " " + bucketnames.Recipient(s.App, s.Channel, s.Purpose.CountedAs(), s.Recipient)
}

// rememberWait remembers, without Redis, how long the rows refuse the subject's next send.
func (g *Gates) rememberWait(s bucketnames.Subject, r databaseRows) {
	if wait := (quota.Decision{Rules: r.states}).RetryAfter(); wait > 0 && g.shared == nil {
		g.refused.add(refusedName(s), g.now().Add(wait))
	}
}

// AnswerRefusedBefore answers a send without counting it, if the rows refused the subject before and
// still refuse. refused is false if the gates must decide the send: so they must if another rule
// refuses, for which no row is read. Error: of the database.
func (g *Gates) AnswerRefusedBefore(ctx context.Context, s bucketnames.Subject) (told Answer, refused bool, err error) {
	if !g.refused.has(refusedName(s), g.now()) {
		return Answer{}, false, nil
	}
	if d, err := g.peekLocally(ctx, s); err != nil || !d.Allowed() {
		return Answer{}, false, err
	}
	told, err = g.peekWithoutLimiter(ctx, s, true)
	return told, err == nil && !told.Allowed(), err
}
