// Package verification holds the use cases: ask for a code, look at it, check it, cancel it. The way of one send:
//
//	Send ─▶ gates.TakeSend ─ refused ─▶ refusals.Add (batched)
//	     ─▶ Store.Begin    ─ refused ─▶ gates.Overruled: the limiter gets the history
//	     ─▶ Outbox.Deliver ─▶ answer 202
//
// From the Take on, work does not stop because the client hung up. Package outbox delivers what Begin wrote; package support holds
// what administrators do.
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

// SendStore is the log as requests for a code need it. Implementations: postgres.DB and sqlite.DB.
type SendStore interface {
	Begin(ctx context.Context, intent store.Intent) (store.Begun, error)
	Claim(ctx context.Context, c store.Claim) (store.Claimed, error)
	Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	HeldBack(ctx context.Context, ch recipient.Channel, h recipient.Hash) (store.CarrierHold, error)
}

// CheckStore is the log as looks, checks and cancels need it. Implementations: postgres.DB and sqlite.DB.
type CheckStore interface {
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	Newest(ctx context.Context, h store.HolderQuery) (store.Verification, error)
	Attempt(ctx context.Context, id string) (store.Verification, bool, time.Time, error)
	Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error)
	Cancel(ctx context.Context, id string) (bool, error)
	LockedOut(ctx context.Context, v store.Verification) (store.Lockout, error)
}

// Store is both.
type Store interface {
	SendStore
	CheckStore
}

// Outbox delivers sends, and gives back what requests took in vain. Implementation: *outbox.Outbox.
type Outbox interface {
	// Deliver starts a send and waits for its outcome, at most for wait.
	Deliver(ctx context.Context, w store.Work, wait time.Duration) store.Send
	RefundLater(id string, buckets map[quota.Scope]string)
	RefundNow(ctx context.Context, id string, buckets map[quota.Scope]string)
	RecordLater(s policy.Subject, id string, at time.Time)
	ReconcileLater(send uuid.UUID, buckets map[quota.Scope]string)
	ReleaseLater(key [32]byte, send uuid.UUID, within time.Duration)
}

// Languages chooses among those that there are templates for. Implementations: message.Renderer and message.Texts.
type Languages interface {
	Prefer(app, list string) string // the tag of an Accept-Language list by which the templates of the app choose
}

// Prover signs that a recipient was verified. Implementation: proof.Signer.
type Prover interface {
	Sign(f proof.Facts, now time.Time) (string, error)
}

// Observer counts what happened, for metrics. Implementations must not block.
type Observer interface {
	// outcome: admitted, admitted_by_log_alone, refused, refused_by_log, unavailable
	Decided(channel recipient.Channel, app, outcome, rule string)
	Observed(channel recipient.Channel, app, rule string)   // a send that the rule would have refused, did it not only observe
	Checked(channel recipient.Channel, app, outcome string) // outcome: approved, wrong, ended, locked_out, refused
	// a check met a bound that is spent: of a network, which refuses it, or of the app, which alarms
	CheckBound(channel recipient.Channel, app, rule string)
}

// MaxAttempts is how many checks a code survives.
const MaxAttempts = 5

// Parts are what a Service works with.
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
	Notify   func() // called when an app's event is in the log; nil: no event is delivered. It must not block
}

// Service is the use cases. Safe for concurrent use.
type Service struct {
	Parts
	recipients *bulkhead.Lines
	lockouts   *lockouts
	breaker    breakerAlarm
	checks     checkAlarms
}

// New puts a service together. Nothing runs in the background.
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

// Kind says what a caller can be trusted with.
type Kind int

// The kinds of callers.
const (
	Browser Kind = iota // a page or a pk_ key: sees what it can name, and no reasons
	Secret              // an sk_ key: a back end
)

// Caller is an authenticated client.
type Caller struct {
	App  string
	Kind Kind
	IP   netip.Addr // the client's, for rules on addresses and networks; of a back end the one that it names, if any
}

// newID is a UUID version 7 of now: IDs sort by time, and a send's 16 bytes are the member in the limiter's bucket.
func (s *Service) newID() (uuid.UUID, error) { return s.IDs.New(s.Now()) }

// failed is an error of the log as callers see it: ErrNotFound, ErrUnavailable, ErrUncertain, or nil.
func (s *Service) failed(ctx context.Context, err error) error {
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
