package gates

import (
	"context"
	"slices"
	"sync"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/bucketnames"
	"sendcode/quota"
)

// WithoutRedis reports whether the limiter is in this process: then it has no events of recipients.
func (g *Gates) WithoutRedis() bool { return g.local == nil }

// rulesOfLimiter returns the rules that the limiter decides.
func (g *Gates) rulesOfLimiter(rules []quota.Rule) []quota.Rule {
	if g.WithoutRedis() {
		return policy.ForLimiterAlone(rules)
	}
	return rules
}

// bucketsOfLimiter returns the buckets whose events the limiter has.
func (g *Gates) bucketsOfLimiter(buckets []string) []string {
	if g.WithoutRedis() {
		return slices.DeleteFunc(slices.Clone(buckets), bucketnames.InDatabase)
	}
	return buckets
}

// maxRefusedBefore bounds the recipients of refusedBefore.
const maxRefusedBefore = 50_000

// refusedBefore has the recipients that the rows refuse for now, until their wait ends. It decides nothing:
// the next request for such a recipient first looks at the rows, in a read that others share, and is
// not counted in the limiter before. So a flood on one recipient costs few reads. Safe for concurrent
// use.
type refusedBefore struct {
	mu    sync.Mutex
	until map[readKey]time.Time
}

func keyOfRefused(s bucketnames.Subject) readKey {
	return readKey{bucket: bucketnames.Recipient(s.App, s.Channel, s.Purpose.CountedAs(), s.Recipient), stranger: s.Class.IsStranger()}
}

func (b *refusedBefore) add(s bucketnames.Subject, wait time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = map[readKey]time.Time{}
	}
	for other := range b.until {
		if len(b.until) < maxRefusedBefore {
			break
		}
		delete(b.until, other)
	}
	b.until[keyOfRefused(s)] = now.Add(wait)
}

func (b *refusedBefore) has(s bucketnames.Subject, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOfRefused(s)
	until, is := b.until[key]
	if is && !now.Before(until) {
		delete(b.until, key)
		return false
	}
	return is
}

// rememberWait remembers how long the rows refuse the subject's next send.
func (g *Gates) rememberWait(s bucketnames.Subject, r databaseRows) {
	if wait := (quota.Decision{Rules: r.states}).RetryAfter(); wait > 0 && g.WithoutRedis() {
		g.refused.add(s, wait, g.now())
	}
}

// AnswerRefusedBefore answers a send without counting it, if the rows refused the subject, as far as
// this process knows, and still refuse. refused is false if the gates must decide the send. Error: of the database.
func (g *Gates) AnswerRefusedBefore(ctx context.Context, s bucketnames.Subject) (told Answer, refused bool, err error) {
	asked := g.now()
	if !g.refused.has(s, asked) {
		return Answer{}, false, nil
	}
	d, err := g.peekLimiter(ctx, s)
	if err != nil || !d.Allowed() { // the limiter refuses first
		return Answer{}, false, err
	}
	told, err = g.AnswerRefusal(ctx, s, d, asked)
	return told, err == nil && !told.Allowed(), err
}
