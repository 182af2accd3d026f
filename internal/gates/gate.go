// Package gates combines two gates: the limiter, which is fast and may lose events, and the log, which counts every send of a recipient.
// Gate decides in the limiter, reads from the log what the limiter may have lost, writes it back, and decides without the limiter
// while that is unavailable.
//
// It stands between package verification (and outbox, for refunds) and package quota. The log's own decision is in store.Begin.
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

// Log reads the events of recipients. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error)
	Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(store.CountedSend) error) error
	AllRejected(ctx context.Context, within time.Duration, yield func(store.CountedSend) error) error
}

const (
	// Pause is how long the limiter is not called after it failed; then the next request calls it again.
	Pause = time.Second
	// TakeTimeout bounds one call of the limiter.
	TakeTimeout = 2 * time.Second
)

// Gate decides sends and other events. While the limiter is unavailable, the log decides the recipient's rules alone, exactly; this
// process decides the other scopes, from the events that it has seen meanwhile. Safe for concurrent use.
type Gate struct {
	shared Limiter
	local  Limiter // in this process; decides scopes that the log does not, while shared is unavailable
	log    Log
	policy *policy.InForce
	now    func() time.Time
	logger *slog.Logger

	awayUntil atomic.Int64 // shared is not called before this instant; µs since 1970
	outage    outage
	rebuilds  atomic.Int64
}

// Rebuilds returns how many histories of the log were written to the limiter since the start, because it had lost events.
func (g *Gate) Rebuilds() int64 { return g.rebuilds.Load() }

// New makes a gate from a limiter and a log.
func New(shared Limiter, log Log, p *policy.InForce, now func() time.Time, logger *slog.Logger) *Gate {
	return &Gate{shared: shared, local: quota.NewMemory(now, store.LogClock), log: log, policy: p, now: now, logger: logger}
}

// outage makes the process log one line when the limiter becomes unavailable and one when it is back, not one for each request.
type outage struct {
	lasts atomic.Bool
	sends atomic.Int64 // decided without the limiter since the outage began
}

func (g *Gate) logOutage(err error) {
	if g.outage.lasts.CompareAndSwap(false, true) {
		g.logger.Warn("the limiter is away; the log decides sends, and this process everything else", "error", err)
	}
}

func (g *Gate) logRecovery() {
	if g.outage.lasts.CompareAndSwap(true, false) {
		g.logger.Info("the limiter is back", "sends_decided_by_the_log", g.outage.sends.Swap(0))
	}
}

// errAway says that the limiter is unavailable, so the log or this process must decide alone.
var errAway = errors.New("gates: the limiter is away")

// decider is a limiter's Take or Peek.
type decider func(context.Context, quota.Request) (quota.Decision, error)

// callLimiter runs call, a method of the limiter, unless the limiter failed less than Pause ago. A failure starts a new pause. Errors:
// errAway if the limiter was not called or did not answer, in which case it may have counted the event; others as call returns them.
func (g *Gate) callLimiter(ctx context.Context, r quota.Request, call decider) (quota.Decision, error) {
	began := g.now().UnixMicro()
	if began < g.awayUntil.Load() {
		return quota.Decision{}, errAway
	}
	bounded, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	d, err := call(bounded, r)
	if err == nil || !errors.Is(err, quota.ErrUnavailable) {
		if began >= g.awayUntil.Load() { // a call that began before the failure does not prove that the limiter is back
			g.logRecovery()
		}
		return d, err
	}
	if ctx.Err() == nil { // if the client hung up, the limiter may be well
		g.awayUntil.Store(g.now().Add(Pause).UnixMicro())
		g.logOutage(err)
	}
	return quota.Decision{}, errors.Join(errAway, err)
}

// TakeSend counts a send in every bucket or in none. While the limiter is unavailable, this process decides the scopes that the log does
// not; the decision then has the log's clock, so that Begin uses the log's own time. giveBack: the send is not admitted, but the
// limiter may have counted it before it failed, so the caller must refund it.
func (g *Gate) TakeSend(ctx context.Context, s policy.Subject, r quota.Request) (d quota.Decision, giveBack bool, err error) {
	if d, err = g.callLimiter(ctx, r, g.shared.Take); !errors.Is(err, errAway) {
		return d, false, err
	}
	g.outage.sends.Add(1)
	r.Rules = policy.ForLimiterAlone(r.Rules)
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true, At: g.now(), Clock: store.LogClock}, false, nil
	}
	d, err = g.local.Take(ctx, r)
	if err != nil || d.Admitted {
		return d, false, err
	}
	d, err = g.peekWithoutLimiter(ctx, s, r.Buckets)
	return d, true, err
}

// TakeOrLocal counts an event in the limiter or, while that is unavailable, in this process (alone). It is for events that are not in
// the log. Without rules it admits the event and counts nothing.
func (g *Gate) TakeOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true}, false, nil
	}
	return g.orLocal(ctx, r, g.shared.Take, g.local.Take)
}

// PeekOrLocal is TakeOrLocal without counting. It needs rules.
func (g *Gate) PeekOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	return g.orLocal(ctx, r, g.shared.Peek, g.local.Peek)
}

func (g *Gate) orLocal(ctx context.Context, r quota.Request, shared, local decider) (d quota.Decision, alone bool, err error) {
	if d, err = g.callLimiter(ctx, r, shared); !errors.Is(err, errAway) {
		return d, false, err
	}
	d, err = local(ctx, r)
	return d, true, err
}

// Refund removes an event from buckets of the limiter. It calls the limiter even if that failed less than Pause ago.
func (g *Gate) Refund(ctx context.Context, id string, buckets ...string) error {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	return g.shared.Refund(ctx, id, buckets...)
}

// RefundLocal removes an event from buckets of this process, where it was counted while the limiter was unavailable.
func (g *Gate) RefundLocal(ctx context.Context, id string, buckets ...string) error {
	return g.local.Refund(ctx, id, buckets...)
}

// Record adds a send that the log admitted alone to a bucket of the limiter.
func (g *Gate) Record(ctx context.Context, bucket string, keep time.Duration, e quota.Event) error {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	return g.shared.Record(ctx, bucket, keep, []quota.Event{e})
}

// Reset deletes the events of buckets, in this process and in the limiter.
func (g *Gate) Reset(ctx context.Context, buckets ...string) error {
	return errors.Join(g.local.Reset(ctx, buckets...), g.shared.Reset(ctx, buckets...))
}
