// Package sqldb has the store's methods, and the statements that Postgres and SQLite share. If such
// a statement needs a different text in each database, it is a dialectSQL, which has both texts.
// The methods that run for each send and check are an exception: each database has its own, in the
// packages postgres and sqlite. See docs/decisions/0007-storage.md.
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

// Precedence orders the waiting writes in SQLite, which has one writer. Postgres ignores it.
type Precedence int

const (
	// Ahead is for the outcomes of attempts. They are written before all other waiting writes,
	// because an attempt is repeated if the process dies before it writes the outcome. Then the
	// message may be sent twice.
	Ahead Precedence = iota - 1
	// InOrder is for all other writes.
	InOrder
	// Behind is for writes that no request waits for. Such a write should hold SQLite's only writer
	// for less than maxHeld (retention.go).
	Behind
)

// DB is the store. Its own methods are the same in both databases; the methods of PerDatabase
// differ. postgres.DB and sqlite.DB embed DB.
type DB struct {
	Dialect dialect
	Engine
	PerDatabase
	Actions *slog.Logger // gets a line for each committed audit entry; nil: none
	// LongReads is used only with Postgres. It has room for one entry, so only one read that may
	// take a minute runs at a time. The other connections stay free for short reads.
	LongReads chan struct{}
	observer  Observer // nil: none
}

// CommitTiming tells when a send was committed, and how long that took.
type CommitTiming struct {
	At   time.Time     // on this process's clock
	Took time.Duration // the round trip that wrote and committed
}

// Store returns db. postgres.DB and sqlite.DB embed DB. Through Store, callers get the same type
// for both databases.
func (db *DB) Store() *DB { return db }

// Engine runs statements in one database. It returns the database's errors as errors of package
// store.
type Engine interface {
	// Read runs f outside of a transaction. The function f must only read, and Read may run f
	// twice. Here and below, the parameter name is the name of the store's method that makes the
	// call; an Observer gets it.
	Read(ctx context.Context, name string, f func(q Tx) error) error
	// Write runs f once in a transaction (in Postgres READ COMMITTED), and rolls back if f fails.
	Write(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error
	// Run runs the steps in one transaction, and sets RowsAffected of each step. In Postgres, Run
	// needs one round trip.
	Run(ctx context.Context, name string, precedence Precedence, steps ...*Statement) error
	// ReadHistory reads a recipient's counted and rejected sends, without a lock.
	ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error)
	// Verification returns a verification with its newest send, and the time on the database's
	// clock. Error: fault.NotFound.
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	// VerificationRow is Verification without the send, which costs less.
	VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error)
	// ReadShared runs a statement that only reads, for a send or a check that waits for the result.
	// In Postgres such reads share round trips.
	ReadShared(ctx context.Context, name string, s *Statement) error
	// SendsQuery returns the statement for a filter, and its arguments.
	SendsQuery(f SendFilter) (string, Args)
	// DropPartition drops the oldest partition if all its rows are older than age, and no send in
	// it is in flight or has a refund due. It returns the name of the dropped partition, or "" if
	// it dropped none.
	DropPartition(ctx context.Context, age time.Duration) (name string, err error)
	// BeforeErase runs in the transaction of Erase, before the transaction erases data. After the
	// erasure, the stored counts per hour must not include the recipient's sends. So BeforeErase
	// subtracts the sends from the counts, or makes CountHours count those hours again.
	BeforeErase(q Tx, h recipient.Hash) error
	// DeleteCountsOfHour deletes the stored counts of one hour, if there are any. The parameter at
	// is an instant in that hour. Call DeleteCountsOfHour in the transaction that changes a row of
	// that hour; CountHours counts the hour again.
	DeleteCountsOfHour(q Tx, at time.Time) error
	// PurgeDeleted removes the data that a committed deletion left on the disk. If PurgeDeleted
	// fails, the deletion stays committed.
	PurgeDeleted(ctx context.Context) error
	// LastSendCommit returns the timing of the last committed send. It returns nil if there is no
	// such send, or if a write of the process has failed since that commit. In SQLite, it always
	// returns nil.
	LastSendCommit() *CommitTiming
	// Pools returns the state of each pool of connections.
	Pools() []store.PoolStats
	Close() error
}

// PerDatabase has the methods that need different statements in each database. These are the
// methods of each send and check, and the methods for maintenance.
type PerDatabase interface {
	// Begin decides on one send and writes the send. If the rules or the limits on failed checks
	// refuse the send, Begin writes nothing. Then it returns an answer with the refusal, and no
	// error. If Begin returns an error other than fault.Uncertain, it wrote nothing. A repeated
	// call with the same Send.ID writes no second row, and returns the row as the first call wrote
	// it.
	Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error)
	// ClaimIdempotencyKey claims an idempotency key for a request; see the type
	// store.IdempotencyClaim. As long as another request holds the claim, the answer is
	// IdempotencyClaimBusy. If the lease of the claim has ended and there is no send, the next
	// request with the same fingerprint gets the claim.
	ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error)
	// ReleaseIdempotencyKey ends the lease of a claim that led to no send, so that the next request
	// can get the claim at once. If the parameter forget is true, ReleaseIdempotencyKey deletes the
	// claim, and a different request can use the key, too. If the parameter id is not the claim's
	// SendID, ReleaseIdempotencyKey changes nothing.
	ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error
	// RecordRefusals records refusals. A row may stand for several refusals. If a row with the
	// refusal's ID exists, the refusal is merged into it: Count is added, RetryAfter is replaced,
	// and the larger Recipients is kept. If the recipient was erased after the refusal, the refusal
	// is stored without the recipient's personal data (see SendOrRefusal.Mask).
	RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error
	// Check counts a check of a code. If c.Judge finds the code right, Check approves the
	// verification. Both happen in one transaction, which is committed when Check returns. If
	// several right checks come at once, exactly one check approves the verification. Check may
	// return fault.NotFound and the errors of c.Judge. After these errors, nothing was written.
	Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error)
	// RenewLeases renews the leases of the rows in held. Each lease then ends after the duration
	// lease, counted from now. RenewLeases skips rows that are not Sending, and rows whose current
	// attempt differs from the attempt in held.
	RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error
	// Finish writes the outcome of a send. If another attempt holds the send or the send has ended,
	// Finish changes nothing and returns false.
	Finish(ctx context.Context, outcome store.Outcome) (bool, error)
	// Postpone sets a send back to Queued. The next attempt is due after p.After. In the same cases
	// as Finish, Postpone changes nothing and returns false.
	Postpone(ctx context.Context, p store.Postponement) (bool, error)
	// TakeOver starts the next attempt of at most limit rows of the queue q. It takes rows that are
	// due, and rows whose lease has ended. The rows whose codes expire first come first. If more
	// than 10,000 rows can be taken, Postgres chooses among the 10,000 longest overdue. A row whose
	// lease ended is InDoubt from then on.
	TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	// TakeOverWithExpiredCode is TakeOver, but only for rows whose code has expired.
	TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error)
	// LeaseDueRefunds returns at most limit due refunds, oldest first, and leases them: during the
	// lease, no other call returns them. A refund is due when the limiter has not yet confirmed it,
	// and the duration lease has passed since Finish and since the last call that returned the
	// refund.
	LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error)
	// ConfirmRefund confirms that the limiter has made a refund.
	ConfirmRefund(ctx context.Context, held store.AttemptID) error
	// EndAppEventAttempt ends an attempt to deliver an event. If another attempt holds the event or
	// the event has ended, EndAppEventAttempt changes nothing and returns false.
	EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error)
	// CountHours stores the counts of past hours that have no counts yet, newest first. It counts
	// at most limit hours. An hour can be counted when none of its sends is in flight and all its
	// codes have ended. The parameter life is the longest life of a code. CountHours returns how
	// many hours it counted. It also deletes counts older than the duration keep. If keep is longer
	// than 62 days, CountHours uses 62 days. If several replicas call CountHours at once, one
	// replica counts.
	CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error)
	// EnsurePartitions creates the missing partitions of this week and the next four weeks. It
	// returns the end of the last partition. It returns the zero time if the database needs no
	// partitions. Several replicas may call it at once.
	EnsurePartitions(ctx context.Context) (until time.Time, err error)
	// Ping writes a little data. If the database cannot store a send now, Ping returns an error. If
	// Ping succeeds in SQLite, an earlier write that failed with fault.Uncertain can no longer take
	// effect; see commitUndone in package sqlite.
	Ping(ctx context.Context) error
}

// Conn runs a statement. If the function each is not nil, Run calls it for every row. Run returns
// how many rows were changed or read.
type Conn interface {
	Run(statement string, args Args, each func(Scan) error) (rows int64, err error)
}

// Scan reads the columns of a row.
type Scan = func(dest ...any) error

// Tx runs the statements of one read or of one transaction.
type Tx struct {
	Conn
	Dialect dialect
	// Now is the database's time at the start of the transaction. Outside of a transaction, that
	// is, in Engine.Read with Postgres, Now is zero, and Clock returns the time.
	Now     time.Time
	audited *[]store.AuditEntry // the entries that the transaction wrote; nil: they are not collected
}

// Statement is an SQL statement that does not need the results of earlier statements. So several
// statements can be sent in one round trip.
type Statement struct {
	SQL          string
	Args         Args
	Each         func(Scan) error // nil: rows are not read
	Restart      func()           // called before ReadShared reads the rows; nil: not called
	RowsAffected int64            // rows that it changed or returned
}

// runOne runs one statement in its own transaction, and reports whether it changed a row.
func (db *DB) runOne(ctx context.Context, name, statement string, args Args) (changed bool, err error) {
	s := Statement{SQL: statement, Args: args}
	err = db.Run(ctx, name, InOrder, &s)
	return s.RowsAffected > 0 && err == nil, err
}

// exec runs a statement and ignores how many rows it changed.
func (t Tx) exec(statement string, args Args) error {
	_, err := t.Run(statement, args, nil)
	return err
}

// Change runs a statement and reports whether it changed a row.
func (t Tx) Change(statement string, args Args) (bool, error) {
	n, err := t.Run(statement, args, nil)
	return n > 0, err
}

// Clock returns the time on the database's clock: Now if it is set, else the database's time.
func (t Tx) Clock() (now time.Time, err error) {
	if !t.Now.IsZero() {
		return t.Now, nil
	}
	_, err = t.Run(`SELECT @now`, nil, func(read Scan) error { return read(sqlgen.ScannerFor(&now)) })
	return now, err
}

// readWithClock calls Read with a function that needs the time on the database's clock. It also
// returns that time, or zero with an error.
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

// AppendTo returns a function that scans one row and appends it to list.
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

// QueryAll returns all rows of a statement.
func QueryAll[T any](q Tx, fields func(*T) []any, statement string, args Args) (rows []T, err error) {
	if _, err = q.Run(statement, args, AppendTo(&rows, fields)); err != nil {
		return nil, err
	}
	return rows, nil
}

// queryFirst returns the first row of a statement, or fault.NotFound.
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

// ReadWithResult is DB.Read for an f with a result; zero with an error.
func ReadWithResult[T any](ctx context.Context, db *DB, name string, f func(q Tx) (T, error)) (T, error) {
	return withResult(ctx, name, db.Read, f)
}

// readLong does the same as ReadWithResult, for a function f whose statements may take long. In
// Postgres, readLong uses a transaction, because only a transaction can have a longer timeout. In
// Postgres, only one call of readLong reads at a time.
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

// WriteWithResult calls DB.Write with a function f that has a result, and returns the result. If
// the transaction was not committed, it returns zero.
func WriteWithResult[T any](ctx context.Context, db *DB, name string, f func(q Tx) (T, error)) (T, error) {
	return WriteWithPrecedence(ctx, db, name, InOrder, f)
}

// WriteWithPrecedence is WriteWithResult with a precedence.
func WriteWithPrecedence[T any](ctx context.Context, db *DB, name string, precedence Precedence, f func(q Tx) (T, error)) (T, error) {
	return withResult(ctx, name, func(ctx context.Context, name string, f func(q Tx) error) error {
		return db.writeWithPrecedence(ctx, name, precedence, f)
	}, f)
}

// withResult passes f to run, which is Read or Write. It returns f's result, or zero with an error.
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

// OneColumn returns the destination for a row of one column.
func OneColumn[T any](x *T) []any { return []any{x} }
