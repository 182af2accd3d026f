// Package verification has the use cases: request a code, and view, check or cancel a verification.
// One send has these steps:
//
//	Send ─▶ gates.TakeSend ─ refused ─▶ refusals.Add (batched)
//	     ─▶ Store.Begin    ─ refused ─▶ gates.RefundOverruled: the limiter's count is refunded
//	     ─▶ Outbox.Deliver ─▶ answer 202
//
// After gates.TakeSend, the work continues even if the client hangs up. Package outbox delivers the
// sends that Begin wrote. Package support has the actions of administrators. The files are:
//
//   - ask.go, callers_code.go and parse_ask.go read a request.
//   - send.go has the order of a send's steps. The steps are in idempotency.go, human.go,
//     refuse_early.go, lockouts.go, overload.go, first_gate.go, second_gate.go and deliver.go.
//   - view.go and tell.go decide what a caller may see.
//   - check.go, check_bounds.go and compare.go check codes.
//   - report.go handles cancellations, and reports on codes that callers check.
//   - alarm.go logs alarms.
package verification

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/limit/admission"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/internal/limit/refusals"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/proof"
	"sendcode/quota"
)

// Store is the database for the use cases. Implementation: sqldb.DB.
type Store interface {
	sendStore
	checkStore
	readStore
}

// sendStore is the database for Send.
type sendStore interface {
	Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error)
	ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error)
	ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	Lockout(ctx context.Context, v store.Verification) (store.Lockout, error)
	cancelStore
}

// checkStore is the database for checks, reports and cancellations.
type checkStore interface {
	Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error)
	VerificationToCheck(ctx context.Context, h store.RecipientVerificationsQuery) (store.Verification, error)
	Report(ctx context.Context, id string, r store.Report, key []byte, event store.NewEvent) (store.Verification, error)
	NewestCallerCode(ctx context.Context, h store.RecipientVerificationsQuery) (store.Verification, error)
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]store.SendOrRefusal, time.Time, error)
	ReportNotMe(ctx context.Context, id string, event store.NewEvent) (store.Verification, error)
	cancelStore
}

type cancelStore interface {
	Cancel(ctx context.Context, id string, events ...store.NewEvent) (bool, error)
}

// readStore has the reads that all use cases share.
type readStore interface {
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error)
	CarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash) (store.CarrierHold, error)
}

// Outbox delivers sends. Implementation: *outbox.Outbox.
type Outbox interface {
	// Deliver starts a send and waits for the outcome, at most for the duration wait. It returns
	// the send with the outcome, or with the status Queued.
	Deliver(ctx context.Context, w store.Work, wait time.Duration) store.Send
	// ExpectedWait returns how long a new message of an app, with a code of this life, would wait
	// until it goes out. The result stalled is true if at present no message goes out at all. In
	// that case the result wait is the time for which this has lasted.
	ExpectedWait(q store.Queue, app, network string, life time.Duration) (wait time.Duration, stalled bool)
}

// Repair corrects the limiter. Implementation: *repair.Repair.
type Repair interface {
	// SettleLater corrects, in the background, the count of a send in the limiter, so that the
	// count agrees with the send's row. If the send has no row, SettleLater refunds the send.
	SettleLater(send uuid.UUID, buckets map[quota.Scope]string)
}

// LocaleChooser chooses a language for which there are templates. Implementations:
// message.MailRenderer and message.TextRenderer.
type LocaleChooser interface {
	PreferredLocale(app, list string) string // tag in an Accept-Language list that fits the app's templates best
}

// ProofSigner signs proofs of approvals. Implementation: proof.Signer.
type ProofSigner interface {
	Sign(f proof.Claims, now time.Time) (string, error)
}

// Observer counts what happened, for metrics. Implementations must not block.
type Observer interface {
	// Decided counts a decision about a send. The parameter outcome is admitted, refused or
	// unavailable. With Redis, it is refused_by_database if the database refused the send after
	// Redis had admitted it. While Redis is unavailable, it is admitted_by_database_alone or
	// refused_by_database_alone.
	Decided(channel recipient.Channel, app, outcome, rule string)
	RuleWouldRefuse(channel recipient.Channel, app, rule string) // an observing rule would have refused a send
	// outcome: approved, repeated (answered again), wrong, ended,
	// locked_out, refused
	Checked(channel recipient.Channel, app, outcome string)
	// by: humancheck.ByWork, or the vendor. result: CheckAsked, CheckPassed, CheckFailed,
	// CheckVendorError
	HumanChecked(app, vendor, result string)
	// CheckBoundExceeded counts a check that exceeded a bound on failed checks. A network's bound
	// refuses the check. An app's bound only logs an alarm.
	CheckBoundExceeded(channel recipient.Channel, app, rule string)
}

// State is the state of a verification. A State is not stored. It is computed from the
// verification's row and the database's clock.
type State string

// The states of a verification.
const (
	Pending            State = "pending"
	Approved           State = "approved"
	Canceled           State = "canceled"
	Expired            State = "expired"
	MaxAttemptsReached State = "max_attempts_reached"
)

// StateOf returns the state of a verification at an instant of the database's clock.
func StateOf(v store.Verification, now time.Time) State {
	switch {
	case !v.ApprovedAt.IsZero():
		return Approved
	case !v.CanceledAt.IsZero():
		return Canceled
	case v.Attempts >= v.MaxAttempts:
		return MaxAttemptsReached
	case !now.Before(v.ExpiresAt):
		return Expired
	}
	return Pending
}

// MaxAttempts is how many checks a code allows.
const MaxAttempts = 5

// ReadDependencies are the services that all use cases use.
type ReadDependencies struct {
	webhook.Events // has the policies, the keys and the clock, too
	Rows           readStore
	Gates          *gates.Gates
	Refusals       *refusals.Batch
	Mails          LocaleChooser
	Texts          LocaleChooser // nil: there are no text messages
	Budget         Budget        // nil: there is no cap on the cost of text messages
	Observer       Observer
	Logger         *slog.Logger
}

// SendDependencies are the dependencies that only Send uses.
type SendDependencies struct {
	Store     sendStore
	Repair    Repair
	Outbox    Outbox
	Lease     time.Duration // lease of a row that Begin writes; must be the outbox's
	HoldUntil time.Time     // no send is admitted before this instant
}

// CheckDependencies are the dependencies that only checks, reports and cancellations use.
type CheckDependencies struct {
	Checks      checkStore
	ProofSigner ProofSigner // nil: approvals carry no proof
}

// Service has the use cases. Safe for concurrent use.
type Service struct {
	*readService
	*sendService
	*checkService
	*alarms
}

// readService reads requests, rows and the states of rules, and decides what a caller may see of
// them.
type readService struct {
	ReadDependencies
	human atomic.Pointer[map[string]humancheck.Check]
	// askStrangers has the apps whose strangers are asked for a human check because few of their
	// codes are entered; nil: none.
	askStrangers atomic.Pointer[map[string]bool]
}

// sendService requests codes.
type sendService struct {
	*readService
	SendDependencies
	alarms     *alarms
	recipients *admission.Bulkhead
	places     entrance
	turns      keyTurns
	lockouts   *lockouts
	late       lateRefusals
}

// checkService checks codes, records reports on codes that callers check, and cancels
// verifications.
type checkService struct {
	*readService
	CheckDependencies
	alarms   *alarms
	places   entrance
	lockouts *lockouts
	wrong    wrongCodes
}

// New makes a service. It starts nothing in the background. humans has the human checks by app, as
// for SetHumanChecks.
func New(r ReadDependencies, s SendDependencies, c CheckDependencies, humans map[string]humancheck.Check) *Service {
	read, lockouts := &readService{ReadDependencies: r}, &lockouts{}
	read.SetHumanChecks(humans)
	alarms := &alarms{readService: read}
	send := &sendService{
		readService: read, SendDependencies: s, alarms: alarms, recipients: admission.NewBulkhead(),
		places: entrance{admission.New(), "sends", alarms}, lockouts: lockouts,
	}
	check := &checkService{
		readService: read, CheckDependencies: c, alarms: alarms,
		places: entrance{admission.New(), "checks", alarms}, lockouts: lockouts,
	}
	return &Service{read, send, check, alarms}
}

// CallerKind says how a caller is authenticated, and therefore what it may see.
type CallerKind int

// The kinds of callers.
const (
	Browser CallerKind = iota // the hosted page or a pk_ key: sees only verifications whose ID it knows, and no reasons of failures
	BackEnd                   // an sk_ key: a back end
)

// Caller is an authenticated client.
type Caller struct {
	App  string
	Kind CallerKind
	IP   netip.Addr // address of the end user's client; a back end may name the address; invalid: not known

	Page *PageOffer // what our own page offers; the caller may request and see nothing else; nil: the caller is not our page

	// Known is true if a back end vouches for the person: it knows them by a session, a password or
	// a device. Otherwise the request of a back end has the class UnknownBrowser.
	Known bool
	// KnownByKey is true if Known follows from the key's setting, and the request itself does not
	// say so. A resend is then for whom its verification is.
	KnownByKey bool
	// SaysStranger is true if the request itself says that it is for a stranger. That is possible
	// only with a key whose setting makes Known true.
	SaysStranger bool

	// IdempotencyKey is the Idempotency-Key of a send or a check, or empty. Requests of one caller
	// with the same key are one request. The key of a send is kept for IdempotencyKeyLife. The key
	// of a check is kept until the verification's next check that costs an attempt or approves.
	IdempotencyKey string
}

// PageOffer is what an app's page offers. The methods of a nil PageOffer allow everything.
type PageOffer struct {
	Channels []recipient.Channel // empty: all
	Purposes []string
}

// HasChannel reports whether the page offers a channel.
func (p *PageOffer) HasChannel(ch recipient.Channel) bool {
	return p == nil || len(p.Channels) == 0 || slices.Contains(p.Channels, ch)
}

// HasPurpose reports whether the page offers a purpose, "" for the default one.
func (p *PageOffer) HasPurpose(name string) bool {
	return p == nil || slices.Contains(p.Purposes, cmp.Or(name, policy.DefaultPurpose))
}

// clientIP returns the address of the end user's client; empty: not known.
func (c Caller) clientIP() string {
	if !c.IP.IsValid() {
		return ""
	}
	return c.IP.String()
}

// network returns the client's network in the form that is stored in rows, or an empty string if
// the client's address is unknown.
func (c Caller) network() string {
	if !c.IP.IsValid() {
		return ""
	}
	return buckets.WideNetworkPrefix(c.IP)
}

// classWithoutTokens returns the class of the caller's sends, without regard to tokens of known
// browsers.
func (c Caller) classWithoutTokens() store.Class {
	if c.Kind == BackEnd && c.Known {
		return store.SecretKeyClass
	}
	return store.UnknownBrowser
}

// newID makes a UUID version 7, so IDs sort by time. The 16 bytes of a send's ID are also its ID in
// the limiter.
func (s *readService) newID() (uuid.UUID, error) { return s.IDs.New(s.Now()) }

// Errors of the use cases. Package server maps each to a status.
var (
	// ErrKeyInProgress: another request with the same idempotency key is being worked on.
	ErrKeyInProgress = errors.New("verification: the same request is being worked on")
	// ErrCallerCode: the caller made the verification's code, so the service can neither check it
	// nor send it again.
	ErrCallerCode = errors.New("verification: the code is the caller's")
	// ErrOurCode: this service checks the code, so a caller cannot report its outcome.
	ErrOurCode = errors.New("verification: the code is ours")
	// ErrKeptBack: Request.MaySend returned false, so no message was sent. The send failed, and no
	// longer counts toward the recipient's limits.
	ErrKeptBack = errors.New("verification: the message was kept back")
	// ErrKeyReused: the idempotency key was used with another request.
	ErrKeyReused = errors.New("verification: the key belongs to another request")
	// ErrKeyOfOtherCode is returned if a check has the same idempotency key as the last counted
	// check, but another code or another kind of caller. The check is not counted.
	ErrKeyOfOtherCode = errors.New("verification: the key belongs to another code")
)

// FailedCheckLimitError says that a recipient or a network has too many failed checks. Nothing was
// compared, sent or counted.
type FailedCheckLimitError struct {
	RetryAfter time.Duration // positive
	Send       bool          // a send was refused because its code could not be checked
}

func (e *FailedCheckLimitError) Error() string { return "verification: too many failed checks" }

// HoldUntilError is the error for a send before SendDependencies.HoldUntil. Nothing was sent or
// counted, and the caller may repeat the send later. So errors.Is treats the error as
// fault.Unavailable.
type HoldUntilError struct {
	Until      time.Time
	RetryAfter time.Duration // positive
}

func (e *HoldUntilError) Error() string { return "verification: sends are held" }

// Is makes errors.Is treat the error as fault.Unavailable.
func (e *HoldUntilError) Is(target error) bool { return target == fault.Unavailable }
