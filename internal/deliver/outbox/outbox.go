// Package outbox delivers the sends in the database. It queues the rows in flight, composes each
// message, sends the message through a mail server or a carrier, records the outcome, and refunds
// failed sends in the limiter. docs/ARCHITECTURE.md says what each failure means for the place that
// a send has taken, and what a message may have to wait for.
//
// Package verification passes each row that it has just written to the outbox. The outbox also
// takes over rows that other replicas left. It uses the database, the limiter, the policies and the
// providers, but not the use cases.
//
// If a process dies while a row has the status sending, the mail may have been delivered. So the
// mail may arrive twice, and the place stays spent.
package outbox

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Store is the database as the outbox needs it. Implementation: sqldb.DB.
type Store interface {
	RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error
	Finish(ctx context.Context, outcome store.Outcome) (bool, error)
	Postpone(ctx context.Context, p store.Postponement) (bool, error)
	TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error)
	PrefixPaused(ctx context.Context, app, prefix string, class store.Class) (store.PrefixPause, bool, error)
	ExpectReceipt(ctx context.Context, a store.PendingReceipt, ask time.Duration) error
	AddCarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error

	OutboxCounts(ctx context.Context) (map[store.Queue]store.OutboxCount, error)
	Ping(ctx context.Context) error
}

// limiter counts failures for policy.BackoffRule. Implementation: *gates.Gates.
type limiter interface {
	Record(ctx context.Context, scope quota.Scope, bucket string, keep time.Duration, read time.Time,
		events ...quota.AgedEvent) error
}

// repairer corrects the limiter. Implementation: *repair.Repair.
type repairer interface {
	Refund(ctx context.Context, r store.Refund)
	CountBadAddress(ctx context.Context, s store.Send)
	SettleLater(send uuid.UUID, buckets map[quota.Scope]string)
}

// MailRenderer renders a mail. Implementation: *message.MailRenderer.
type MailRenderer interface {
	Prepare(message.RenderRequest) (message.PreparedMail, error)
}

// TextRenderer renders a text message. Implementation: *message.TextRenderer.
type TextRenderer interface {
	Render(message.RenderRequest) (message.RenderedText, error)
}

// MailSender sends one mail. Implementation: mailserver.Servers.
type MailSender interface {
	Limits
	Send(ctx context.Context, m delivery.Mail) (delivery.Result, error)
}

// Carrier sends one text message. Implementation: *sms.Carriers.
type Carrier interface {
	Limits
	Send(ctx context.Context, m sms.Message) (delivery.Result, error)
}

// Limits says how many messages a MailSender or Carrier accepts now. A type without limits embeds
// delivery.Unlimited.
type Limits interface {
	// AttemptsAllowed returns how many messages the sender or carrier would try to send now;
	// delivery.UnlimitedAttempts means any number.
	AttemptsAllowed() int
	// ConnLimit returns how many messages can be under way at the same time. It changes with the
	// server's own limit. 0 means any number.
	ConnLimit() int
}

// ReceiptSources says which carriers can be polled for receipts (Poller), and which carriers'
// reports identify a message by the carrier's own ID (ReportsUseCarrierID). Implementation:
// *sms.Carriers.
type ReceiptSources interface {
	Poller(name string) (sms.Poller, bool)
	ReportsUseCarrierID(name string) bool
}

// Observer counts outcomes. It must not block.
type Observer interface {
	// Finished counts a send that ended. The parameter callers is true if the caller made the code
	// and checks it without this service. The parameter d is the time from Send.LoggedAt to the
	// outcome.
	Finished(channel recipient.Channel, app string, s store.Status, callers bool, d time.Duration)
}

// Tracer makes a trace of each attempt. StartAttemptTrace begins the trace and returns a context
// with it. EndAttempt ends the trace, with the send's status and the reason. Implementation:
// *traces.Traces.
type Tracer interface {
	StartAttemptTrace(ctx context.Context, s store.Send) context.Context
	EndAttempt(ctx context.Context, s store.Status, reason string)
}

// Config has the outbox's settings.
type Config struct {
	MailFrom  string            // Name <addr>, for apps without a sender
	Domain    string            // right-hand side of Message-IDs
	NotMeURL  string            // URL where recipients report mails, without the token; empty if mails have no link
	IDHeaders []string          // names of extra mail headers to set to the send's ID
	Lease     time.Duration     // how long a row in flight is leased; 0 means DefaultLease
	Tick      time.Duration     // how often rows are taken over; 0 means DefaultTick
	Workers   int               // how many sends of one channel have a worker at once, not counting strangers'; 0 means DefaultWorkers
	Capacity  int               // how many sends of one channel are held in memory, not counting strangers'; 0 means DefaultCapacity
	Watch     store.PrefixWatch // settings of automatic pauses of prefixes; zero: pauses are ignored
	// ResendOther has the channels in which a resend first tries a server or carrier that the
	// verification has not used. It is set for channels with several servers or carriers.
	ResendOther map[recipient.Channel]bool
	// PollAfter is how long the process waits for a carrier's report before it polls the carrier.
	// If PollAfter is 0, carriers are not polled.
	PollAfter time.Duration
}

// DefaultLease is the lease of a row if Config.Lease is 0. After a crash, another replica takes the
// rows over within one lease and one tick, which is less than 10 s.
var DefaultLease = 8 * time.Second

const (
	DefaultTick    = time.Second
	DefaultWorkers = 16
)

const (
	DefaultCapacity = 2000 // sends that one queue holds, usually more than it delivers within one lease; further sends wait in the database
	// MaxPendingOutcomes is the maximum number of outcomes that are not in the database yet. If a
	// process dies while the database is unavailable, up to that many mails, and one more for each
	// worker, may be sent twice.
	MaxPendingOutcomes = 256

	takeOverBatch = 500 // rows taken over in one statement
)

// MaxStopWait is how long a stop waits for the attempts under way before it interrupts them.
var MaxStopWait = 10 * time.Second

// Dependencies are the services that an Outbox uses.
type Dependencies struct {
	webhook.Events // includes the policies, the encryption keys and the database's clock (waits are measured by time.Now)
	Store          Store
	Limiter        limiter
	Repair         repairer
	Mails          MailRenderer
	Sender         MailSender
	Texts          TextRenderer   // not nil if Carrier is not nil
	Carrier        Carrier        // nil: there are no text messages
	Receipts       ReceiptSources // nil: no receipt is expected
	Observer       Observer
	Tracer         Tracer // nil: there are no traces
	Logger         *slog.Logger
	Random         func(time.Duration) time.Duration // returns a random duration below the given one; nil: rand.N
}

// Outbox delivers the rows in flight. The process that wrote a row delivers it immediately, without
// reading it back. If that process dies, the row's lease ends and another replica takes the row
// over. Every write names its attempt, so a process that lost its row to another one changes
// nothing. Safe for concurrent use.
type Outbox struct {
	Config
	Dependencies
	pending chan struct{} // semaphore: one element for each outcome that is not in the database yet
	hurried atomic.Bool   // EndWaits was called: no request waits
	waiters sync.Map      // the chan store.Outcome of each request that waits, by the ID of its send

	leases         leases
	lanesMu        sync.Mutex // guards the contents of the lanes; only update takes it
	lanes          map[store.Queue]*lane
	free           chan struct{} // signalled when half of a lane's capacity is free again, so that rows in the database can be taken over
	work           sync.WaitGroup
	failedWrites   logs.Throttle // for warnFailedWrite
	failedAttempts logs.Throttle // for logAttempt

	base context.Context // context of attempts; ends when a stop has ended, at the latest MaxStopWait after the stop began
	halt context.CancelFunc
	// beginStop ends the waits of attempts for their turn at a server.
	beginStop context.CancelFunc

	// Only Run uses these fields.
	noTakeoverUntil time.Time // one lease after the end of the last outage of the database; see tick
	away            bool      // the database has failed, and no tick has succeeded since
}

// New makes an outbox. Nothing runs in the background until Run.
func New(c Config, p Dependencies) *Outbox {
	c.Lease, c.Tick = cmp.Or(c.Lease, DefaultLease), cmp.Or(c.Tick, DefaultTick)
	c.Workers, c.Capacity = cmp.Or(c.Workers, DefaultWorkers), cmp.Or(c.Capacity, DefaultCapacity)
	if p.Random == nil {
		p.Random = rand.N[time.Duration]
	}
	o := &Outbox{
		Config: c, Dependencies: p, pending: make(chan struct{}, MaxPendingOutcomes),
		leases: leases{flights: map[uuid.UUID]*flight{}}, lanes: map[store.Queue]*lane{},
		free: make(chan struct{}, 1), failedWrites: logs.Throttle{Every: time.Second},
	}
	known := map[recipient.Channel]*reputations{}
	for _, q := range store.Queues() {
		if known[q.Channel] == nil {
			known[q.Channel] = newReputations()
		}
		o.lanes[q] = newLane(q, known[q.Channel])
	}
	stopping, beginStop := context.WithCancel(context.Background())
	o.beginStop = beginStop
	o.base, o.halt = context.WithCancel(delivery.WithStop(context.Background(), stopping.Done()))
	return o
}

// Run renews leases and takes over rows until ctx ends. The attempts under way then have
// MaxStopWait to end before Run interrupts them and returns. Unfinished rows are not lost. Another
// replica takes them over, or this process does at its next start.
func (o *Outbox) Run(ctx context.Context) {
	ended := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { o.keepLeases(ended) })
	defer keeper.Wait()
	defer close(ended)
	ticks := time.Tick(o.Tick)
	o.tick(ctx)
	for {
		select {
		case <-ctx.Done():
			o.stop()
			return
		case <-ticks:
			o.tick(ctx)
		case <-o.free:
			o.takeOverIfReady(ctx)
		}
	}
}

// takeOverIfReady takes over due rows. It does nothing if the database is unavailable, or was
// unavailable within the last lease.
func (o *Outbox) takeOverIfReady(ctx context.Context) {
	defer panics.Recover(panics.Other)
	if !o.away && !time.Now().Before(o.noTakeoverUntil) {
		o.takeOver(ctx)
	}
}

func (o *Outbox) stop() {
	o.beginStop()
	done := make(chan struct{})
	go func() { o.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(MaxStopWait):
		o.halt()
		<-done
	}
	o.halt()
}

// tick takes over rows. After an outage of the database, it takes over no rows for one lease. In
// this time the replicas write the outcomes that they could not write during the outage, so that no
// mail is sent twice.
func (o *Outbox) tick(ctx context.Context) {
	defer panics.Recover(panics.Other)
	if o.away {
		if o.Store.Ping(ctx) != nil {
			return
		}
		o.away, o.noTakeoverUntil = false, time.Now().Add(o.Lease)
		o.Logger.Info("database available again")
		o.renew(ctx)
	}
	o.takeOverIfReady(ctx)
	o.readBacklog(ctx)
}

// noteAway logs only the first failure of an outage, and no failure that the end of ctx caused.
func (o *Outbox) noteAway(ctx context.Context, err error) {
	if !o.away && ctx.Err() == nil {
		o.Logger.Warn("database unavailable", "error", err, logs.SeeDatabaseAway)
	}
	o.away = true
}

// keepLeases renews leases until the channel is closed. It must not wait for anything else. If a
// hanging limiter or statement let the leases of mails under way end, another replica would send
// these mails again.
func (o *Outbox) keepLeases(ended <-chan struct{}) {
	for renewals := time.Tick(o.Lease / 4); ; {
		select {
		case <-ended:
			return
		case <-renewals:
			o.renew(o.base)
		}
	}
}

// renew renews the leases that began at least an eighth of Config.Lease ago. Most sends have an
// outcome before their lease is that old. If renew fails, keepLeases tries twice more before these
// leases end.
func (o *Outbox) renew(ctx context.Context) {
	defer panics.Recover(panics.Other)
	held := o.leases.renew(o.Lease / 8)
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.Lease/4)
	defer cancel()
	if err := o.Store.RenewLeases(ctx, o.Lease, held); err != nil && o.base.Err() == nil {
		o.Logger.Warn("could not renew leases", "count", len(held), "error", err, logs.SeeDatabaseAway)
	}
}
