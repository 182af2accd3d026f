// Package gates decides whether a send or another event is admitted. For a send it calls two gates:
// the limiter, usually in Redis, which is fast and may lose events, and the database, which counts
// every send of a recipient. Each decides alone, by its own events and clock, and returns waits as
// durations, so the clocks may differ. Rules on recipients and their failures have a state in both
// gates, and the response has the stricter one. Events of these rules that the limiter lost are
// added to it again from the database. Other rules are counted only by the limiter.
//
// Without Redis, or while it is away, the database alone decides the rules on recipients and their
// failures, and this process decides the others.
//
// Through this package, outbox counts failed sends, and repair corrects the limiter. The database's
// own decision is in store/rowrules. Comments name promises of docs/PROMISES.md by number.
// docs/ARCHITECTURE.md says what makes a wait longer or shorter.
package gates

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// Limiter is the first gate: quota.Memory or quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error
	Reset(ctx context.Context, buckets ...string) error
}

// Database is implemented by sqldb.DB.
type Database interface {
	ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error)
	FailedSends(ctx context.Context, q store.FailedSendsQuery) ([]store.FailedSend, time.Time, error)
}

const (
	// LimiterRetryDelay is how long after a failed call or trial the limiter is tried again.
	LimiterRetryDelay = time.Second
	// mayLackEventsFor is how long after an outage the limiter may lack events, because none could
	// be written during it.
	mayLackEventsFor = 10 * time.Second
	// maxLocalBuckets bounds the limiter in this process. A bucket with one event takes 264 bytes
	// and its name.
	maxLocalBuckets = 200_000
)

// LimiterTimeout bounds a call of the limiter. Only package apptest changes it, before anything
// runs.
var LimiterTimeout = 2 * time.Second

// Gates decides sends and other events. Without Redis, and while it is away, the database alone
// decides the recipient's rules, exactly, because it has every send. This process decides the
// others, but knows only what it has admitted itself. Safe for concurrent use.
//
// Only callLimiter begins an outage, only tryAgain ends one, and only takeLocally sets lastAlone.
type Gates struct {
	shared Limiter // nil: without Redis
	// local is in this process. If shared is nil or away, it decides what the database doesn't.
	local  Limiter
	db     Database
	policy *policy.CurrentSet
	lost   func()
	now    func() time.Time // the database's clock, as this process knows it
	// localNow is this machine's clock, by which local counts. Each correction of now would make
	// the events of local older or younger, and admit more than the limit within its window.
	localNow func() time.Time
	logger   *slog.Logger

	trials    context.Context // bounds the trials of tryAgain
	endTrials context.CancelFunc

	outage    outage
	pending   pendingRefunds
	deciding  sync.RWMutex  // write-locked while local decides alone, read-locked while it counts what shared admitted
	lastAlone time.Time     // when local last admitted an event alone; guarded by deciding
	lines     logs.Throttle // throttles logNotAdded
	histories sharedReads[historyRead]
	backoffs  sharedReads[quota.State] // shares the reads of correctBackoff
	refused   recipientsUntil          // only without Redis: the recipients that the rows refused, until the wait ends
}

// New returns Gates in which the database and a limiter in this process decide if shared is nil or
// InProcess. Gates calls lost when the shared limiter had lost events of a recipient, which were
// then added again. During mayLackEventsFor after an outage, Gates doesn't call lost, because the
// limiter then lacks events without having lost them.
func New(shared Limiter, db Database, p *policy.CurrentSet, lost func(), now, localNow func() time.Time,
	logger *slog.Logger,
) *Gates {
	g := &Gates{
		shared: shared, db: db, policy: p, lost: lost, now: now, localNow: localNow, logger: logger,
		histories: newSharedReads[historyRead](), backoffs: newSharedReads[quota.State](),
		pending: pendingRefunds{making: make(chan struct{}, 1), added: make(chan struct{}, 1)},
	}
	g.trials, g.endTrials = context.WithCancel(context.Background())
	switch {
	case InProcess(shared):
		g.shared, g.local, g.refused = nil, shared, newRecipientsUntil()
	case shared == nil:
		g.local, g.refused = quota.NewBoundedMemory(localNow, maxLocalBuckets), newRecipientsUntil()
	default:
		g.local = quota.NewBoundedMemory(localNow, maxLocalBuckets)
	}
	return g
}

// InProcess reports whether a limiter is a quota.Memory, or wraps one with a method Unwrap.
func InProcess(l Limiter) bool {
	if w, ok := l.(interface{ Unwrap() Limiter }); ok {
		return InProcess(w.Unwrap())
	}
	_, is := l.(*quota.Memory)
	return is
}

// outage says whether the limiter is away. The beginning and the end of an outage are logged,
// rather than each request.
type outage struct {
	turns atomic.Int64          // counts beginnings and ends; odd: the outage lasts
	back  atomic.Bool           // the outage is about to end: Refund calls the limiter again
	ended atomic.Int64          // when the last outage ended; µs since 1970
	sends atomic.Int64          // sends decided without the limiter since the outage began
	cause atomic.Pointer[error] // of the last call or trial that failed
}

func (o *outage) lasts() bool { return o.turns.Load()%2 == 1 }

// Stop ends the trials. During an outage it makes a last one at once: if that succeeds, pending
// refunds are made, otherwise they are lost with the process. Call it after the last send and
// before the limiter is closed.
func (g *Gates) Stop() {
	g.endTrials()
	g.tryAgain(context.Background(), 1)
}

// tryAgain finds out whether the limiter is back, by taking an event in count test buckets, which
// is as many as the failed call had. It ends the outage, or tries again after LimiterRetryDelay. No
// request waits for it.
//
// A ping would not be enough: a Redis that can't run scripts answers it, and so does a node of a
// Cluster that can't run a script on several keys.
func (g *Gates) tryAgain(ctx context.Context, count int) {
	turns := g.outage.turns.Load()
	if turns%2 == 0 {
		return // Stop was called outside an outage, or an earlier trial ended the outage and then panicked
	}
	r := quota.Request{ID: rand.Text(), Buckets: map[quota.Scope]string{}}
	for i := range count {
		scope := quota.Scope(fmt.Sprint("trial", i))
		r.Rules = append(r.Rules, quota.Rule{Name: string(scope), Scope: scope, Limit: 1, Window: quota.MinWindow, Observe: true})
		r.Buckets[scope] = buckets.Trial(i)
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	if _, err := g.shared.Take(ctx, r); err != nil && !errors.Is(err, quota.ErrPartly) {
		g.outage.cause.Store(&err)
		g.tryLater(count)
		return
	}
	g.outage.back.Store(true)
	defer g.outage.back.Store(false)
	g.MakePendingRefunds(ctx) // before a request calls the limiter again, so that a refunded place counts as free
	g.outage.ended.Store(g.now().UnixMicro())
	if g.outage.turns.CompareAndSwap(turns, turns+1) { // otherwise Stop has ended the outage
		g.logger.Info("Redis back", "sends_decided_by_database", g.outage.sends.Swap(0))
	}
}

// tryLater calls tryAgain after LimiterRetryDelay, unless Stop is called before.
func (g *Gates) tryLater(count int) {
	time.AfterFunc(LimiterRetryDelay, func() {
		defer panics.Recover(panics.Other, func() { g.tryLater(count) })
		if g.trials.Err() == nil {
			g.tryAgain(g.trials, count)
		}
	})
}

// WhyAway returns the error of the last failed call or trial during an outage, otherwise nil.
func (g *Gates) WhyAway() error {
	if cause := g.outage.cause.Load(); cause != nil && g.outage.lasts() {
		return *cause
	}
	return nil
}

// logNotAdded logs, at most once a minute because a slow limiter fails in every request, that the
// database's events could not be added to the limiter.
func (g *Gates) logNotAdded(ctx context.Context, err error) {
	if _, due := g.lines.Add("not added", g.now()); due {
		g.logger.WarnContext(ctx, "could not correct limiter by database", "error", err, logs.SeeRedis)
	}
}

// errLimiterAway means that there is no shared limiter, or that it is away, so the database and
// this process decide.
var errLimiterAway = errors.New("gates: limiter unavailable")

// callLimiter makes a call (Take or Peek) of the limiter, unless there is none or an outage lasts.
// An outage begins if the limiter is unavailable. After a success, confirmLocally may refuse what
// the limiter admitted. local has the rules of r that this process decides during an outage: all
// that the database doesn't.
//
// Errors: errLimiterAway if the limiter wasn't called; errLimiterAway joined with the cause if it
// didn't answer, and may have counted the event; others of the call and of confirmLocally.
func (g *Gates) callLimiter(ctx context.Context, r quota.Request, local []quota.Rule,
	call func(Limiter, context.Context, quota.Request) (quota.Decision, error),
) (quota.Decision, error) {
	turns := g.outage.turns.Load()
	if g.shared == nil || turns%2 == 1 {
		return quota.Decision{}, errLimiterAway
	}
	bounded, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	d, err := call(g.shared, bounded, r)
	if err == nil {
		return g.confirmLocally(bounded, r, local, d)
	}
	if !errors.Is(err, quota.ErrUnavailable) {
		return d, err
	}
	// no outage begins if the client disconnected, if only some nodes are away, or if another call
	// has begun one
	if ctx.Err() == nil && !errors.Is(err, quota.ErrPartly) && g.outage.turns.CompareAndSwap(turns, turns+1) {
		g.outage.cause.Store(&err)
		g.logger.Warn("Redis away: the database decides for recipients, this process for other rules", "error", err,
			logs.SeeRedis)
		g.tryLater(len(r.Buckets))
	}
	return quota.Decision{}, errors.Join(errLimiterAway, err)
}

// confirmLocally also counts in this process, by the rules local, an event that the limiter
// admitted with the decision d (promise 1 of docs/PROMISES.md).
//
// After an outage, the limiter lacks the events that this process admitted alone. As long as a
// rule's window may have such events, this process decides too, each rule has the stricter state,
// and an event that this process refuses is refunded in the limiter. If the ID is Repeated, it
// isn't refunded, because that could remove an event which another process admitted. Error:
// quota.ErrRefunded if the event was refunded in this process within 60 s.
func (g *Gates) confirmLocally(ctx context.Context, r quota.Request, local []quota.Rule, d quota.Decision) (quota.Decision, error) {
	here := r
	here.Rules = local
	confirmed, decides, err := g.countLocally(ctx, here, d.Admitted)
	if err != nil || !decides {
		return d, err
	}
	if d.Admitted && !confirmed.Admitted {
		d.Admitted = false
		if !r.Repeated {
			d = g.refundRefused(ctx, r, d)
		}
	}
	d.Rules, d.Also = mergeStates(r.Rules, d.Rules, confirmed.Rules, 0, 0), mergeStates(r.Also, d.Also, confirmed.Also, 0, 0)
	return d, nil
}

// countLocally also counts an event in this process, if the limiter admitted it and r has a rule
// that isn't Recorded. decides is true as long as a rule's window may have events that this process
// admitted in an outage; d is then this process's decision.
func (g *Gates) countLocally(ctx context.Context, r quota.Request,
	admitted bool,
) (d quota.Decision, decides bool, err error) {
	g.deciding.RLock()
	defer g.deciding.RUnlock()
	counts := admitted && slices.ContainsFunc(r.Rules, func(r quota.Rule) bool { return !r.Recorded })
	if !counts && g.lastAlone.IsZero() {
		return d, false, nil
	}
	keep := max(quota.LongestKeep(r.Rules), quota.LongestKeep(r.Also))
	decides = !g.lastAlone.IsZero() && g.localNow().Sub(g.lastAlone) < keep
	switch {
	case !counts && !decides:
		return d, false, nil
	case !admitted || len(r.Rules) == 0:
		d, err = g.local.Peek(ctx, r)
		d.Admitted = admitted
		return d, true, err
	case !decides:
		r.Rules = slices.Clone(r.Rules)
		for i := range r.Rules {
			r.Rules[i].Observe = true // the rule counts the event and refuses nothing
		}
	}
	d, err = g.local.Take(ctx, r)
	return d, decides, err
}

// refundRefused refunds an event that the limiter admitted and this process refused, and returns d
// with the limiter's states after the refund. If the states can't be read, it returns d unchanged.
// It does so, too, if the refund fails, and leaves the refund to RefundLater.
func (g *Gates) refundRefused(ctx context.Context, r quota.Request, d quota.Decision) quota.Decision {
	if err := g.shared.Refund(ctx, r.ID, buckets.OfCountedScopes(r.Buckets)...); err != nil {
		g.RefundLater(r.ID, buckets.OfCountedScopes(r.Buckets)...)
	} else if now, err := g.shared.Peek(ctx, r); err == nil {
		d.Rules, d.Also = now.Rules, now.Also
	}
	return d
}

// takeLocally decides and counts an event in this process alone. The decision is Local if there is
// a shared limiter, which is then away.
func (g *Gates) takeLocally(ctx context.Context, r quota.Request) (quota.Decision, error) {
	g.deciding.Lock()
	defer g.deciding.Unlock()
	d, err := g.local.Take(ctx, r)
	d.Local = g.shared != nil
	if d.Admitted {
		g.lastAlone = g.localNow()
	}
	return d, err
}

// peekLocally returns the states of the rules that the database doesn't decide.
func (g *Gates) peekLocally(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	d, err := g.local.Peek(ctx, quota.Request{Rules: p.LimiterRules, Buckets: p.Buckets})
	d.Local = g.shared != nil
	return d, err
}

// TakeOrLocal counts an event that isn't in the database, in the limiter or, while that is away, in
// this process, even if ctx is canceled meanwhile. Without rules it admits the event and counts
// nothing.
func (g *Gates) TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true}, nil
	}
	ctx = context.WithoutCancel(ctx)
	d, away := g.callLimiter(ctx, r, r.Rules, Limiter.Take)
	if !errors.Is(away, errLimiterAway) {
		return d, away
	}
	d, err := g.takeLocally(ctx, r)
	// the limiter was called, and may have counted the event; as in confirmLocally, a repeated ID
	// isn't refunded
	if err == nil && !d.Admitted && !r.Repeated && errors.Is(away, quota.ErrUnavailable) {
		g.RefundLater(r.ID, buckets.OfCountedScopes(r.Buckets)...)
	}
	return d, err
}

// PeekOrLocal is TakeOrLocal without counting. The request must have rules.
func (g *Gates) PeekOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := g.callLimiter(ctx, r, r.Rules, Limiter.Peek)
	if errors.Is(err, errLimiterAway) {
		d, err = g.local.Peek(ctx, r)
		d.Local = g.shared != nil
	}
	return d, err
}
