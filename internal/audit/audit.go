// Package audit is the log: every send, every refusal and every verification is a row here, and nothing is sent
// without its row. It is three things at once.
//
//   - The record that answers "did the mail to this person go out, and if not, why?".
//   - The second gate: Begin decides the recipient's rules again, under a lock on that recipient, in the same round
//     trip that writes the send. A lost or stale Redis therefore never admits one send too many.
//   - The outbox: a row in flight carries a lease; whoever holds the row's latest attempt may finish it, and any
//     replica takes over a row whose lease ran out. There is no second queue.
//
// It stands between quota.Take and delivery; package verification is its only writer, admin and api read it.
// Postgres is the real part, SQLite the embedded default, Memory the twin for tests: one contract suite holds all three.
//
// Instants are whole microseconds. A row keeps two: TakenAt on the clock of the limiter that let it in (named by
// Clock) and LoggedAt on the log's own clock, read after the lock. Ages compare instants of one clock only.
package audit

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// What a caller can tell apart. Every other failure of the log wraps ErrUnavailable.
var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("audit: not found")
	// ErrUnavailable: the log did not answer, or answered that it can't serve now.
	ErrUnavailable = errors.New("audit: log is unavailable")
	// ErrUncertain goes with ErrUnavailable when a write may have been committed all the same. Only without it may
	// the place in the quota be given back.
	ErrUncertain = errors.New("audit: outcome of the write is not known")
)

// Status is the state of a send.
type Status string

// The states of a send. Queued and Sending are in flight; the others are final, but for receipts of a later issue.
const (
	Queued  Status = "queued"  // waits for its next attempt
	Sending Status = "sending" // an attempt holds its lease
	Sent    Status = "sent"    // the server took it
	Failed  Status = "failed"  // definitely not delivered; Reason says why
	Unknown Status = "unknown" // may have been delivered; never sent again, never refunded
	Refused Status = "refused" // never was a send: a rule refused the request
)

// Verification is one code in the making: its holder may resend it, its recipient enters it.
type Verification struct {
	ID          string // opaque, at least 128 random bits: whoever knows it may read and check it
	App         string
	Channel     recipient.Channel
	Purpose     string
	Recipient   recipient.Hash
	To          string // masked
	Sealed      []byte // the full recipient, encrypted; empty once erased
	Holder      string // who may resend without naming the ID; empty: nobody
	Nonce       []byte // 16 random bytes that only the log has; the code is derived from them
	KeyID       string // key of the ring that the code is derived from
	CodeLength  int
	Locale      string
	Reference   string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	Attempts    int // checks counted so far
	MaxAttempts int
	Sends       int       // sends so far
	ApprovedAt  time.Time // zero: not approved
	CanceledAt  time.Time // zero: not canceled
}

// Send is one row of the log: a send, or one or more refusals by one rule.
type Send struct {
	ID             uuid.UUID // version 7, so that IDs sort by time
	VerificationID string    // empty for a refusal that belongs to none
	Number         int       // 1 for the first send of a verification
	App            string
	Channel        recipient.Channel
	Purpose        string
	Recipient      recipient.Hash
	To             string // masked
	Locale         string
	Reference      string
	IP             string // client's network, /24 for IPv4 and /48 for IPv6, for the reader only
	Status         Status
	Reason         string // machine word, with Failed and Unknown
	Attempt        int    // the attempt that holds, or held last; fences late writers
	InDoubt        bool   // an earlier attempt ended without a word, so its mail may have gone out
	Counts         bool   // takes a place in the recipient's rules
	RefundDue      bool   // the limiter has not yet confirmed the refund
	TakenAt        time.Time
	Clock          string
	LoggedAt       time.Time
	FinishedAt     time.Time // zero while in flight
	Provider       string    // host of the mail server, or the carrier
	ProviderCode   string    // "250 2.0.0"
	Took           time.Duration
	BlockedBy      string        // with Refused: the rule that blocks longest
	RetryAfter     time.Duration // with Refused: the wait told last
	Count          int           // with Refused: how many requests this row stands for; 1 for a send
}

// Intent is what Begin is asked to write.
type Intent struct {
	Send         Send          // ID, App, Channel, Purpose, Recipient, To, Locale, Reference, IP, TakenAt, Clock are read
	Rules        []quota.Rule  // the recipient's rules; the log decides exactly these
	Purposes     []string      // the purposes that share the policy: their sends are the bucket's history
	Verification Verification  // opened when none can be joined; CreatedAt and ExpiresAt are set by the log's clock
	Life         time.Duration // of a verification opened now
	Join         string        // ID of the verification to resend; empty: one of the same holder, app, channel, recipient and purpose
	MinLife      time.Duration // a verification with less life left is not joined
	Lease        time.Duration // how long the first attempt holds the row
}

// Begun is what Begin decided.
type Begun struct {
	Admitted     bool
	Verification Verification  // joined or opened; zero when refused
	Send         Send          // as written, Status Sending and Attempt 1; zero when refused
	History      []quota.Event // when refused: the counting sends of the longest window, on the clock named below
	Now          time.Time     // instant of the decision, on the same clock as History
	Clock        string        // Intent.Send.Clock, or "log" when that clock can't decide
}

// Work is a row in flight with all that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
}

// Held names a row and the attempt that its holder made. Writes with an older attempt change nothing.
type Held struct {
	ID      uuid.UUID
	Attempt int
}

// Outcome ends a send for good.
type Outcome struct {
	Held
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	Refund       bool // give the place back: the row stops counting at once and RefundDue is set in the same statement
}

// Postponement ends an attempt, not the send.
type Postponement struct {
	Held
	After        time.Duration // until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund that the limiter has not confirmed yet.
type Refund struct {
	Held
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
}

// Counting is one counting send, for rebuilding a limiter from the log.
type Counting struct {
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	Event     quota.Event // At on the clock asked for where the row has it, else on the log's
}

// Filter selects rows of the log. Zero fields select all.
type Filter struct {
	Recipient *recipient.Hash
	Status    Status
	Channel   recipient.Channel
	Purpose   string
	App       string
	BlockedBy string
	Reference string
	From, To  time.Time // LoggedAt in [From, To)
	Before    *Mark     // rows older than this one (keyset paging, AUDIT-5)
	Limit     int       // 1 to 200
}

// Mark is a place in the log, newest first.
type Mark struct {
	At time.Time
	ID uuid.UUID
}

// Story is one row with what belongs to it.
type Story struct {
	Send         Send
	Verification *Verification // nil for a refusal that belongs to none
	Related      []Send        // sends of the verification and refusals of its recipient during its life, oldest first
	Now          time.Time     // on the log's clock
}

// Log is the contract that Postgres, SQLite and Memory fulfil; the contract suite runs on it. Consumers declare the
// part that they need.
type Log interface {
	// Begin decides and writes one send. A refusal is a value. With an error, nothing was written unless the error
	// is ErrUncertain.
	Begin(ctx context.Context, intent Intent) (Begun, error)
	// Renew extends the leases of the rows whose attempt still holds.
	Renew(ctx context.Context, lease time.Duration, held []Held) error
	// Finish ends a send; false: another attempt holds it, or it ended before, and nothing was changed.
	Finish(ctx context.Context, outcome Outcome) (bool, error)
	// Postpone puts a send back to Queued until its time; false as for Finish.
	Postpone(ctx context.Context, p Postponement) (bool, error)
	// TakeOver starts the next attempt of up to limit rows that are due or whose lease ran out, oldest first.
	TakeOver(ctx context.Context, lease time.Duration, limit int) ([]Work, error)
	// RefundsDue leases up to limit refunds that nobody has confirmed for a lease's time.
	RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]Refund, error)
	// Refunded confirms a refund.
	Refunded(ctx context.Context, held Held) error

	// Verification reads one with its newest send, and the log's clock.
	Verification(ctx context.Context, id string) (Verification, Send, time.Time, error)
	// Attempt counts one try before anything is compared. False: no try was left, or it is not pending (any more).
	// The verification is returned as it is afterwards, with the log's clock.
	Attempt(ctx context.Context, id string) (Verification, bool, time.Time, error)
	// Approve approves a pending verification that has not expired; false: somebody else did, or it ended.
	Approve(ctx context.Context, id string) (bool, error)

	// Refused records refusals; a row whose ID exists already gets its Count, RetryAfter added to or renewed.
	Refused(ctx context.Context, refusals []Send) error
	// Sends lists rows, newest first.
	Sends(ctx context.Context, filter Filter) ([]Send, error)
	// Story reads one row with what belongs to it.
	Story(ctx context.Context, id uuid.UUID) (Story, error)
	// Counting calls yield for every counting send of the last within, oldest first.
	Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error

	// Ping reports whether the log can take a send now.
	Ping(ctx context.Context) error
	Close() error
}
