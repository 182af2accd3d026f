package gates

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

func (g *Gates) OnlyInProcess() bool { return g.shared == nil }

// recipientsUntil remembers recipients, each until an instant. It forgets a recipient whose slot
// another one needs. No decision depends on it alone. Safe for concurrent use.
type recipientsUntil struct {
	mu    sync.Mutex
	seed  maphash.Seed
	slots []recipientUntil // 16 bytes each
}

type recipientUntil struct {
	name  uint64 // a hash of the recipient, and of everything that its limits depend on
	until int64  // µs since 1970
}

func newRecipientsUntil() recipientsUntil {
	return recipientsUntil{seed: maphash.MakeSeed(), slots: make([]recipientUntil, 1<<16)}
}

func (r *recipientsUntil) nameOf(p buckets.Plan) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, part := range [...]string{string(p.Class), p.App, string(p.Channel), p.Purpose.SharedBucketName()} {
		_, _ = h.WriteString(part)
		_ = h.WriteByte(0) // no part contains this byte
	}
	_, _ = h.Write(p.Recipient[:])
	return h.Sum64()
}

func (r *recipientsUntil) add(name uint64, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[name%uint64(len(r.slots))] = recipientUntil{name, until.UnixMicro()}
}

func (r *recipientsUntil) has(name uint64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.slots[name%uint64(len(r.slots))]
	return x.name == name && now.UnixMicro() < x.until
}

// rememberWait stores, without Redis, how long the rows refuse the next send to p's recipient.
func (g *Gates) rememberWait(p buckets.Plan, r databaseRows) {
	if wait := (quota.Decision{Rules: r.states}).RetryAfter(); wait > 0 && g.OnlyInProcess() {
		g.refused.add(g.refused.nameOf(p), g.now().Add(wait))
	}
}

// AnswerRefusedBefore answers a send without counting it, in a process without Redis, if the rows
// refused p's recipient before and still do. Concurrent calls for a recipient share a read of the
// rows, so that a flood on the recipient costs few reads. The flood counts for no rule, so it uses
// up no wider rule, such as the app's.
//
// If refused is false, the gates must decide. That is so, too, if a rule in this process refuses;
// then no row is read. Error: the database's.
func (g *Gates) AnswerRefusedBefore(ctx context.Context, p buckets.Plan) (answer Answer, refused bool, err error) {
	if !g.OnlyInProcess() || !g.refused.has(g.refused.nameOf(p), g.now()) {
		return Answer{}, false, nil
	}
	askedAt := g.now()
	d, err := g.peekLocally(ctx, p)
	if err != nil || !d.Allowed() {
		return Answer{}, false, err
	}
	answer, err = g.mergeRefusal(ctx, p, d, askedAt)
	return answer, err == nil && !answer.Allowed(), err
}
