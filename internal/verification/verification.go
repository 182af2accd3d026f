// Package verification has the use cases: request a code, view, check and cancel a verification. The steps of one send:
//
//	Send ─▶ gates.TakeSend ─ refused ─▶ refusals.Add (batched)
//	     ─▶ Store.Begin    ─ refused ─▶ gates.RevertOverruled: the limiter gets the log's history
//	     ─▶ Outbox.Deliver ─▶ answer 202
//
// After the Take, work continues even if the client hangs up. Package outbox delivers what Begin wrote; package support has the actions
// of administrators.
package verification

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/bulkhead"
	"sendcode/internal/gates"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/recipient"
	"sendcode/internal/refusals"
	"sendcode/internal/store"
	"sendcode/internal/vault"
	"sendcode/quota"
)

// SendStore are the log's methods that requests for a code need. Implementations: postgres.DB and sqlite.DB.
type SendStore interface {
	Begin(ctx context.Context, intent store.Intent) (store.Begun, error)
	Claim(ctx context.Context, c store.Claim) (store.Claimed, error)
	Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	HeldBack(ctx context.Context, ch recipient.Channel, h recipient.Hash) (store.CarrierHold, error)
}

// CheckStore are the log's methods that views, checks and cancels need. Implementations: postgres.DB and sqlite.DB.
type CheckStore interface {
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	Newest(ctx context.Context, h store.HolderQuery) (store.Verification, error)
	Attempt(ctx context.Context, id string) (store.Verification, bool, time.Time, error)
	Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error)
	Cancel(ctx context.Context, id string) (bool, error)
	LockedOut(ctx context.Context, v store.Verification) (store.Lockout, error)
}

// Store is the log for all use cases.
type Store interface {
	SendStore
	CheckStore
}

// Outbox delivers sends, and refunds sends that were counted but not written. Implementation: *outbox.Outbox.
type Outbox interface {
	// Deliver starts a send and waits for its outcome, at most for wait.
	Deliver(ctx context.Context, w store.Work, wait time.Duration) store.Send
	RefundLater(id string, buckets map[quota.Scope]string)
	RefundNow(ctx context.Context, id string, buckets map[quota.Scope]string)
	RecordLater(s policy.Subject, id string, at time.Time)
	ReconcileLater(send uuid.UUID, buckets map[quota.Scope]string)
	ReleaseLater(key [32]byte, send uuid.UUID, within time.Duration)
}

// Languages chooses a language for which there are templates. Implementations: message.Renderer and message.Texts.
type Languages interface {
	Prefer(app, list string) string // the tag of an Accept-Language list that best fits the app's templates
}

// Prover signs proofs of approvals. Implementation: proof.Signer.
type Prover interface {
	Sign(f proof.Facts, now time.Time) (string, error)
}

// Observer counts what happened, for metrics. Implementations must not block.
type Observer interface {
	// outcome: admitted, admitted_by_log_alone, refused, refused_by_log, unavailable
	Decided(channel recipient.Channel, app, outcome, rule string)
	Observed(channel recipient.Channel, app, rule string)   // an observing rule would have refused a send
	Checked(channel recipient.Channel, app, outcome string) // outcome: approved, wrong, ended, locked_out, refused
	// a check exceeded a bound on failed checks: of a network, which refuses it, or of the app, which only logs an alarm
	CheckBound(channel recipient.Channel, app, rule string)
}

// MaxAttempts is how many checks a code allows.
const MaxAttempts = 5

// Parts are the dependencies of a Service.
type Parts struct {
	Store    Store
	Gate     *gates.Gate
	Outbox   Outbox
	Refusals *refusals.Batch
	Policy   *policy.InForce
	Vault    vault.Vault
	Mails    Languages
	Texts    Languages     // nil: there are no text messages
	Prover   Prover        // nil: approvals carry no proof
	Observer Observer      // nil: nothing is counted
	IDs      *store.IDs    // of sends and events, in order; nil: its own
	Lease    time.Duration // of a row that Begin writes: the outbox's
	Now      func() time.Time
	Logger   *slog.Logger
	Notify   func() // called after an app's event was written to the log; may be nil. It must not block
}

// Service runs the use cases. Safe for concurrent use.
type Service struct {
	Parts
	recipients *bulkhead.Lines
	lockouts   *lockouts
	breaker    breakerAlarm
	checks     checkAlarms
}

// New makes a service. It starts nothing in the background.
func New(p Parts) *Service {
	if p.Observer == nil {
		p.Observer = unobserved{}
	}
	if p.IDs == nil {
		p.IDs = &store.IDs{}
	}
	if p.Notify == nil {
		p.Notify = func() {}
	}
	return &Service{Parts: p, recipients: bulkhead.New(), lockouts: newLockouts()}
}

type unobserved struct{}

func (unobserved) Decided(recipient.Channel, string, string, string) {}
func (unobserved) Observed(recipient.Channel, string, string)        {}
func (unobserved) Checked(recipient.Channel, string, string)         {}
func (unobserved) CheckBound(recipient.Channel, string, string)      {}

// Kind says how a caller is authenticated, and so what it may see.
type Kind int

// The kinds of callers.
const (
	Browser Kind = iota // the hosted page or a pk_ key: sees only verifications whose ID it knows, and no reasons of failures
	Secret              // an sk_ key: a back end
)

// Caller is an authenticated client.
type Caller struct {
	App  string
	Kind Kind
	IP   netip.Addr // of the end user's client; for a back end the address that it names, if any
}

// newID makes a UUID version 7. IDs sort by time; the 16 bytes of a send's ID are its ID in the limiter.
func (s *Service) newID() (uuid.UUID, error) { return s.IDs.New(s.Now()) }

// mapStoreError converts an error of the log to ErrNotFound, ErrUnavailable or ErrUncertain, and logs the latter two; nil stays nil.
func (s *Service) mapStoreError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return ErrNotFound
	}
	s.Logger.ErrorContext(ctx, "the log did not answer", "error", err)
	if errors.Is(err, store.ErrUncertain) {
		return ErrUncertain
	}
	return ErrUnavailable
}
