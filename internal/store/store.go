// Package store has a row for every send, refusal and verification; nothing is sent without its row. The rows are three things at once.
//
//   - The record that answers "did the mail to this person go out, and if not, why?".
//   - The second gate: Begin decides the recipient's rules again, under a lock on that recipient, in the transaction
//     that writes the send. A lost or stale Redis therefore never admits one send too many.
//   - The outbox: a row in flight carries a lease; the process that holds the row's latest attempt may finish it, and any
//     replica takes over a row whose lease ran out. There is no second queue.
//
// This package has the rows, what makes a request valid, and one small interface a feature; it has no SQL. Package gate decides,
// sqldb has the statements that both databases run, postgres and sqlite the hot path of each, and storetest the contract that both
// fulfil.
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
//	internal/console/json.go               sendJSON: "device": listing.OrNull(s.Send.Device)
//	docs/openapi.yaml                      Ask, as session; Story: properties and required
//	internal/console/testdata/pages.txt    by go test ./internal/console -update: it has the text of the erasure
//	internal/verification/*_test.go        send_test.go: its bounds; TestKeyOfAnotherRequest alone sees a fingerprint without it
//
// Refusals have the field with the tag "device,send,refusal", without DEFAULT, with a line in refusalRow; free text stays out. Lists have
// it in rowJSON instead of sendJSON (schema Row) and in export.go. A resend inherits it from a column of Verification, as the reference.
// A field that an attempt finds begins in [Outcome], and is written by postgres/finish.go and sqlite/flight.go.
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

// What a caller can tell apart. Every other failure of the log wraps ErrUnavailable.
var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("store: not found")
	// ErrUnavailable: the log did not answer, or answered that it can't serve now.
	ErrUnavailable = errors.New("store: log is unavailable")
	// ErrUncertain goes with ErrUnavailable when a write may have been committed all the same. Only without it may
	// the place in the quota be given back. Begin may be repeated with the same Send.ID to find out.
	ErrUncertain = errors.New("store: outcome of the write is not known")
	// ErrBadRequest: what was asked for is a mistake of the calling code; nothing was written.
	ErrBadRequest = errors.New("store: bad request")
)

// CallTimeout bounds a call to the log, and what goes on of one whose client hung up.
const CallTimeout = 5 * time.Second

// Outbox decides and writes sends, and holds them until they have ended.
type Outbox interface {
	// Begin decides and writes one send. A refusal, by the rules or by the bounds on failed checks, is a value and writes nothing. With an
	// error, nothing was written unless the error is ErrUncertain. Repeated with the same Send.ID it returns the row as the first call
	// wrote it, and writes no second one.
	Begin(ctx context.Context, intent Intent) (Begun, error)
	// Renew extends the leases of the rows in Sending whose attempt still holds.
	Renew(ctx context.Context, lease time.Duration, held []Held) error
	// Finish ends a send; false: another attempt holds it, or it ended before, and nothing was changed.
	Finish(ctx context.Context, outcome Outcome) (bool, error)
	// Postpone puts a send back to Queued until its time; false as for Finish.
	Postpone(ctx context.Context, p Postponement) (bool, error)
	// TakeOver starts the next attempt of up to limit rows of a channel that are due or whose lease ran out, the longest
	// overdue first. A row whose lease ran out is in doubt from then on.
	TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, limit int) ([]Work, error)
	// RefundsDue leases up to limit refunds that are not confirmed for a lease's time, counted from Finish or from
	// the last time that they were leased, the oldest first.
	RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]Refund, error)
	// Refunded confirms a refund.
	Refunded(ctx context.Context, held Held) error
}

// IdempotencyKeys hold what requests with an Idempotency-Key came to.
type IdempotencyKeys interface {
	// Claim takes an idempotency key, once for all requests that share it while it lives; see the type Claim. A claim that was held for
	// longer than its lease without a send goes to the next request.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Release gives up a claim that led to no send, so that the next request can take it at once. With forget the claim is deleted, and
	// the key can also be used for a different request. A claim of another send than id stays as it is.
	Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
}

// Verifications are checked and canceled.
type Verifications interface {
	// Verification reads one with its newest send, and the log's clock.
	Verification(ctx context.Context, id string) (Verification, Send, time.Time, error)
	// Attempt counts one try before anything is compared. False: no try was left, it is not pending (any more), or its
	// recipient is at the bound on failed checks; in the last case alone it is returned still pending. The verification
	// is returned as it is afterwards, with the log's clock.
	Attempt(ctx context.Context, id string) (Verification, bool, time.Time, error)
	// LockedOut returns for how long the bounds on failed checks refuse tries at the codes of v's recipient that the same kind of caller
	// opened.
	LockedOut(ctx context.Context, v Verification) (Lockout, error)
	// Approve approves a verification that is neither approved, canceled nor expired, whatever its tries: the try that
	// was compared is counted already. False: another check did, or it ended. With it the event of tell is written, if any.
	Approve(ctx context.Context, id string, tell NewEvent) (bool, error)
	// Cancel cancels a verification that is neither approved, canceled nor expired. False: it had ended, or there is none.
	Cancel(ctx context.Context, id string) (bool, error)
	// Redeem records that the proof of an approved verification was redeemed, with the hash of the request's Idempotency-Key, or nil.
	// False: it was redeemed before, it is not approved, or there is none.
	Redeem(ctx context.Context, id string, by []byte) (bool, error)
	// NewestPending is the newest pending verification that a holder has for a recipient, or ErrNotFound.
	NewestPending(ctx context.Context, h HolderQuery) (Verification, error)
}

// Refusals are sends that did not begin.
type Refusals interface {
	// Refused records refusals; a refusal whose ID exists already is added to that row: Count grows, RetryAfter is
	// renewed, and of Recipients the larger stays. A row that was a send is never touched.
	Refused(ctx context.Context, refusals []Send) error
}

// Search reads sends and refusals, for people.
type Search interface {
	// Sends lists rows, newest first, by LoggedAt and then ID.
	Sends(ctx context.Context, filter Filter) ([]Send, error)
	// SendsByID reads up to 1,000 rows, in no order. Unknown IDs are left out.
	SendsByID(ctx context.Context, ids []uuid.UUID) ([]Send, error)
	// CodesOf reads up to 1,000 verifications by their IDs, in no order, and the log's clock. Unknown IDs are left out.
	CodesOf(ctx context.Context, ids []string) ([]Verification, time.Time, error)
	// Latest reads the newest row of each of up to 5,000 recipients, of those within so long, newest first.
	Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]Send, error)
	// Story reads one row with what belongs to it.
	Story(ctx context.Context, id uuid.UUID) (Story, error)
	// SendsBySupportReference reads the rows that a support reference means, by ID; none for a text that is no reference.
	SendsBySupportReference(ctx context.Context, support string) ([]Send, error)
	// HeavyRecipients returns the recipients with at least so many counting sends, those with the newest send first, and the number of
	// all such recipients.
	HeavyRecipients(ctx context.Context, q HeavyQuery) ([]HeavyRecipient, int, error)
}

// Counts tell a limiter what counts.
type Counts interface {
	// CountedSends calls yield for every counting send whose LoggedAt is less than within ago, oldest first by LoggedAt. An
	// error of yield ends it and is returned as it is.
	CountedSends(ctx context.Context, clock string, within time.Duration, yield func(CountedSend) error) error
	// History reads the counting sends of a bucket within the time given, oldest first, on the log's own clock, and that
	// clock. It decides nothing: between it and a Begin others may send.
	History(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	// HistoryAt is History as a Begin of that instant would see it: each event lies its age before the instant of the clock
	// named, where its row was taken on that clock, else its age on the log's. With LogClock the instant is the log's.
	HistoryAt(ctx context.Context, b Bucket, within time.Duration, clock string, at time.Time) ([]quota.Event, time.Time, error)
	// Rejected reads the rejected sends of a bucket's recipient, of every purpose, that ended within the time given, as
	// History reads its counting ones: ended at, oldest first.
	Rejected(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error)
	// AllRejected calls yield for every rejected send that ended less than within ago, oldest first, from its end. An error
	// of yield ends it and is returned as it is.
	AllRejected(ctx context.Context, within time.Duration, yield func(CountedSend) error) error
}

// SuppressionList has the addresses that get nothing.
type SuppressionList interface {
	// Suppress adds a suppression, which lasts from now. False: one of this ID is there already, also where it was lifted,
	// and is returned as it is. An act, if there is one, is written with it, or neither.
	Suppress(ctx context.Context, s Suppression, lasts time.Duration, act *AuditEntry) (Suppression, bool, error)
	// Suppressions lists them, newest first, by Since and then ID, with the log's clock.
	Suppressions(ctx context.Context, f SuppressionFilter) ([]Suppression, time.Time, error)
	// Lift ends all suppressions of an address that hold now, and returns them. The act, if there is one, is written in the same
	// transaction, also if there was none to end. Its detail is their number; its recipient, if it names none, is theirs.
	Lift(ctx context.Context, l LiftRequest, act *AuditEntry) ([]Suppression, error)
}

// ProviderEvents are reports of providers on sends that they accepted.
type ProviderEvents interface {
	// IngestProviderEvent records an event of a send that a provider accepted, and adds the suppression if suppress.For > 0, in one
	// transaction. It changes no status. False: the event was recorded before, and nothing was changed. Errors: ErrNotFound,
	// ErrUnavailable.
	IngestProviderEvent(ctx context.Context, e ProviderEvent, suppress SuppressAs) (bool, error)
}

// Budgets bound what text messages may cost.
type Budgets interface {
	// Spend makes all charges, or none if one of them passes its cap; then refusedBy is the account of that cap. Parallel calls never
	// pass a cap together. With an error, nothing was spent unless it is ErrUncertain.
	Spend(ctx context.Context, charges []Charge) (spent []Spent, refusedBy string, err error)
	// UndoCharges takes charges back that Spend made, in the period in which it did.
	UndoCharges(ctx context.Context, spent []Spent) error
}

// CarrierHolds keep messages from a recipient for a while.
type CarrierHolds interface {
	// AddCarrierHold keeps messages from a recipient for a while; a longer one that holds already stays.
	AddCarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error
	// CarrierHold returns how long the hold on a recipient still lasts.
	CarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash) (CarrierHold, error)
}

// Statistics count what there is in a stretch of time. Postgres keeps, of each hour that is over, what Stats and Domains count in it: a
// month of a busy service has too many rows to count while a page loads. SQLite, which has few, counts anew each time.
type Statistics interface {
	// Stats counts what there is in a stretch of time.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
	// Domains returns the mail domains with the most failed sends in that time, at most ten, the one with the most first.
	Domains(ctx context.Context, q StatsQuery) ([]DomainTally, error)
	// ApprovalsBy returns how many codes were sent and entered for each value of a dimension: at most 20 values, the one with the most
	// codes first.
	ApprovalsBy(ctx context.Context, q StatsQuery, by Dimension) ([]ApprovalTally, error)
	// CountHours counts ahead up to limit hours that are over and have no send under way, the newest first. It returns how many it
	// counted. Hours that began longer than keep ago are deleted. Several replicas may call it at once: one counts.
	CountHours(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Health tells whether the store can be written.
type Health interface {
	// Ping returns an error if the log cannot take a send now; it finds out by writing. After a Ping that succeeded, the outcome of each
	// earlier write to this process's SQLite is final: see commitUndone.
	Ping(ctx context.Context) error
	Close() error
}

// Store is all that a database does, feature by feature. A package that needs some of it declares what that is.
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

// New returns the store that a database is.
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
