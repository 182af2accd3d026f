// Package verification has the use cases: request a code, and view, check, cancel or report on a
// verification. Package outbox delivers the sends that Send wrote. Package support has the actions
// of administrators.
//
//   - ask.go, callers_code.go and parse_ask.go read a request.
//   - send.go has the order of a send's steps, which are in the files that it names.
//   - view.go and tell.go decide what a caller may see.
//   - check.go, check_bounds.go and compare.go check codes.
//   - report.go handles cancellations, and reports on codes that callers check; not_me.go handles
//     reports by recipients.
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
	"sendcode/internal/codes/keys"
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

// Store is what the use cases need of the database. Implementation: *sqldb.DB.
type Store interface {
	sendStore
	checkStore
	readStore
}

type sendStore interface {
	Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error)
	ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error)
	ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	Lockout(ctx context.Context, v store.Verification) (store.Lockout, error)
	cancelStore
}

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

type readStore interface {
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error)
	CarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash) (store.CarrierHold, error)
}

// Outbox delivers sends. Implementation: *outbox.Outbox.
type Outbox interface {
	// Submit puts a send into the queue and waits for the outcome, for at most wait. It returns the
	// send with the outcome, or with the status Queued.
	Submit(ctx context.Context, w store.Work, wait time.Duration) store.Send
	// ExpectedWait returns how long a new message of an app, with a code of this life, would wait
	// until it goes out. stalled is true if at present no message goes out at all. Then wait is how
	// long this has lasted.
	ExpectedWait(q store.Queue, app, network string, life time.Duration) (wait time.Duration, stalled bool)
}

// Repair corrects the limiter. Implementation: *repair.Repair.
type Repair interface {
	// SettleLater corrects the limiter in the background, so that it counts the send if its row
	// does. A send without a row is refunded.
	SettleLater(send uuid.UUID, buckets map[quota.Scope]string)
}

// LocaleChooser chooses the language of a message. Implementations: message.MailRenderer and
// message.TextRenderer.
type LocaleChooser interface {
	PreferredLocale(app, list string) string // the tag of an Accept-Language list that decides the language; if none fits, the first tag
}

// ProofSigner signs proofs of approvals. Implementation: proof.Signer.
type ProofSigner interface {
	Sign(f proof.Claims, now time.Time) (string, error)
}

// Observer counts for metrics. Implementations must not block.
type Observer interface {
	// Decided counts a decision about a send. outcome is admitted, refused or unavailable. With
	// Redis it is refused_by_database if the database refused the send after Redis had admitted it.
	// While Redis is unavailable, it is admitted_by_database_alone or refused_by_database_alone.
	Decided(channel recipient.Channel, app, outcome, rule string)
	RuleWouldRefuse(channel recipient.Channel, app, rule string) // an observing rule would have refused a send
	// Checked counts a check. outcome is approved, repeated (an approval or another result is
	// answered again), wrong, ended, locked_out or refused.
	Checked(channel recipient.Channel, app, outcome string)
	// HumanChecked counts a human check. vendor is a vendor's name or humancheck.ByWork. result is
	// CheckAsked, CheckPassed, CheckFailed or CheckVendorError.
	HumanChecked(app, vendor, result string)
	// CheckBoundExceeded counts a check beyond a bound on failed checks. A network's bound refuses
	// the check, and an app's bound does not.
	CheckBoundExceeded(channel recipient.Channel, app, rule string)
}

// State of a verification is not stored. It is computed from the verification's row and the
// database's clock.
type State string

const (
	Pending            State = "pending"
	Approved           State = "approved"
	Canceled           State = "canceled"
	Expired            State = "expired"
	MaxAttemptsReached State = "max_attempts_reached"
)

// StateOf returns the state of a verification. now is on the database's clock.
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

// ReadDependencies are for all use cases.
type ReadDependencies struct {
	Policy   *policy.CurrentSet
	Vault    keys.Vault
	IDs      *store.IDGenerator
	Now      func() time.Time // an estimate of the time on the database's clock; may step
	Events   webhook.Events
	Rows     readStore
	Gates    *gates.Gates
	Refusals *refusals.Batch
	Mails    LocaleChooser
	Texts    LocaleChooser // nil: there are no text messages
	Budget   Budget        // nil: there is no cap on the cost of text messages
	Observer Observer
	Logger   *slog.Logger
}

// SendDependencies are for Send alone.
type SendDependencies struct {
	Store     sendStore
	Repair    Repair
	Outbox    Outbox
	Lease     time.Duration // lease of a row that Begin writes; must be the outbox's
	HoldUntil time.Time     // no send is admitted before this instant
}

// CheckDependencies are for checks, reports and cancellations.
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

type readService struct {
	ReadDependencies
	human atomic.Pointer[map[string]humancheck.Check]
	// askStrangers has the apps whose strangers are asked for a human check, because few of their
	// codes are entered; nil: none.
	askStrangers atomic.Pointer[map[string]bool]
}

type sendService struct {
	*readService
	SendDependencies
	alarms       *alarms
	recipients   *admission.Bulkhead
	places       entrance
	turns        keyTurns
	lockouts     *lockouts
	lateRefusals lateRefusals
}

type checkService struct {
	*readService
	CheckDependencies
	alarms   *alarms
	places   entrance
	lockouts *lockouts
	wrong    wrongCodes
}

// New starts nothing in the background. humans has the human checks by app, as for SetHumanChecks.
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

// CallerKind says how a caller is authenticated, and so what it may see.
type CallerKind int

const (
	Browser CallerKind = iota // the hosted page or a pk_ key: sees only verifications whose ID it knows, and no reasons for failures
	BackEnd                   // an sk_ key
)

// Caller is an authenticated client.
type Caller struct {
	App  string
	Kind CallerKind
	IP   netip.Addr // address of the end user's client; a back end may name the address; invalid: not known

	Page *PageOffer // what our own page offers; the caller may request and see nothing else; nil: the caller is not our page

	Trust Trust // of a back end; a browser says nothing

	// IdempotencyKey is the Idempotency-Key of a send, a check or a report, or empty. Requests of
	// one caller with the same key are one request. The key of a send is kept for
	// store.IdempotencyKeyLife. The key of a check is kept until the verification's next check that
	// costs an attempt or approves, and the key of a report until its next report that changes
	// something.
	IdempotencyKey string
}

// Trust says whether a back end vouches for the person of a request: whether it knows them by a
// session, a password or a device.
type Trust int

// A request's own value counts more than the setting of its key, or for a resend, than the trust of
// the verification.
const (
	ImpliedStranger Trust = iota // neither the request nor its key's setting says anything
	SaidStranger                 // possible only with a key whose setting implies that all people are known
	ImpliedKnown
	SaidKnown
)

// IsKnown reports whether the back end vouches for the person.
func (t Trust) IsKnown() bool { return t == ImpliedKnown || t == SaidKnown }

// ofResend returns the trust of a request that sends the code of a verification again: what the
// request says, otherwise that of the verification, whatever the key's setting is now.
func (t Trust) ofResend(class store.Class) Trust {
	switch {
	case t == SaidStranger || t == SaidKnown:
		return t
	case class == store.SecretKeyClass:
		return ImpliedKnown
	}
	return ImpliedStranger
}

// PageOffer has the channels and purposes that an app's page offers. The methods of a nil PageOffer
// allow everything.
type PageOffer struct {
	Channels []recipient.Channel // empty: all
	Purposes []string
}

func (p *PageOffer) HasChannel(ch recipient.Channel) bool {
	return p == nil || len(p.Channels) == 0 || slices.Contains(p.Channels, ch)
}

// HasPurpose reports whether the page offers a purpose, "" for the default one.
func (p *PageOffer) HasPurpose(name string) bool {
	return p == nil || slices.Contains(p.Purposes, cmp.Or(name, policy.DefaultPurpose))
}

func (c Caller) clientIP() string {
	if !c.IP.IsValid() {
		return ""
	}
	return c.IP.String()
}

// network returns the client's network as rows store it; empty: not known.
func (c Caller) network() string {
	if !c.IP.IsValid() {
		return ""
	}
	return buckets.WideNetworkPrefix(c.IP)
}

// classWithoutTokens ignores tokens of known browsers.
func (c Caller) classWithoutTokens() store.Class {
	if c.Kind == BackEnd && c.Trust.IsKnown() {
		return store.SecretKeyClass
	}
	return store.StrangerClass
}

// IDs are UUIDs of version 7, so they sort by time. The 16 bytes of a send's ID are also its ID in
// the limiter.
func (s *readService) newID() (uuid.UUID, error) { return s.IDs.New(s.Now()) }

// These are errors of the use cases. Package server maps each but ErrKeptBack to a status.
var (
	// ErrKeyInProgress: a request with the same idempotency key is under way.
	ErrKeyInProgress = errors.New("verification: the same request is being worked on")
	// ErrCallerCode: the caller made the verification's code, so the service can neither check it
	// nor send it again.
	ErrCallerCode = errors.New("verification: the caller checks this code, not the service")
	// ErrOurCode: this service checks the code, so a caller cannot report its outcome.
	ErrOurCode = errors.New("verification: the service checks this code, not the caller")
	// ErrKeptBack: Request.MaySend returned false. No message was sent, and the send no longer
	// counts toward the recipient's limits.
	ErrKeptBack  = errors.New("verification: the message was not sent")
	ErrKeyReused = errors.New("verification: the key belongs to another request")
	// ErrKeyOfOtherCode: a check has the idempotency key of the last counted check, but another
	// code or another kind of caller. It is not counted.
	ErrKeyOfOtherCode = errors.New("verification: the key belongs to another code")
)

// FailedCheckLimitError means that a recipient or a network has too many failed checks. Nothing was
// compared, sent or counted.
type FailedCheckLimitError struct {
	RetryAfter time.Duration // positive
	Send       bool          // a send was refused because its code could not be checked
}

func (e *FailedCheckLimitError) Error() string { return "verification: too many failed checks" }

// HoldUntilError refuses a send before SendDependencies.HoldUntil. Nothing was sent or counted, and
// the caller may repeat the send later. So errors.Is treats it as fault.Unavailable.
type HoldUntilError struct {
	Until      time.Time
	RetryAfter time.Duration // positive
}

func (e *HoldUntilError) Error() string { return "verification: sends are held" }

func (e *HoldUntilError) Is(target error) bool { return target == fault.Unavailable }
