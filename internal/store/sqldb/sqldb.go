// Package sqldb has the store's methods, and the statements that Postgres and SQLite share. Where
// their texts differ, a dialectSQL has both. The methods of each send and check, and some of
// maintenance, are PerDatabase's, in the packages postgres and sqlite. See
// docs/decisions/0007-storage.md.
package sqldb

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlgen"
)

// Precedence orders waiting writes in SQLite, which has one writer. Postgres ignores it.
type Precedence int

const (
	// Ahead is for outcomes of attempts: if the process dies before it writes one, the attempt is
	// repeated, and the message perhaps sent twice.
	Ahead Precedence = iota - 1
	InOrder
	// Behind is for writes that no request waits for. Such a write should hold SQLite's only writer
	// for less than maxHeld (retention.go).
	Behind
)

// DB is the store, embedded in postgres.DB and sqlite.DB.
type DB struct {
	Dialect dialect
	Engine
	PerDatabase
	Actions *slog.Logger // gets a line for each committed audit entry; may be nil
	// In Postgres, LongReads has room for one entry, so that only one of the reads that may take a
	// minute runs at a time, and the other connections stay free.
	LongReads chan struct{}
	observer  Observer // may be nil
}

// CommitTiming is when the last send was committed, and how long that took.
type CommitTiming struct {
	At   time.Time     // on this process's clock
	Took time.Duration // the length of the round trip that wrote and committed
}

// Store returns db, which is the same type for both databases.
func (db *DB) Store() *DB { return db }

// Engine runs statements in one database. Its errors are those of package store.
type Engine interface {
	// Read runs f, which must only read, outside of a transaction, perhaps twice. Here and below,
	// name is the store's method, for an Observer.
	Read(ctx context.Context, name string, f func(q Tx) error) error
	// Write runs f once in a transaction (Postgres: READ COMMITTED), and rolls back if f fails.
	Write(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error
	// Run runs the steps in one transaction, in Postgres in one round trip, and sets their
	// RowsAffected.
	Run(ctx context.Context, name string, precedence Precedence, steps ...*Statement) error
	// ReadHistory reads counted and rejected sends, without a lock.
	ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error)
	// Verification also returns the newest send, and the time on the database's clock. Error:
	// fault.NotFound.
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	// VerificationRow is Verification without the send, which costs less.
	VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error)
	// ReadShared runs a short read for which a request waits. In Postgres such reads share round
	// trips.
	ReadShared(ctx context.Context, name string, s *Statement) error
	SendsQuery(f SendFilter) (string, Args)
	// DropPartition drops the oldest partition if all its rows were logged before
	// store.RetentionCutoff of age and more than 32 days ago, and no send in it is in flight or has
	// a refund due. It returns the partition's name, or "" if it dropped none.
	DropPartition(ctx context.Context, age time.Duration) (name string, err error)
	// BeforeErase runs in the transaction of Erase, before anything is erased. It takes the
	// recipient's sends out of the hourly counts by domain and country, or makes CountHours count
	// those hours again.
	BeforeErase(q Tx, h recipient.Hash) error
	// DeleteCountsOfHour deletes the stored counts of the hour of at, in the transaction that
	// changes a row of that hour. CountHours counts it again.
	DeleteCountsOfHour(q Tx, at time.Time) error
	// PurgeDeleted removes what a committed deletion left on the disk. The deletion stays committed
	// if that fails.
	PurgeDeleted(ctx context.Context) error
	// LastSendCommit returns the timing of the last commit of a send. It returns nil if no send was
	// committed, or if a transaction of Begin, Check or an Idempotency-Key's claim has failed
	// since; in SQLite always.
	LastSendCommit() *CommitTiming
	Pools() []store.PoolStats
	Close() error
}

// PerDatabase has the methods of each send and check, and of maintenance, whose statements differ.
type PerDatabase interface {
	// Begin decides and writes one send. A refusal by a rule or by the limits on failed checks is
	// an answer, not an error, and nothing is written, as after any error but fault.Uncertain. A
	// repeated call with the same Send.ID writes no second row, and returns the row as first
	// written.
	Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error)
	// ClaimIdempotencyKey answers IdempotencyClaimBusy as long as another request holds the claim
	// (see store.IdempotencyClaim). If its lease has ended without a send, the next request with
	// the same fingerprint gets it.
	ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error)
	// ReleaseIdempotencyKey ends the lease of a claim that led to no send, so that the next request
	// gets it at once. With forget it deletes the claim, so that another request can use the key
	// too. It changes nothing if id isn't the claim's SendID.
	ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	// RecordRefusals merges a refusal into a row with its ID: Count is added, RetryAfter replaced,
	// and the larger Recipients kept. If the recipient was erased after the refusal, it is stored
	// as SendOrRefusal.Mask leaves it.
	RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error
	// Check counts a check and, if c.Judge finds the code right, approves the verification, in one
	// transaction that is committed when Check returns. Of several right checks at once, one
	// approves. After fault.NotFound and errors of c.Judge, nothing was written.
	Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error)
	// RenewLeases makes the leases of held end after lease, counted from now. It skips rows that
	// aren't Sending, or whose current attempt is another.
	RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error
	// Finish returns false if another attempt has the lease of the send, or if the send has ended.
	Finish(ctx context.Context, outcome store.Outcome) (bool, error)
	// Postpone sets a send back to Queued, due after p.After. It returns false as Finish does.
	Postpone(ctx context.Context, p store.Postponement) (bool, error)
	// TakeOver starts the next attempt of at most limit rows of q that are due or whose lease has
	// ended, those first whose codes expire first. Beyond 10,000 such rows, Postgres chooses among
	// the longest overdue 10,000. A row whose lease ended is InDoubt from then on.
	TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	// TakeOverWithExpiredCode takes only rows whose code has expired.
	TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	// LeaseDueRefunds returns at most limit due refunds, oldest first. A refund is due if the
	// limiter hasn't confirmed it, and lease has passed since Finish and since the last call that
	// returned it.
	LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error)
	// ConfirmRefund records that the limiter has made the refund.
	ConfirmRefund(ctx context.Context, held store.AttemptID) error
	// EndAppEventAttempt returns false if another attempt holds the event, or if the event has
	// ended.
	EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error)
	// CountHours stores the counts of at most limit past hours that have none, newest first, and
	// returns how many. An hour can be counted when none of its sends is in flight and all its
	// codes have ended; life is a code's longest. It also deletes counts older than keep, or than
	// 62 days if that's less. If replicas call it at once, one counts.
	CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error)
	// EnsurePartitions creates what is missing for this week and the next four, and returns the end
	// of the last; zero if the database needs none. Replicas may call it at once.
	EnsurePartitions(ctx context.Context) (until time.Time, err error)
	// Ping fails if the database can't store a send now: it writes a little. In SQLite, after a
	// success no earlier write that failed with fault.Uncertain can take effect; see commitUndone
	// in package sqlite.
	Ping(ctx context.Context) error
}

// Conn runs a statement. Run calls each, if it isn't nil, for every row, and returns how many rows
// were changed or read.
type Conn interface {
	Run(statement string, args Args, each func(Scan) error) (rows int64, err error)
}

type Scan = func(dest ...any) error

// Tx runs the statements of a read or a transaction.
type Tx struct {
	Conn
	Dialect dialect
	// The database's time at the start of the transaction. In a Read with Postgres it is zero; see
	// Clock.
	Now     time.Time
	audited *[]store.AuditEntry // collects the entries that the transaction wrote; may be nil
}

// Statement is an SQL statement that needs no results of earlier ones, so that several can share a
// round trip.
type Statement struct {
	SQL          string
	Args         Args
	Each         func(Scan) error // nil: rows aren't read
	Restart      func()           // called before ReadShared reads the rows; may be nil
	RowsAffected int64            // changed or returned
}

// runOne runs the statement in a separate transaction, and reports whether it changed a row.
func (db *DB) runOne(ctx context.Context, name, statement string, args Args) (changed bool, err error) {
	s := Statement{SQL: statement, Args: args}
	err = db.Run(ctx, name, InOrder, &s)
	return s.RowsAffected > 0 && err == nil, err
}

func (t Tx) exec(statement string, args Args) error {
	_, err := t.Run(statement, args, nil)
	return err
}

// Change reports whether the statement changed a row.
func (t Tx) Change(statement string, args Args) (bool, error) {
	n, err := t.Run(statement, args, nil)
	return n > 0, err
}

// Clock returns Now, or the database's time if that's zero.
func (t Tx) Clock() (now time.Time, err error) {
	if !t.Now.IsZero() {
		return t.Now, nil
	}
	_, err = t.Run(`SELECT @now`, nil, func(read Scan) error { return read(sqlgen.ScannerFor(&now)) })
	return now, err
}

// readWithClock also returns the time on the database's clock, or zero if it fails.
func (db *DB) readWithClock(ctx context.Context, name string, read func(q Tx, now time.Time) error) (now time.Time, err error) {
	err = db.Read(ctx, name, func(q Tx) error {
		if now, err = q.Clock(); err != nil {
			return err
		}
		return read(q, now)
	})
	if err != nil {
		return time.Time{}, err
	}
	return now, nil
}

// AppendTo scans one row and appends it.
func AppendTo[T any](list *[]T, fields func(*T) []any) func(Scan) error {
	return func(read Scan) error {
		var x T
		if err := read(fields(&x)...); err != nil {
			return err
		}
		*list = append(*list, x)
		return nil
	}
}

func QueryAll[T any](q Tx, fields func(*T) []any, statement string, args Args) (rows []T, err error) {
	if _, err = q.Run(statement, args, AppendTo(&rows, fields)); err != nil {
		return nil, err
	}
	return rows, nil
}

// queryFirst returns the first row, or fault.NotFound if there is none.
func queryFirst[T any](q Tx, fields func(*T) []any, statement string, args Args) (x T, err error) {
	rows, err := QueryAll(q, fields, statement, args)
	if err != nil {
		return x, err
	}
	if len(rows) == 0 {
		return x, fault.NotFound
	}
	return rows[0], nil
}

func ReadWithResult[T any](ctx context.Context, db *DB, name string, f func(q Tx) (T, error)) (T, error) {
	return withResult(ctx, name, db.Read, f)
}

// readLong is ReadWithResult for statements that may take long. In Postgres it reads in a
// transaction, which is the scope of the longer timeout, and only one call reads at a time.
func readLong[T any](ctx context.Context, db *DB, name string, f func(q Tx) (T, error)) (none T, err error) {
	if db.Dialect == SQLite {
		return ReadWithResult(ctx, db, name, f)
	}
	select {
	case db.LongReads <- struct{}{}:
		defer func() { <-db.LongReads }()
	case <-ctx.Done():
		return none, store.WrapUnavailable(ctx.Err())
	}
	return WriteWithResult(ctx, db, name, func(q Tx) (none T, err error) {
		if err := q.ExecAll(nil, LongTimeoutSQL.Postgres); err != nil {
			return none, err
		}
		return f(q)
	})
}

// WriteWithResult returns the result of f, or the zero value if f or the commit fails.
func WriteWithResult[T any](ctx context.Context, db *DB, name string, f func(q Tx) (T, error)) (T, error) {
	return WriteWithPrecedence(ctx, db, name, InOrder, f)
}

func WriteWithPrecedence[T any](ctx context.Context, db *DB, name string, precedence Precedence, f func(q Tx) (T, error)) (T, error) {
	return withResult(ctx, name, func(ctx context.Context, name string, f func(q Tx) error) error {
		return db.writeWithPrecedence(ctx, name, precedence, f)
	}, f)
}

// withResult passes f to run, which is a Read or Write. If run fails, withResult returns the zero
// value.
func withResult[T any](ctx context.Context, name string, run func(context.Context, string, func(Tx) error) error,
	f func(q Tx) (T, error),
) (T, error) {
	var x, none T
	err := run(ctx, name, func(q Tx) (err error) {
		x, err = f(q)
		return err
	})
	if err != nil {
		return none, err
	}
	return x, nil
}

// ReadAll is QueryAll in a read of its own.
func ReadAll[T any](ctx context.Context, db *DB, name string, fields func(*T) []any, statement string, args Args) ([]T, error) {
	return ReadWithResult(ctx, db, name, func(q Tx) ([]T, error) { return QueryAll(q, fields, statement, args) })
}

// readAllShared is ReadAll through ReadShared.
func readAllShared[T any](ctx context.Context, db *DB, name string, fields func(*T) []any, statement string,
	args Args,
) (rows []T, err error) {
	s := Statement{SQL: statement, Args: args, Each: AppendTo(&rows, fields), Restart: func() { rows = nil }}
	if err = db.ReadShared(ctx, name, &s); err != nil {
		return nil, err
	}
	return rows, nil
}

// readFirst is queryFirst in a read of its own.
func readFirst[T any](ctx context.Context, db *DB, name string, fields func(*T) []any, statement string, args Args) (T, error) {
	return ReadWithResult(ctx, db, name, func(q Tx) (T, error) { return queryFirst(q, fields, statement, args) })
}

func OneColumn[T any](x *T) []any { return []any{x} }
