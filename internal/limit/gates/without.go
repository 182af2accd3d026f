package gates

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

// OnlyInProcess reports whether the only limiter is in this process.
func (g *Gates) OnlyInProcess() bool { return g.shared == nil }

// recipientsUntil is a set of recipients. Each recipient stays in the set until an instant. If
// another recipient needs the same slot, the set forgets the earlier recipient. This is safe,
// because no decision depends on the set alone. recipientsUntil is safe for concurrent use.
type recipientsUntil struct {
	mu    sync.Mutex
	seed  maphash.Seed
	slots []recipientUntil // 16 bytes each
}

type recipientUntil struct {
	name  uint64 // a hash of the recipient, and of everything on which its limits depend
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
		_ = h.WriteByte(0) // in no part
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

// rememberWait stores, for a service without Redis, how long the rows in the database refuse the
// next send to the recipient of p.
func (g *Gates) rememberWait(p buckets.Plan, r databaseRows) {
	if wait := (quota.Decision{Rules: r.states}).RetryAfter(); wait > 0 && g.OnlyInProcess() {
		g.refused.add(g.refused.nameOf(p), g.now().Add(wait))
	}
}

// AnswerRefusedBefore answers a send without counting it, if the database's rows refused the
// recipient of p before and still refuse the recipient. It does so only in a process without Redis.
// Concurrent calls for a recipient share one read of the rows, so a flood on one recipient costs
// few reads. The sends of the flood are not counted by any rule, so they do not use up rules with a
// wider scope, such as the app.
//
// If refused is false, the gates must decide the send. This is also the case if a rule in this
// process refuses the send. AnswerRefusedBefore then reads no row. The error is that of the
// database.
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
