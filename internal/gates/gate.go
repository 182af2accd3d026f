// Package gates makes one gate of two: the limiter, which is fast and may lose events, and the log, which counts every send of a
// recipient. Gate asks the limiter, completes it from the log where it may lack events, gives back to it what it lost, and decides
// without it while it is away.
//
// It stands between package verification (and outbox, for refunds) and package quota. Admission by the log itself is store.Begin.
package gates

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Limiter is the first gate. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error
	Restore(ctx context.Context, h quota.History) error
	Reset(ctx context.Context, buckets ...string) error
}

// Log has the events of recipients. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error)
	Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(store.CountedSend) error) error
	AllRejected(ctx context.Context, within time.Duration, yield func(store.CountedSend) error) error
}

const (
	// Pause is how long the limiter is left alone after it failed; then one request asks it again.
	Pause = time.Second
	// TakeTimeout bounds the limiter's decision.
	TakeTimeout = 2 * time.Second
)

// Gate is safe for concurrent use. While the limiter is away, the log decides alone: exactly, for the recipient's rules. The other
// scopes are decided in this process meanwhile, from what it has seen since.
type Gate struct {
	shared Limiter
	local  Limiter // decides the other scopes while shared is away
	log    Log
	policy *policy.InForce
	now    func() time.Time
	logger *slog.Logger

	awayUntil atomic.Int64 // in µs since 1970
	outage    outage
	rebuilds  atomic.Int64
}

// Rebuilds is how many histories of the log were written into the limiter since the start: it may have lost what they hold.
func (g *Gate) Rebuilds() int64 { return g.rebuilds.Load() }

// rebuilt counts a history that was written into the limiter; an empty one gave nothing back.
func (g *Gate) rebuilt(events int) {
	if events > 0 {
		g.rebuilds.Add(1)
	}
}

// New makes a gate of a limiter and a log.
func New(shared Limiter, log Log, p *policy.InForce, now func() time.Time, logger *slog.Logger) *Gate {
	return &Gate{shared: shared, local: quota.NewMemory(now, store.LogClock), log: log, policy: p, now: now, logger: logger}
}

// outage writes one line to the process's log when the limiter goes away and one when it is back, not one for each request.
type outage struct {
	lasts atomic.Bool
	sends atomic.Int64 // decided without the limiter since it began
}

func (g *Gate) lost(err error) {
	if g.outage.lasts.CompareAndSwap(false, true) {
		g.logger.Warn("the limiter is away; the log decides alone", "error", err)
	}
}

func (g *Gate) back() {
	if g.outage.lasts.CompareAndSwap(true, false) {
		g.logger.Info("the limiter is back", "sends_decided_by_the_log", g.outage.sends.Swap(0))
	}
}

// errAway says that the log has to decide alone.
var errAway = errors.New("gates: the limiter is away")

func (g *Gate) take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return g.ask(ctx, r, g.shared.Take)
}

func (g *Gate) peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return g.ask(ctx, r, g.shared.Peek)
}

// ask asks the limiter, unless it was away a moment ago. With errAway it may or may not have counted the event.
func (g *Gate) ask(ctx context.Context, r quota.Request,
	call func(context.Context, quota.Request) (quota.Decision, error)) (quota.Decision, error) {
	began := g.now().UnixMicro()
	if began < g.awayUntil.Load() {
		return quota.Decision{}, errAway
	}
	bounded, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	d, err := call(bounded, r)
	if err == nil || !errors.Is(err, quota.ErrUnavailable) {
		if began >= g.awayUntil.Load() { // an answer to a question from before the failure proves nothing
			g.back()
		}
		return d, err
	}
	if ctx.Err() == nil { // a client that hung up says nothing of the limiter
		g.awayUntil.Store(g.now().Add(Pause).UnixMicro())
		g.lost(err)
	}
	return quota.Decision{}, errors.Join(errAway, err)
}

// takeAlone decides what the log does not: every scope but the recipient's, and which of the recipient's rules that
// observe would have refused.
func (g *Gate) takeAlone(ctx context.Context, r quota.Request) (quota.Decision, error) {
	r.Rules = policy.ForLimiterAlone(r.Rules)
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true, At: g.now(), Clock: store.LogClock}, nil
	}
	return g.local.Take(ctx, r)
}

// TakeSend takes a place for a send in every bucket or in none. While the limiter is away, the answer is that of the other scopes
// alone, on the log's clock, and taken says whether a refused request may have been counted all the same.
func (g *Gate) TakeSend(ctx context.Context, s policy.Subject, r quota.Request) (d quota.Decision, taken bool, err error) {
	if d, err = g.take(ctx, r); !errors.Is(err, errAway) {
		return d, false, err
	}
	g.outage.sends.Add(1)
	d, err = g.takeAlone(ctx, r)
	if err != nil || d.Admitted {
		return d, false, err
	}
	d, err = g.explainAlone(ctx, s, r.Buckets)
	return d, true, err
}

// TakeCheck counts a check, in the limiter or, while it is away, in this process. Without a rule there is nothing to count.
func (g *Gate) TakeCheck(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true}, nil
	}
	d, err := g.take(ctx, r)
	if errors.Is(err, errAway) {
		return g.takeAlone(ctx, r)
	}
	return d, err
}

// TakeOrAlone takes a place in the limiter or, while it is away, in this process alone. It is for what the log does not know.
func (g *Gate) TakeOrAlone(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	if d, err = g.take(ctx, r); !errors.Is(err, errAway) {
		return d, false, err
	}
	d, err = g.local.Take(ctx, r)
	return d, true, err
}

// PeekOrAlone is TakeOrAlone that counts nothing.
func (g *Gate) PeekOrAlone(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	if d, err = g.peek(ctx, r); !errors.Is(err, errAway) {
		return d, false, err
	}
	d, err = g.local.Peek(ctx, r)
	return d, true, err
}

// Refund gives places back in the limiter.
func (g *Gate) Refund(ctx context.Context, id string, buckets ...string) error {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	return g.shared.Refund(ctx, id, buckets...)
}

// RefundLocal gives places back in this process, where they were taken while the limiter was away.
func (g *Gate) RefundLocal(ctx context.Context, id string, buckets ...string) error {
	return g.local.Refund(ctx, id, buckets...)
}

// Record writes a send that the log admitted alone into a bucket of the limiter.
func (g *Gate) Record(ctx context.Context, bucket string, keep time.Duration, e quota.Event) error {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, []quota.Event{e})
}

// Reset empties buckets, here and in the limiter.
func (g *Gate) Reset(ctx context.Context, buckets ...string) error {
	return errors.Join(g.local.Reset(ctx, buckets...), g.shared.Reset(ctx, buckets...))
}
