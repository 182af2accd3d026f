// Package store has a row for every send, refusal and verification; nothing is sent without its row. The rows are three things at once.
//
//   - The record that answers "did the mail to this person go out, and if not, why?".
//   - The second gate: Begin decides the recipient's rules again, under a lock on that recipient, in the transaction
//     that writes the send. A lost or stale Redis therefore never admits one send too many.
//   - The outbox: a row in flight carries a lease; the process that holds the row's latest attempt may finish it, and any
//     replica takes over a row whose lease ran out. There is no second queue.
//
// This package has the types of the rows, their validation, and one small interface for each feature; it has no SQL. Package gate
// decides. Package sqldb has the statements that both databases run; postgres and sqlite have the other statements, mainly those of each
// send. Package storetest has the tests that both must pass.
//
// # A new field of a send
//
// Say "device": a text that back ends give with a request, in the log and on the console's page of a send, not in refusals, lists or
// exports; a resend does not inherit it.
//
//	internal/api/verifications.go          sendBody: Device string `json:"device"`; askFromRequest copies it
//	internal/verification/ask.go           Ask; validateOptions bounds it with IsPlainText, and refuses it without a secret key, as session; row copies it
//	internal/verification/idempotency.go   fingerprint: appended if it is set, else every key in use would be another request
//	internal/store/records.go              Send: Device string `column:"device,send"`; the statements of both databases follow from the tag
//	internal/store/check.go                ValidatedIntent: one text more to ValidTexts (TestEveryTextIsCheckedAndWritten in store/gate finds it missing)
//	migrations/{postgres,sqlite}           sends: device text NOT NULL DEFAULT ''. Refusals do not write it, so the DEFAULT is needed.
//	                                       In 00001_schema.sql until 0.1.0 is released, then ALTER TABLE in a new file
//	internal/store/sqldb/erase.go          eraseSendsSQL: device = ''
//	internal/store/postgres/erase_test.go  columns: sends, erased
//	internal/store/storetest/kit.go        Traces: a text to look for after an erasure; WriteTraces writes it
//	web/admin/send.html                    beside facts.reference
//	internal/texts/en.json, zh-Hans.json   facts.device; deed.recipient.erase.what and docs/operations.md say what an erasure removes
//	internal/console/json.go               sendJSON: "device": frame.OrNull(s.Send.Device)
//	docs/openapi.yaml                      Ask, as session; Story: properties and required
//	internal/console/testdata/pages.txt    by go test ./internal/console -update: it has the text of the erasure
//	internal/verification/*_test.go        send_test.go: its bounds; TestKeyOfAnotherRequest alone sees a fingerprint without it
//
// Refusals have the field with the tag "device,send,refusal", without DEFAULT, with a line in refusalRow; free text stays out. Lists have
// it in rowJSON instead of sendJSON (schema Row) and in export.go. A resend inherits it from a column of Verification, as the reference.
// A field that an attempt finds begins in [Outcome], and is written by postgres/finish.go and sqlite/outbox.go.
//
// # Instants
//
// Instants are whole microseconds, UTC. A row keeps two: TakenAt on the clock of the limiter that let it in (named by
// Clock) and LoggedAt on the store's own clock, read after the lock. Ages compare instants of one clock only, and are at
// most a second more on a limiter's clock than on the store's.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// ErrBadRequest: the arguments are invalid, a bug of the caller, or conflict with a row, as ErrNameTaken. Nothing was written. Every other
// error of the store is of package fault. After one that is Uncertain do not refund the send at once: look up its row later, or repeat Begin
// with the same Send.ID, which writes it at most once.
var ErrBadRequest = errors.New("store: bad request")

// MaxClockSkew is by how much the age of an event by the limiter's clock may differ from its age by the log's; if it differs by more, the
// limiter's clock was set, and the log's age counts. So a limiter whose clock jumps, or whose promoted replica has another clock, frees a
// place at most one second early. It is not 0, since the time from a Take to Begin varies, and a request after the announced wait must be
// admitted.
const MaxClockSkew = time.Second

// CallTimeout bounds a call to the log, also one that goes on after its client hung up.
const CallTimeout = 5 * time.Second

// Outbox decides and writes sends, and keeps their leases and refunds.
type Outbox interface {
	// Begin decides and writes one send. A refusal, by the rules or by the bounds on failed checks, is a value and writes nothing. With an
	// error, nothing was written unless the error is fault.Uncertain. Repeated with the same Send.ID it returns the row as the first call
	// wrote it, and writes no second one.
	Begin(ctx context.Context, intent Intent) (Begun, error)
	// Renew makes the leases of rows end lease after now. It skips rows that are not Sending, and those with another current attempt.
	Renew(ctx context.Context, lease time.Duration, held []Held) error
	// Finish writes the outcome of a send. False: another attempt holds the send, or it has ended; nothing was changed.
	Finish(ctx context.Context, outcome Outcome) (bool, error)
	// Postpone sets a send back to Queued; its next attempt is due after p.After. False: as for Finish.
	Postpone(ctx context.Context, p Postponement) (bool, error)
	// TakeOver starts the next attempt of up to limit rows of a channel that are due or whose lease ran out, those first whose code expires
	// first. With more than 10,000 such rows, Postgres chooses among the longest overdue. A row whose lease ran out is InDoubt from then
	// on.
	TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) ([]Work, error)
	// RefundsDue returns up to limit unconfirmed refunds, oldest first, and leases them, so that no other call returns them for that time.
	// A refund is due one lease after Finish and after each time that it was leased.
	RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]Refund, error)
	// Refunded confirms that the limiter has made a refund.
	Refunded(ctx context.Context, held Held) error
}

// IdempotencyKeys has the claims of Idempotency-Keys.
type IdempotencyKeys interface {
	// Claim claims an idempotency key for a request; see the type Claim. While another request holds the claim, the answer is ClaimBusy. If
	// its lease has ended and there is no send, the next request with the same fingerprint gets the claim.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Release ends the lease of a claim that led to no send, so that the next request can get the claim at once. With forget it deletes the
	// claim, so that the key can also be used for a different request. It changes nothing if the claim has another SendID than id.
	Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
}

// Verifications reads, checks and ends verifications.
type Verifications interface {
	// Verification returns a verification with its newest send, and the time on the log's clock. Error: fault.NotFound.
	Verification(ctx context.Context, id string) (Verification, Send, time.Time, error)
	// Attempt counts one check of a code before the caller compares it. It returns the verification after that, and the time on the log's
	// clock. False: nothing was counted, since the verification is not pending, or, if it is, since its recipient is locked out. Error:
	// fault.NotFound.
	Attempt(ctx context.Context, id string) (Verification, bool, time.Time, error)
	// LockedOut returns the state of the bounds on failed checks for v's recipient and the class of caller that opened v.
	LockedOut(ctx context.Context, v Verification) (Lockout, error)
	// Approve approves a verification unless it is approved, canceled or expired, and writes the event tell in the same transaction. It
	// ignores the number of tries, since Attempt has counted this one. False: it was not approved by this call; nothing was written.
	Approve(ctx context.Context, id string, tell NewEvent) (bool, error)
	// Cancel cancels a verification unless it is approved, canceled or expired. False: nothing was changed, or there is none.
	Cancel(ctx context.Context, id string) (bool, error)
	// Redeem records that the proof of an approved verification was redeemed, with the hash of the request's Idempotency-Key, or nil.
	// False: nothing was changed, since the proof was redeemed before or there is no such approved verification.
	Redeem(ctx context.Context, id string, by []byte) (bool, error)
	// NewestPending returns the newest pending verification of a holder for a recipient and purpose, or fault.NotFound.
	NewestPending(ctx context.Context, h HolderQuery) (Verification, error)
}

// Refusals records refused requests.
type Refusals interface {
	// Refused records refusals. If a refusal with the same ID has a row, it is added to that row: Count is added, RetryAfter replaced, and
	// the larger Recipients kept. A row of a send with the same ID is not changed.
	Refused(ctx context.Context, refusals []Send) error
}

// Search reads sends and refusals, mainly for the console.
type Search interface {
	// Sends returns rows, newest first, by LoggedAt and then ID.
	Sends(ctx context.Context, filter Filter) ([]Send, error)
	// SendsByID reads up to 1,000 rows, in no order. Unknown IDs are left out.
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]Send, error)
	// CodesOf reads up to 1,000 verifications by their IDs, in no order. Unknown IDs are left out. The time is on the log's clock; zero if
	// no verification was found.
	CodesOf(ctx context.Context, ids []string) ([]Verification, time.Time, error)
	// Latest returns the newest row of each recipient that was logged less than within ago, newest first. Recipients without such a row are
	// left out. It takes up to 5,000 hashes.
	Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]Send, error)
	// Story returns one row with everything that belongs to it. Error: fault.NotFound.
	Story(ctx context.Context, id uuid.UUID) (Story, error)
	// SendsBySupportReference returns the rows with a support reference, sorted by ID; none if the text is not a reference.
	SendsBySupportReference(ctx context.Context, support string) ([]Send, error)
	// HeavyRecipients returns up to q.Limit recipients with many counted sends, newest send first, and the number of all such recipients.
	HeavyRecipients(ctx context.Context, q HeavyQuery) ([]HeavyRecipient, int, error)
}

// Counts reads the events that a limiter should have.
type Counts interface {
	// CountedSends calls yield for every counted send whose LoggedAt is less than within ago, oldest first. Event.At is on the named clock
	// if the row has an instant on it, else on the log's. It stops at the first error of yield and returns that error.
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(CountedSend) error) error
	// History returns the counted sends of a bucket that are younger than within, oldest first, and the time on the log's clock, on which
	// all events are. It takes no lock, so a Begin may add a send right after it.
	History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	// HistoryAt is History on the named clock, as a Begin would see it. at is called after the rows were read, and returns what the clock
	// shows then. The age of an event is the one on the named clock if the row has an instant on it and the age on the log's differs by at most
	// MaxClockSkew, else the log's. With LogClock, the log's time replaces at's. The returned time is always on the log's clock.
	HistoryAt(ctx context.Context, b Bucket, within time.Duration, clock string, at func() time.Time) ([]quota.Event, time.Time, error)
	// HistoryOf is HistoryAt. own are those of the events that are sends of the named verifications.
	HistoryOf(ctx context.Context, b Bucket, within time.Duration, clock string, at func() time.Time,
		verifications []string) (all, own []quota.Event, err error)
	// Rejected returns the rejected sends of the bucket's recipient, of all purposes, that ended less than within ago, oldest first, and
	// the time on the log's clock. The instant of an event is the send's end.
	Rejected(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	// AllRejected calls yield for every rejected send that ended less than within ago, oldest first; Event.At is the send's end. It stops
	// at the first error of yield and returns that error.
	AllRejected(ctx context.Context, within time.Duration, yield func(CountedSend) error) error
}

// SuppressionList has the suppressions. An audit entry (nil: none) is written in the same transaction.
type SuppressionList interface {
	// Suppress adds a suppression that begins now, and returns it. False: a suppression with this ID exists, perhaps a lifted one; it is
	// returned unchanged. The audit entry is written in both cases.
	Suppress(ctx context.Context, s Suppression, lasts time.Duration, act *AuditEntry) (Suppression, bool, error)
	// Suppressions returns suppressions, newest first, by Since and then ID, and the time on the log's clock.
	Suppressions(ctx context.Context, f SuppressionFilter) ([]Suppression, time.Time, error)
	// Lift ends all suppressions of an address that are in force now, and returns them, oldest first. The audit entry is written even if
	// there were none. Its Detail becomes their number, and its recipient, if it has none, that of the first.
	Lift(ctx context.Context, l LiftRequest, act *AuditEntry) ([]Suppression, error)
}

// ProviderEvents are reports of providers on sends that they accepted.
type ProviderEvents interface {
	// IngestProviderEvent records an event of a send that a provider accepted, and adds the suppression if suppress.For > 0, in one
	// transaction. It changes no status. False: the event was recorded before, and nothing was changed. Errors: fault.NotFound,
	// fault.Unavailable.
	IngestProviderEvent(ctx context.Context, e ProviderEvent, suppress SuppressAs) (bool, error)
}

// Budgets bound what text messages may cost.
type Budgets interface {
	// Spend makes all charges, or none if one of them would exceed its Limit; then refusedBy is that charge's account, else "". Parallel
	// calls never exceed a limit together. After an error nothing was charged, unless it is fault.Uncertain.
	Spend(ctx context.Context, charges []Charge) (spent []Spent, refusedBy string, err error)
	// UndoCharges subtracts charges that Spend made from the periods in which it made them.
	UndoCharges(ctx context.Context, spent []Spent) error
}

// CarrierHolds has the carriers' holds on recipients.
type CarrierHolds interface {
	// AddCarrierHold adds a hold that begins now. If the recipient has a hold that ends later, it changes nothing.
	AddCarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error
	// CarrierHold returns the present hold on a recipient; zero if there is none.
	CarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash) (CarrierHold, error)
}

// Statistics counts the rows of a time range. A busy service has too many rows in a month to count them while a page loads. So Postgres
// stores the counts of each past hour. SQLite has few rows and counts them each time.
type Statistics interface {
	// Stats counts sends, refusals and approvals, and measures delivery times.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
	// Domains returns the mail domains with the most failed sends in that time, at most ten, the one with the most first.
	Domains(ctx context.Context, q StatsQuery) ([]DomainTally, error)
	// ApprovalsBy returns how many codes were sent and entered for each value of a dimension: at most 20 values, the one with the most
	// codes first.
	ApprovalsBy(ctx context.Context, q StatsQuery, by Dimension) ([]ApprovalTally, error)
	// CountHours stores the counts of up to limit past hours that have none yet and have no send in flight, newest first. It returns the
	// number of these hours. It deletes the counts of hours that began longer than keep, or 62 days, ago. If several replicas call it at
	// once, one counts. SQLite stores no counts and returns 0.
	CountHours(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Health checks whether the store can write, and closes it.
type Health interface {
	// Ping writes a little, and returns an error if the log cannot take a send now. With SQLite, after a Ping without error, no earlier
	// write with fault.Uncertain can still take effect; see commitUndone.
	Ping(ctx context.Context) error
	Close() error
}

// Store has all methods of a database, grouped by feature. Other packages declare an interface with the methods that they need.
type Store struct {
	Outbox
	IdempotencyKeys
	Verifications
	Refusals
	Search
	Counts
	SuppressionList
	ProviderEvents
	Budgets
	Receipts
	CarrierHolds
	Statistics
	Health
	EventQueue
	PrefixWatcher
	AuditTrail
	CounterReset
	AccountStore
	Expirer
}

// New returns the Store whose methods are those of db.
func New[D interface {
	Outbox
	IdempotencyKeys
	Verifications
	Refusals
	Search
	Counts
	SuppressionList
	ProviderEvents
	Budgets
	Receipts
	CarrierHolds
	Statistics
	Health
	EventQueue
	PrefixWatcher
	AuditTrail
	CounterReset
	AccountStore
	Expirer
}](db D) Store {
	return Store{db, db, db, db, db, db, db, db, db, db, db, db, db, db, db, db, db, db, db}
}
