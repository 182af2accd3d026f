package verification

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// outbox works through the rows in flight. The process that wrote a row delivers it at once, without reading it
// back; the log's lease makes sure that somebody does. Every write names the attempt it speaks for, so a process
// that slept through its lease changes nothing.
type outbox struct {
	*Service
	ends     chan struct{} // one for each outcome that the log has not taken yet
	capacity int           // flights of one channel

	mu      sync.Mutex
	flights map[uuid.UUID]*flight
	lanes   map[recipient.Channel]*lane
	debts   []debt // what the limiter must still hear of
	wake    chan struct{}

	unsettled []unsettled   // requests that the log has to be asked of
	hungry    chan struct{} // told when there is room again for what waits in the log
	done      sync.WaitGroup

	base context.Context // ends when a stop has run out of patience
	halt context.CancelFunc

	quiet time.Time // no takeover before: see tick
	away  bool      // the log did not answer the last tick

	forgot    time.Time // when Forget was asked for last
	sweep     sweep     // of what is old
	countNext time.Time // when hours are counted next
	watched   time.Time // when Watch was
	inquiring atomic.Bool
	ahead     ahead // is the room for what is to come
}

// flight is a row that this process is working on.
type flight struct {
	work    store.Work
	held    store.Held
	inDoubt bool
	renewed time.Time // when its lease began
	read    time.Time // when the log told of it
}

// debt is what the limiter must hear of and did not: a place to give back that no row speaks of, a send that the log let
// in alone, or a failure.
type debt struct {
	id      string
	buckets []string
	since   time.Time
	at      time.Time     // of a send, on the log's clock, or of a failure, on this process's; zero for a place to give back
	failed  bool          // it is a failure
	keep    time.Duration // how long the send or the failure counts
}

func (d debt) life() time.Duration {
	if d.at.IsZero() {
		return debtLife
	}
	return d.keep
}

// Bounds of what waits in memory; beyond them the log keeps the work and a window's end frees the place.
const (
	maxFlights = 2000 // of a channel, whose leases are renewed; more than are delivered within one
	maxEnds    = 256  // so many mails can be doubled when a process dies while the log is away
	maxDebts   = 10_000
	debtLife   = time.Minute // a tombstone lives as long (package quota)
	batch      = 64          // refunds repeated in one tick
	haul       = 500         // rows taken over in one statement
	stopWait   = 10 * time.Second
)

func newOutbox(s *Service) *outbox {
	o := &outbox{
		Service: s, ends: make(chan struct{}, maxEnds), capacity: maxFlights, flights: map[uuid.UUID]*flight{}, lanes: map[recipient.Channel]*lane{},
		wake: make(chan struct{}, 1), hungry: make(chan struct{}, 1),
	}
	for _, ch := range recipient.Channels() {
		o.lanes[ch] = &lane{channel: ch}
	}
	o.base, o.halt = context.WithCancel(context.Background())
	return o
}

// giveBack returns places that no row speaks of: the request ended before its row was written. It is repeated in the
// background until the limiter answers.
func (o *outbox) giveBack(id string, buckets map[quota.Scope]string) {
	if err := o.limits.local.Refund(context.Background(), id, values(buckets)...); err != nil {
		o.Logger.Warn("a place was not given back in process", "error", err)
	}
	o.owe(debt{id: id, buckets: values(buckets)})
}

// giveBackNow is giveBack where the next request may need the place: the limiter is asked at once.
func (o *outbox) giveBackNow(ctx context.Context, id string, buckets map[quota.Scope]string) {
	if err := o.refund(ctx, id, values(buckets)...); err != nil {
		o.giveBack(id, buckets)
		return
	}
	if err := o.limits.local.Refund(ctx, id, values(buckets)...); err != nil {
		o.Logger.Warn("a place was not given back in process", "error", err)
	}
}

func (o *outbox) owe(d debt) {
	d.since = o.Now()
	o.mu.Lock()
	if len(o.debts) < maxDebts {
		o.debts = append(o.debts, d)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// settle pays the debts; what the limiter does not take waits for the next tick.
func (o *outbox) settle(ctx context.Context) {
	o.mu.Lock()
	debts := o.debts
	o.debts = nil
	o.mu.Unlock()
	for i, d := range debts {
		if o.Now().Sub(d.since) > d.life() {
			continue // a place ends with its window, and the log knows every send
		}
		if err := o.pay(ctx, d); err != nil {
			o.mu.Lock()
			o.debts = append(debts[i:], o.debts...)
			o.mu.Unlock()
			return
		}
	}
}

func (o *outbox) pay(ctx context.Context, d debt) error {
	switch {
	case d.at.IsZero():
		return o.refund(ctx, d.id, d.buckets...)
	case d.failed:
		return o.learnFailures(ctx, d.buckets[0], []quota.Event{{ID: d.id, At: d.at}}, o.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	return o.Limiter.Record(ctx, d.buckets[0], d.keep, []quota.Event{{ID: d.id, At: d.at}})
}

func (o *outbox) refund(ctx context.Context, id string, buckets ...string) error {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	return o.Limiter.Refund(ctx, id, buckets...)
}

// Run works in the background until ctx ends, then finishes what is in flight, within ten seconds, and returns.
// Nothing that it leaves behind is lost: another replica, or the next start, takes it over.
func (s *Service) Run(ctx context.Context) {
	o := s.outbox
	ticks := time.NewTicker(s.Tick)
	defer ticks.Stop()
	renewals := time.NewTicker(s.Lease / 4)
	defer renewals.Stop()
	o.tick(ctx)
	for {
		select {
		case <-ctx.Done():
			o.stop()
			return
		case <-o.wake:
			o.settle(o.base)
		case <-renewals.C:
			o.renew(ctx)
		case <-ticks.C:
			o.tick(ctx)
		case <-o.hungry:
			if !o.away && !o.Now().Before(o.quiet) {
				o.takeOver(ctx)
			}
		}
	}
}

func (o *outbox) stop() {
	landed := make(chan struct{})
	go func() { o.done.Wait(); close(landed) }()
	patience := time.NewTimer(stopWait)
	defer patience.Stop()
	renewals := time.NewTicker(o.Lease / 4)
	defer renewals.Stop()
	for waiting := true; waiting; {
		select {
		case <-landed:
			waiting = false
		case <-renewals.C:
			o.renew(o.base)
		case <-patience.C:
			o.halt()
			<-landed
			waiting = false
		}
	}
	o.settle(context.Background())
	o.flushRefusals(context.Background())
	o.halt()
}

// tick looks after everything that waits in the log. After an outage of the log nobody takes over for one lease:
// whoever was about to record an outcome when it went away comes first, and no mail is doubled.
func (o *outbox) tick(ctx context.Context) {
	o.settle(ctx)
	o.flushRefusals(ctx)
	o.checkAlarms.log(o.Service)
	if err := o.repeatRefunds(ctx); err != nil {
		if !o.away && ctx.Err() == nil {
			o.Logger.Warn("log is away", "error", err)
		}
		o.away = true
		return
	}
	if o.away {
		o.away, o.quiet = false, o.Now().Add(o.Lease)
		o.Logger.Info("log is back")
		o.renew(ctx)
	}
	o.settleUncertain(ctx)
	if !o.Now().Before(o.quiet) {
		o.takeOver(ctx)
	}
	o.makeRoom(ctx)
	o.forgetInTime(ctx)
	o.watchInTime(ctx)
	o.inquireInTime(ctx)
	o.expire(ctx)
	o.countAhead(ctx)
}

func (o *outbox) renew(ctx context.Context) {
	held := o.toRenew()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	if err := o.Log.Renew(ctx, o.Lease, held); err != nil && ctx.Err() == nil {
		o.Logger.Warn("leases were not renewed", "count", len(held), "error", err)
	}
}

// repeatRefunds gives back, in the limiter, what the log has given back already.
func (o *outbox) repeatRefunds(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	due, err := o.Log.RefundsDue(bounded, o.Lease, batch)
	if err != nil {
		return err
	}
	for _, r := range due {
		if err := o.confirm(ctx, r); err != nil {
			o.Logger.Warn("a refund waits for the limiter", "send", r.ID, "error", err)
			return nil
		}
	}
	return nil
}

// confirm refunds in the limiter and tells the log. Only the recipient's bucket is refunded (QUOTA-15), under each
// policy that the purpose has had: terms may have changed since the send was counted.
func (o *outbox) confirm(ctx context.Context, r store.Refund) error {
	var buckets []string
	for _, policy := range o.terms.Load().counted(r.Purpose) {
		buckets = append(buckets, recipientBuckets(r.App, r.Channel, policy, r.Recipient)...)
	}
	if err := o.limits.local.Refund(ctx, string(r.ID[:]), buckets...); err != nil { // where a rule that observes may have counted it
		return err
	}
	if err := o.refund(ctx, string(r.ID[:]), buckets...); err != nil {
		return err
	}
	return o.Log.Refunded(ctx, r.Held)
}
