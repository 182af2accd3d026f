// Package gates decides whether a send or another event is admitted. For a send, it asks two gates:
// the limiter, which is usually in Redis, and the database. The limiter is fast and may lose
// events. The database counts every send of a recipient. Each gate decides alone, by its own events
// and on its own clock. It returns waits as durations and not as instants, so the two clocks may
// differ. The rules on recipients and their failures have a state in both gates, and the response
// has the stricter state. If the limiter lost events of these rules, this package adds them again
// from the database. The events of the other rules are counted only by the limiter.
//
// Without Redis, or while Redis is unavailable, the database alone decides the rules on recipients
// and their failures. This process then decides the other rules in place of Redis.
//
// Package verification calls this package, and so does package outbox for refunds. This package
// calls package quota. The database's own decision is in package store/rowrules. Comments name the
// promises of docs/PROMISES.md by number.
//
// # What adds and removes events
//
// A refused caller waits until enough events no longer count. These add events or other reasons to
// wait, and so make a wait longer:
//
//   - a send: takeQuota of verification, Begin of the store
//   - a failed send: finish of the outbox, CountBadAddress of repair (the rules failures and
//     backoff), AddCarrierHold (a carrier takes no more messages for a number)
//   - a check: takeNetworkQuota and CountWrongCodes of verification, Check of the store
//   - a call of /v1/limits, or a login to the console: TakeOrLocal of this package
//   - events that a limiter did not have: Record; for rules on other scopes than the recipient also
//     Load, Sync and MoveTo of SavedEvents
//
// These make a wait shorter:
//
//   - a refund: refundRow and settle of repair; RefundLater, refundRefused, RefundOverruled and
//     reconcileBackoff of this package
//   - a right code; for the rule backoff also a sent message and the end of a prefix's pause
//   - a reset: ResetQuota of support, which does not reset rules of networks and apps or a
//     carrier's hold
//
// A changed settings file can make a wait longer or shorter.
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

// Limiter is the first gate. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error
	Reset(ctx context.Context, buckets ...string) error
}

// Database reads the events of recipients. Implementation: sqldb.DB.
type Database interface {
	ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error)
	FailedSends(ctx context.Context, q store.FailedSendsQuery) ([]store.FailedSend, time.Time, error)
}

const (
	// LimiterRetryDelay is the time between two attempts to find out whether a failed limiter is
	// back.
	LimiterRetryDelay = time.Second
	// mayLackEventsFor is how long after an outage the limiter may lack events, because no call
	// could write them during the outage.
	mayLackEventsFor = 10 * time.Second
	// maxLocalBuckets is the greatest number of buckets that the limiter in this process keeps. A
	// bucket with one event takes 264 bytes and the bytes of its name.
	maxLocalBuckets = 200_000
)

// LimiterTimeout bounds one call of the limiter. It is a variable only for tests. Only package
// apptest changes it, and only before anything runs.
var LimiterTimeout = 2 * time.Second

// Gates decides sends and other events. Without Redis, and while Redis is unavailable, the database
// alone decides the recipient's rules. This stays exact, because the database has every send. This
// process then decides the rules on other scopes, but it knows only the events that it has admitted
// itself. Gates is safe for concurrent use.
//
// Only callLimiter begins an outage, and only tryAgain ends an outage. Only takeLocally sets
// lastAlone.
type Gates struct {
	shared Limiter // nil: without Redis
	// local is the limiter in this process. If shared is nil or unavailable, local decides the
	// scopes that the database does not decide.
	local  Limiter
	db     Database
	policy *policy.CurrentSet
	lost   func()
	now    func() time.Time
	logger *slog.Logger

	trials    context.Context // of the trials whether the limiter is back
	endTrials context.CancelFunc

	outage    outage
	pending   pendingRefunds
	deciding  sync.RWMutex  // write-locked while local decides alone; read-locked while local counts an event that shared admitted
	lastAlone time.Time     // when local last admitted an event alone; guarded by deciding
	lines     logs.Throttle // of logNotAdded
	histories sharedReads[historyRead]
	backoffs  sharedReads[quota.State] // of correctBackoff
	refused   recipientsUntil          // only without Redis: the recipients that the rows refused, until their wait ends
}

// New makes a Gates of a limiter and a database. If shared is nil or a limiter in this process (see
// InProcess), the database decides the recipient's rules, and a limiter in this process decides the
// other scopes. Gates calls the function `lost` when the shared limiter had lost events of a
// recipient and Gates has added the events again. Until mayLackEventsFor has passed after an
// outage, Gates does not call `lost`: the limiter then lacks the events of the outage, but it has
// not lost events.
func New(shared Limiter, db Database, p *policy.CurrentSet, lost func(), now func() time.Time, logger *slog.Logger) *Gates {
	g := &Gates{
		shared: shared, db: db, policy: p, lost: lost, now: now, logger: logger,
		histories: newSharedReads[historyRead](), backoffs: newSharedReads[quota.State](),
		pending: pendingRefunds{making: make(chan struct{}, 1), added: make(chan struct{}, 1)},
	}
	g.trials, g.endTrials = context.WithCancel(context.Background())
	if InProcess(shared) {
		g.shared, g.local, g.refused = nil, shared, newRecipientsUntil()
	} else {
		g.local = quota.NewBoundedMemory(now, maxLocalBuckets)
	}
	return g
}

// InProcess reports whether a limiter is a quota.Memory or wraps one. A wrapper has the method
// Unwrap.
func InProcess(l Limiter) bool {
	if w, ok := l.(interface{ Unwrap() Limiter }); ok {
		return InProcess(w.Unwrap())
	}
	_, is := l.(*quota.Memory)
	return is
}

// outage says whether the limiter is unavailable. The process logs one line at the beginning of an
// outage and one at the end, not one for each request.
type outage struct {
	turns atomic.Int64          // number of beginnings and ends; odd: the outage lasts
	back  atomic.Bool           // the outage is about to end: Refund calls the limiter again
	ended atomic.Int64          // when the last one ended; µs since 1970
	sends atomic.Int64          // number of sends decided without the limiter since the outage began
	cause atomic.Pointer[error] // of the last call or trial that failed
}

func (o *outage) lasts() bool { return o.turns.Load()%2 == 1 }

// Stop ends the trials, which are the calls that test whether the limiter is back. During an
// outage, it makes a last trial immediately. If that trial succeeds, the refunds that wait for the
// limiter are made. Otherwise they are lost when the process ends. Call Stop after the last send
// and before the limiter is closed.
func (g *Gates) Stop() {
	g.endTrials()
	g.tryAgain(context.Background(), 1)
}

// tryAgain makes a trial: it calls the limiter to test whether the limiter is back. The trial
// counts an event in as many test buckets as the failed call had buckets. If the trial succeeds,
// tryAgain ends the outage. Otherwise it makes another trial after LimiterRetryDelay. No request
// waits for the trial.
//
// A ping would not be enough. A Redis that cannot run scripts still answers a ping. So does a node
// of a Cluster that cannot run a script on several keys.
func (g *Gates) tryAgain(ctx context.Context, count int) {
	turns := g.outage.turns.Load()
	if turns%2 == 0 {
		return // an earlier trial ended the outage, and panicked after that
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
	if g.outage.turns.CompareAndSwap(turns, turns+1) { // else Stop has ended it
		g.logger.Info("Redis back", "sends_decided_by_database", g.outage.sends.Swap(0))
	}
}

// tryLater calls tryAgain after LimiterRetryDelay, unless Stop was called.
func (g *Gates) tryLater(count int) {
	time.AfterFunc(LimiterRetryDelay, func() {
		defer panics.Recover(panics.Other, func() { g.tryLater(count) })
		if g.trials.Err() == nil {
			g.tryAgain(g.trials, count)
		}
	})
}

// WhyAway returns why the limiter is unavailable. During an outage, it returns the error of the
// limiter's last failed call or trial. Otherwise it returns nil.
func (g *Gates) WhyAway() error {
	if cause := g.outage.cause.Load(); cause != nil && g.outage.lasts() {
		return *cause
	}
	return nil
}

// logNotAdded logs that events of the database could not be added to the limiter. It logs at most
// once a minute, since a slow limiter causes this error in every request.
func (g *Gates) logNotAdded(ctx context.Context, err error) {
	if _, due := g.lines.Add("not added", g.now()); due {
		g.logger.WarnContext(ctx, "could not correct limiter by database", "error", err, logs.SeeRedis)
	}
}

// errLimiterAway says that the shared limiter is missing or unavailable. Then the database and this
// process must decide.
var errLimiterAway = errors.New("gates: limiter unavailable")

// callLimiter calls Limiter.Take or Limiter.Peek, which the caller passes as the parameter `call`.
// Without a limiter or during an outage, it calls neither. If the call fails because the limiter is
// unavailable, an outage begins. After a successful call, confirmLocally counts the event in this
// process, too, and may refuse an event that the limiter admitted. The parameter refundable says
// whether such an event may be refunded in the limiter. The parameter own is the request r without
// the rules that the database decides.
//
// If the limiter was not called, the error is errLimiterAway. If the limiter did not answer, the
// error is errLimiterAway joined with the cause, and the limiter may have counted the event.
// callLimiter also returns all other errors of the call, and the errors of confirmLocally.
func (g *Gates) callLimiter(ctx context.Context, r, own quota.Request,
	call func(Limiter, context.Context, quota.Request) (quota.Decision, error), refundable bool,
) (quota.Decision, error) {
	turns := g.outage.turns.Load()
	if g.shared == nil || turns%2 == 1 {
		return quota.Decision{}, errLimiterAway
	}
	bounded, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	d, err := call(g.shared, bounded, r)
	if err == nil {
		return g.confirmLocally(bounded, r, own, d, refundable)
	}
	if !errors.Is(err, quota.ErrUnavailable) {
		return d, err
	}
	// No outage begins if the client disconnected, if only some nodes are unavailable, or if
	// another call has already begun an outage.
	if ctx.Err() == nil && !errors.Is(err, quota.ErrPartly) && g.outage.turns.CompareAndSwap(turns, turns+1) {
		g.outage.cause.Store(&err)
		g.logger.Warn("Redis away: the database decides for recipients, this process for other rules", "error", err,
			logs.SeeRedis)
		g.tryLater(len(r.Buckets))
	}
	return quota.Decision{}, errors.Join(errLimiterAway, err)
}

// confirmLocally counts in this process an event that the limiter admitted (promise 1 of
// docs/PROMISES.md). The parameter d is the limiter's decision, and local is the request r without
// the rules that the database decides.
//
// After an outage, the limiter lacks the events that this process admitted alone. As long as a
// rule's window can still contain such events, this process decides, too. The result then has the
// stricter of both states of each rule. If this process refuses an event that the limiter admitted,
// and refundable is true, confirmLocally refunds the event in the limiter. If the event was
// refunded in this process within the last 60 s, the error is quota.ErrRefunded.
func (g *Gates) confirmLocally(ctx context.Context, r, local quota.Request, d quota.Decision,
	refundable bool,
) (quota.Decision, error) {
	own, decides, err := g.countLocally(ctx, local, d.Admitted)
	if err != nil || !decides {
		return d, err
	}
	if d.Admitted && !own.Admitted {
		d.Admitted = false
		if refundable {
			d = g.refundRefused(ctx, r, d)
		}
	}
	d.Rules, d.Also = mergeStates(r.Rules, d.Rules, own.Rules, 0, 0), mergeStates(r.Also, d.Also, own.Also, 0, 0)
	return d, nil
}

// countLocally counts an event in this process, too, if the limiter admitted the event and r has a
// rule whose scope Take counts (see Scope.Counted). As long as a rule's window can still contain
// events that this process admitted during an outage, this process also decides about the event, in
// addition to the limiter. In this case decides is true, and own is the decision of this process.
func (g *Gates) countLocally(ctx context.Context, r quota.Request,
	admitted bool,
) (own quota.Decision, decides bool, err error) {
	g.deciding.RLock()
	defer g.deciding.RUnlock()
	counts := admitted && slices.ContainsFunc(r.Rules, func(r quota.Rule) bool { return r.Scope.Counted() })
	if !counts && g.lastAlone.IsZero() {
		return own, false, nil
	}
	keep := max(quota.LongestKeep(r.Rules), quota.LongestKeep(r.Also))
	decides = !g.lastAlone.IsZero() && g.now().Sub(g.lastAlone) < keep
	switch {
	case !counts && !decides:
		return own, false, nil
	case !admitted || len(r.Rules) == 0:
		own, err = g.local.Peek(ctx, r)
		own.Admitted = admitted
		return own, true, err
	case !decides:
		r.Rules = slices.Clone(r.Rules)
		for i := range r.Rules {
			r.Rules[i].Observe = true // the rule counts the event and refuses nothing
		}
	}
	own, err = g.local.Take(ctx, r)
	return own, decides, err
}

// refundRefused refunds an event that the limiter admitted and this process refused. Then it reads
// the limiter's states and returns d with these states. If the refund fails, refundRefused calls
// RefundLater and returns d unchanged. If the states cannot be read, it also returns d unchanged.
func (g *Gates) refundRefused(ctx context.Context, r quota.Request, d quota.Decision) quota.Decision {
	if err := g.shared.Refund(ctx, r.ID, buckets.OfCountedScopes(r.Buckets)...); err != nil {
		g.RefundLater(r.ID, buckets.OfCountedScopes(r.Buckets)...)
	} else if now, err := g.shared.Peek(ctx, r); err == nil {
		d.Rules, d.Also = now.Rules, now.Also
	}
	return d
}

// takeLocally decides an event in this process alone, and counts the event if it is admitted. If
// there is a shared limiter, the limiter is unavailable, and takeLocally sets the decision's field
// Alone.
func (g *Gates) takeLocally(ctx context.Context, r quota.Request) (quota.Decision, error) {
	g.deciding.Lock()
	defer g.deciding.Unlock()
	d, err := g.local.Take(ctx, r)
	d.Alone = g.shared != nil
	if d.Admitted {
		g.lastAlone = g.now()
	}
	return d, err
}

// peekLocally returns the states of the rules that only this process decides.
func (g *Gates) peekLocally(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	d, err := g.local.Peek(ctx, quota.Request{Rules: p.LimiterRules, Buckets: p.Buckets})
	d.Alone = g.shared != nil
	return d, err
}

// TakeOrLocal counts an event in the limiter or, while the limiter is unavailable, in this process.
// It does so even if ctx is canceled meanwhile. It is for events that are not in the database.
// Without rules it admits the event and counts nothing.
func (g *Gates) TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true}, nil
	}
	ctx = context.WithoutCancel(ctx)
	// If Repeated is true, the caller chose the ID, and another process may have admitted this
	// event before. A refund would remove that event.
	refundable := !r.Repeated
	d, away := g.callLimiter(ctx, r, r, Limiter.Take, refundable)
	if !errors.Is(away, errLimiterAway) {
		return d, away
	}
	d, err := g.takeLocally(ctx, r)
	// the limiter was called, and may have counted the event
	if err == nil && !d.Admitted && refundable && errors.Is(away, quota.ErrUnavailable) {
		g.RefundLater(r.ID, buckets.OfCountedScopes(r.Buckets)...)
	}
	return d, err
}

// PeekOrLocal is TakeOrLocal without counting. The request must have rules.
func (g *Gates) PeekOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := g.callLimiter(ctx, r, r, Limiter.Peek, false)
	if errors.Is(err, errLimiterAway) {
		d, err = g.local.Peek(ctx, r)
		d.Alone = g.shared != nil
	}
	return d, err
}
