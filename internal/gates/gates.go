// Package gates combines two gates: the limiter, which is fast and may lose events, and the
// database, which counts every send of a recipient. Gates decides in the limiter, tells what the
// database counts, writes to the limiter what that lacks, and decides without the limiter while
// that is unavailable.
//
// It stands between package verification (and outbox, for refunds) and package quota. The
// database's own decision is in store.Begin.
package gates

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/buckets"
	"sendcode/internal/logthrottle"
	"sendcode/internal/policy"
	"sendcode/internal/runbook"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// Limiter is the first gate. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
	Events(ctx context.Context, bucket string) ([]quota.Event, time.Time, error)
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error
	Reset(ctx context.Context, buckets ...string) error
}

// Database reads the events of recipients. Implementation: sqldb.DB.
type Database interface {
	ReadHistory(ctx context.Context, l gate.Look) (gate.History, error)
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.Row, error)
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(store.CountedSend) error) error
	FailedSends(ctx context.Context, q store.FailedQuery) ([]store.FailedSend, time.Time, error)
	AllRejectedSends(ctx context.Context, within time.Duration, yield func(store.CountedSend) error) error
}

const (
	// Pause is how long the limiter is not called after it failed; then the next request calls it
	// again.
	Pause = time.Second
	// forgivenFor is for how long after a failed call the limiter may lack events that it was not
	// told.
	forgivenFor = 10 * time.Second
	// localBuckets bounds what this process remembers while the limiter answers: 264 bytes and a
	// name for a bucket with one event.
	localBuckets = 200_000
)

// TakeTimeout bounds one call of the limiter. Like every timeout that is a variable, only apptest
// changes it, before anything runs.
var TakeTimeout = 2 * time.Second

// betweenGates returns a duration that exceeds the time from a send's Take to the end of its Begin.
func betweenGates() time.Duration { return TakeTimeout + store.CallTimeout + 3*time.Second }

// Gates decides sends and other events. While the limiter is unavailable, the database decides the
// recipient's rules alone, exactly; this process decides the other scopes, from all events that it
// admitted. Safe for concurrent use.
type Gates struct {
	// RefundLater refunds an event that was refused and that the limiter may have counted, when it
	// is back. Set it before the first call.
	RefundLater func(id string, buckets map[quota.Scope]string)

	shared Limiter
	// in this process; decides scopes that the database does not, while shared is away. nil if
	// shared is in process
	local  *quota.Memory
	db     Database
	policy *policy.InForce
	now    func() time.Time
	logger *slog.Logger

	awayUntil atomic.Int64 // shared is not called before this instant; µs since 1970
	deciding  sync.RWMutex // held while local decides alone, shared while it counts what the limiter admitted
	lastAlone time.Time    // when local last admitted an event alone; guarded by deciding
	outage    outage
	lines     logthrottle.Throttle // of logUncompared
	rebuilds  atomic.Int64
	clocks    *clocks
	reads     sharedReads
	only      onlyLimiter
	refunded  instants // by ID; what the limiter may count again after a failover
	rewrites  instants // by bucket of the limiter
}

// Rebuilds returns how many histories of the database were written to the limiter since the start
// because it had lost events, although it answered every call.
func (g *Gates) Rebuilds() int64 { return g.rebuilds.Load() }

// countRebuild counts a history that the limiter lacked, unless a call of the limiter failed within
// the last forgivenFor: then the limiter may lack what it was not told.
func (g *Gates) countRebuild() {
	if g.now().Add(-forgivenFor).UnixMicro() >= g.awayUntil.Load() {
		g.rebuilds.Add(1)
	}
}

// New makes the gates of a limiter and a database.
func New(shared Limiter, db Database, p *policy.InForce, now func() time.Time, logger *slog.Logger) *Gates {
	g := &Gates{shared: shared, db: db, policy: p, now: now, logger: logger, clocks: newClocks(now),
		reads: newSharedReads(), only: newOnlyLimiter(), lines: logthrottle.Throttle{Every: time.Minute},
		RefundLater: func(string, map[quota.Scope]string) {}}
	if _, inProcess := shared.(*quota.Memory); !inProcess { // which is never unavailable
		g.local = quota.NewBoundedMemory(now, store.DatabaseClock, localBuckets)
	}
	return g
}

// outage makes the process log one line when the limiter becomes unavailable and one when it is
// back, not one for each request.
type outage struct {
	lasts atomic.Bool
	sends atomic.Int64 // decided without the limiter since the outage began
}

func (g *Gates) logOutage(err error) {
	if g.outage.lasts.CompareAndSwap(false, true) {
		g.logger.Warn("Redis away: the database decides for recipients, this process for other rules", "error", err,
			runbook.Redis.See())
	}
}

func (g *Gates) logRecovery() {
	if g.outage.lasts.CompareAndSwap(true, false) {
		g.logger.Info("Redis back", "sends_decided_by_database", g.outage.sends.Swap(0))
	}
}

// logUncompared logs that limiter and database could not be compared, at most once a minute: while
// the limiter is slow, each request meets it.
func (g *Gates) logUncompared(ctx context.Context, err error) {
	if _, due := g.lines.Add("uncompared", g.now()); due {
		g.logger.WarnContext(ctx, "could not compare limiter with database", "error", err, runbook.Redis.See())
	}
}

// errAway says that the limiter is unavailable, so the database or this process must decide alone.
var errAway = errors.New("gates: limiter unavailable")

// decider is a limiter's Take or Peek.
type decider func(context.Context, quota.Request) (quota.Decision, error)

// callLimiter runs call, a method of the limiter, unless the limiter failed less than Pause ago. A
// failure starts a new pause. refundable: an event that is refused after all may be refunded.
// Errors: errAway if the limiter was not called or did not answer, in which case it may have
// counted the event; others as call returns them.
func (g *Gates) callLimiter(ctx context.Context, r quota.Request, call decider,
	refundable bool) (quota.Decision, error) {
	asked := g.now()
	began := asked.UnixMicro()
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
		if err == nil {
			g.clocks.readLimiter(d.At, asked)
			d, err = g.confirm(bounded, r, d, refundable)
		}
		return d, err
	}
	if ctx.Err() == nil && !errors.Is(err, quota.ErrPartly) { // if the client hung up, the limiter may be well
		g.awayUntil.Store(g.now().Add(Pause).UnixMicro())
		g.logOutage(err)
	}
	return quota.Decision{}, errors.Join(errAway, err)
}

// confirm counts in this process what the limiter admitted. After an outage the limiter lacks the
// events that this process admitted alone; so while they may count, this process decides too. The
// states are then the stricter ones of both, and an event that this process refuses is refunded in
// the limiter. Error: quota.ErrRefunded.
func (g *Gates) confirm(ctx context.Context, r quota.Request, d quota.Decision,
	refundable bool) (quota.Decision, error) {
	own, decides, err := g.countHere(ctx, r, d.Admitted)
	if err != nil || !decides {
		return d, err
	}
	if d.Admitted && !own.Admitted {
		if d.Admitted = false; refundable {
			d.Rules = g.refundRefused(ctx, r, d.Rules)
		}
	}
	d.Rules = stricter(slices.Clone(d.Rules), own.Rules)
	return d, nil
}

// countHere counts an admitted event in this process. decides: this process decided as well, and
// own is its decision.
func (g *Gates) countHere(ctx context.Context, r quota.Request, admitted bool) (own quota.Decision, decides bool,
	err error) {
	if g.local == nil {
		return own, false, nil
	}
	g.deciding.RLock()
	defer g.deciding.RUnlock()
	if !admitted && g.lastAlone.IsZero() {
		return own, false, nil
	}
	r.Rules = policy.ForLimiterAlone(r.Rules)
	decides = !g.lastAlone.IsZero() && g.now().Sub(g.lastAlone) < quota.LongestKeep(r.Rules)
	switch {
	case len(r.Rules) == 0 || !admitted && !decides:
		return own, false, nil
	case !admitted:
		own, err = g.local.Peek(ctx, r)
		return own, true, err
	case !decides:
		for i := range r.Rules {
			r.Rules[i].Observe = true // counts and refuses nothing
		}
	}
	own, err = g.local.Take(ctx, r)
	return own, decides, err
}

// refundRefused refunds an event that the limiter admitted and this process refused, and returns
// the limiter's states without it. If the limiter fails, the event is refunded later, and the
// states stay as they are.
func (g *Gates) refundRefused(ctx context.Context, r quota.Request, states []quota.State) []quota.State {
	err := g.shared.Refund(ctx, r.ID, buckets.Counted(r.Buckets)...)
	if err != nil {
		g.RefundLater(r.ID, r.Buckets)
		return states
	}
	if d, err := g.shared.Peek(ctx, r); err == nil {
		return d.Rules
	}
	return states
}

// takeAlone decides an event in this process.
func (g *Gates) takeAlone(ctx context.Context, r quota.Request) (quota.Decision, error) {
	g.deciding.Lock()
	defer g.deciding.Unlock()
	d, err := g.local.Take(ctx, r)
	if d.Admitted {
		g.lastAlone = g.now()
	}
	return d, err
}

// TakeSend counts a send in every bucket or in none. While the limiter is unavailable, this process
// decides the scopes that the database does not; the decision then has the database's clock, so
// that Begin uses the database's own time. Of a refused send nothing stays counted.
func (g *Gates) TakeSend(ctx context.Context, s buckets.Subject, r quota.Request) (quota.Decision, error) {
	d, err := g.callLimiter(ctx, r, g.shared.Take, true) // the database knows which sends were admitted
	if !errors.Is(err, errAway) {
		return d, err
	}
	g.outage.sends.Add(1)
	own := r
	if own.Rules = policy.ForLimiterAlone(r.Rules); len(own.Rules) == 0 {
		return quota.Decision{Admitted: true, At: g.now(), Clock: store.DatabaseClock}, nil
	}
	d, err = g.takeAlone(ctx, own)
	if err != nil || d.Admitted {
		return d, err
	}
	g.RefundLater(r.ID, r.Buckets)
	told, err := g.peekWithoutLimiter(ctx, s, r.Buckets)
	return told.Decision, err
}

// TakeOrLocal counts an event in the limiter or, while that is unavailable, in this process
// (alone), even if ctx is canceled meanwhile. It is for events that are not in the database.
// Without rules it admits the event and counts nothing.
func (g *Gates) TakeOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true}, false, nil
	}
	ctx = context.WithoutCancel(ctx)
	// an ID from outside may be one that another process admitted before: then its repetition finds
	// it counted
	refundable := !r.Repeated
	d, away := g.callLimiter(ctx, r, g.shared.Take, refundable)
	if !errors.Is(away, errAway) {
		return d, false, away
	}
	d, err = g.takeAlone(ctx, r)
	// it was called, and may have counted the event
	if err == nil && !d.Admitted && refundable && errors.Is(away, quota.ErrUnavailable) {
		g.RefundLater(r.ID, r.Buckets)
	}
	return d, true, err
}

// PeekOrLocal is TakeOrLocal without counting. It needs rules.
func (g *Gates) PeekOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error) {
	if d, err = g.callLimiter(ctx, r, g.shared.Peek, false); !errors.Is(err, errAway) {
		return d, false, err
	}
	d, err = g.local.Peek(ctx, r)
	return d, true, err
}
