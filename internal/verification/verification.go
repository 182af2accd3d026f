// Package verification holds the use cases: send a code, look at it, check it, cancel it. It is the only package that calls
// the limiter, the log, the renderer and the sender; they do not know each other.
//
// The way of one send (docs/ARCHITECTURE.md):
//
//	Send ─▶ quota.Take ─ refused ─▶ log.Refused (batched)
//	     ─▶ log.Begin  ─ refused ─▶ the limiter learns the history
//	     ─▶ answer 202
//	     ─▶ Outbox: render, send, log.Finish ─ failed for good ─▶ quota.Refund
//
// From the Take on, work does not stop because the client hung up. The Outbox also takes over what a crashed
// replica left in flight, and repeats refunds until the limiter has confirmed them.
package verification

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/keyring"
	"sendcode/internal/message"
	"sendcode/internal/proof"
	"sendcode/internal/recipient"
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

// Log is the record, the second gate and the outbox. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	Begin(ctx context.Context, intent store.Intent) (store.Begun, error)
	Ping(ctx context.Context) error
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.Send, error)
	Claim(ctx context.Context, c store.Claim) (store.Claimed, error)
	Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	Attempt(ctx context.Context, id string) (store.Verification, bool, time.Time, error)
	LockedOut(ctx context.Context, v store.Verification) (store.Lockout, error)
	Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error)
	Cancel(ctx context.Context, id string) (bool, error)
	Newest(ctx context.Context, h store.HolderQuery) (store.Verification, error)
	Suppress(ctx context.Context, s store.Suppression, lasts time.Duration, act *store.AuditEntry) (store.Suppression, bool, error)
	Lift(ctx context.Context, l store.LiftRequest, act *store.AuditEntry) ([]store.Suppression, error)
	Story(ctx context.Context, id uuid.UUID) (store.Story, error)
	Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]store.Send, error)
	IngestProviderEvent(ctx context.Context, e store.ProviderEvent, bar store.SuppressAs) (bool, error)
	Refused(ctx context.Context, refusals []store.Send) error

	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	ResetCounters(ctx context.Context, buckets []store.Bucket, act store.AuditEntry) error
	CancelBy(ctx context.Context, id string, act store.AuditEntry) (bool, error)
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act store.AuditEntry) error
	Forget(ctx context.Context) (int, error)

	Renew(ctx context.Context, lease time.Duration, held []store.Held) error
	Finish(ctx context.Context, outcome store.Outcome) (bool, error)
	Postpone(ctx context.Context, p store.Postponement) (bool, error)
	TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) ([]store.Work, error)
	RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error)
	Refunded(ctx context.Context, held store.Held) error
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(store.CountedSend) error) error
	History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error)
	Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	HoldBack(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error
	HeldBack(ctx context.Context, ch recipient.Channel, h recipient.Hash) (store.CarrierHold, error)
	AllRejected(ctx context.Context, within time.Duration, yield func(store.CountedSend) error) error
	store.Expirer
	store.HourCounter
	store.PrefixWatcher
	store.ReceiptPolling
	Receive(ctx context.Context, id uuid.UUID, status store.Status) (bool, error)
	HeavyRecipients(ctx context.Context, q store.HeavyQuery) ([]store.HeavyRecipient, int, error)
}

// Renderer turns templates into a message. Implementation: message.Renderer.
type Renderer interface {
	Render(message.Request) (message.Message, error)
	Locales() []string
	Prefer(list string) string // the tag of an Accept-Language list by which the templates choose
}

// Texts turns templates into the text of a text message. Implementation: message.Texts.
type Texts interface {
	Render(message.Request) (message.Text, error)
	Locales() []string
	Prefer(list string) string // the tag of an Accept-Language list by which the templates choose
}

// Carrier hands one text message over. Implementation: sms.Carriers.
type Carrier interface {
	Send(ctx context.Context, m sms.Message) (sms.Receipt, error)
}

// Sender hands one mail to a server. Implementation: delivery.SMTP.
type Sender interface {
	Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error)
}

// Prover signs that a recipient was verified. Implementation: proof.Signer.
type Prover interface {
	Sign(f proof.Facts, now time.Time) (string, error)
}

// Purpose is what a code is for: its policy, its life and its looks.
type Purpose struct {
	Name       string
	Policy     quota.Policy
	Shares     []string      // every purpose with the same policy, this one too: they share its buckets
	Life       time.Duration // of a code, at most 10 min (SEC-3)
	CodeLength int           // characters, 6 to 10
	Alphabet   Alphabet
	Notify     message.Notify
}

// Settings are the service's choices. All but the Terms are fixed.
type Settings struct {
	Terms                      // at first; see Change
	MailFrom string            // Name <addr>
	Domain   string            // right-hand side of Message-IDs
	IndexKey []byte            // keyed hash of recipients, ≥ 32 bytes
	Folding  recipient.Folding // which spellings of an address count as one
	Ring     *keyring.Ring     // codes, sealed recipients
	Marks    []string          // headers that each mail carries with its send's ID
	Lease    time.Duration     // of a row in flight; 0 means DefaultLease
	Tick     time.Duration     // between two looks for rows to take over; 0 means DefaultTick
	Watch    store.PrefixWatch // where codes do not come back; zero: nobody looks, and no pause holds
	AskAfter time.Duration     // how long a carrier may take to tell what became of a message by itself; 0: it is not asked
	Workers  int               // sends of one channel in flight at once; 0 means DefaultWorkers
}

// A crash is noticed after at most a lease and a tick: under 10 s (DESIGN.md, section 4).
const (
	DefaultLease   = 8 * time.Second
	DefaultTick    = time.Second
	DefaultWorkers = 16
)

// maxAttempts is how many checks a code survives (SEC-6).
const maxAttempts = 5

// logTimeout bounds a call to the log that goes on after the client hung up.
const logTimeout = 5 * time.Second

// takeTimeout bounds the limiter's decision (QUOTA-14).
const takeTimeout = 2 * time.Second

// Parts are what a Service works with. Now and NewID may be left nil; tests set them.
type Parts struct {
	Limiter  Limiter
	Log      Log
	Renderer Renderer
	Sender   Sender
	Texts    Texts    // with Carrier
	Carrier  Carrier  // nil: there are no text messages
	Inquirer Inquirer // nil: no carrier is asked what became of messages
	Prover   Prover   // nil: approvals carry no proof
	Logger   *slog.Logger
	Now      func() time.Time
	Observer Observer
	Told     func() // called when an app has something to be told of; nil: nobody delivers events. It must not block
}

// Service is the use cases. Safe for concurrent use.
type Service struct {
	Settings
	Parts
	terms    atomic.Pointer[inForce]
	limits   *limits
	waiters  *waiters
	refusals *refusals
	lines    *lines
	outbox   *outbox
	alarm    alarm
	lockouts *lockouts
	ids      store.IDs

	checkAlarms checkAlarms
}

// New puts a service together. Nothing runs in the background until Run.
func New(s Settings, p Parts) *Service {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Observer == nil {
		p.Observer = nobody{}
	}
	if p.Told == nil {
		p.Told = func() {}
	}
	if s.Lease == 0 {
		s.Lease = DefaultLease
	}
	if s.Tick == 0 {
		s.Tick = DefaultTick
	}
	if s.Workers == 0 {
		s.Workers = DefaultWorkers
	}
	limits := newLimits(p.Limiter, p.Now, p.Logger)
	p.Limiter = limits
	svc := &Service{Settings: s, Parts: p, limits: limits, waiters: newWaiters(), refusals: newRefusals(), lines: newLines(), lockouts: newLockouts()}
	s.Pauses = since(nil, s.Pauses, p.Now())
	svc.terms.Store(&inForce{Terms: s.Terms})
	svc.Settings.Terms = Terms{} // so that nobody works by what does not hold any more
	svc.outbox = newOutbox(svc)
	return svc
}

// Observer hears of what happened, for metrics. Implementations must not block.
type Observer interface {
	Decided(channel recipient.Channel, app, outcome, rule string)                    // outcome: admitted, admitted_by_log_alone, refused, refused_by_log, unavailable
	Observed(channel recipient.Channel, app, rule string)                            // a send that the rule would have refused, did it not only observe
	Finished(channel recipient.Channel, app string, s store.Status, d time.Duration) // d: from the log's instant to the outcome
	Checked(channel recipient.Channel, app, outcome string)                          // outcome: approved, wrong, ended, locked_out, refused
	CheckBound(channel recipient.Channel, app, rule string)                          // a check met a bound that is spent: of a network, which refuses it, or of the app, which alarms
	PrefixPaused(app, country string)                                                // text messages to some numbers there rest
}

type nobody struct{}

func (nobody) Decided(recipient.Channel, string, string, string)               {}
func (nobody) Observed(recipient.Channel, string, string)                      {}
func (nobody) Finished(recipient.Channel, string, store.Status, time.Duration) {}
func (nobody) Checked(recipient.Channel, string, string)                       {}
func (nobody) CheckBound(recipient.Channel, string, string)                    {}
func (nobody) PrefixPaused(string, string)                                     {}

// Kind says what a caller can be trusted with.
type Kind int

// The kinds of callers.
const (
	Browser Kind = iota // a page or a pk_ key: sees what it can name, and no reasons
	Secret              // an sk_ key: a back end
)

// Caller is who asks, already authenticated.
type Caller struct {
	App  string
	Kind Kind
	IP   netip.Addr // the client's, for rules on addresses and networks; of a back end the one that it names, if any
}

// newID is a UUID version 7 of now: IDs sort by time, and a send's 16 bytes are the member in the limiter's bucket.
func (s *Service) newID() (uuid.UUID, error) { return s.ids.New(s.Now()) }
