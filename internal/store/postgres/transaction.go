package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
)

// This file has the transactions of Begin, Check and the claims of Idempotency-Keys. These
// transactions use connections of the pool DB.writers. Each round trip sends several prepared
// statements and then reads all answers.

const (
	// The isolation level is explicit, since the server's default may be REPEATABLE READ. With that
	// level, a transaction that waited for a lock would read from a snapshot older than the lock.
	// It would not see what the previous holder of the lock wrote.
	beginTransactionSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"
	commitSQL           = "COMMIT"
)

// transactionStatements are the statements that open and end a transaction.
var transactionStatements = []string{beginTransactionSQL, waitBrieflySQL, commitSQL}

// withRetry runs a transaction. It runs the transaction a second time if the connection was lost,
// if the server is read-only, or if a deadlock or a conflict rolled the transaction back. If the
// first run may have been committed, withRetry runs the second only if repeatable is true. If rows
// may have been written, the error wraps fault.Uncertain.
func (db *DB) withRetry(ctx context.Context, repeatable bool,
	transaction func(*pgxpool.Conn) (notCommitted bool, err error),
) error {
	notCommitted, err := db.runOnWriter(ctx, transaction)
	if err == nil || ctx.Err() != nil || !notCommitted && !repeatable ||
		!isConnectionLost(err) && !isServerReadOnly(err) && !strings.HasPrefix(sqlState(err), "40") {
		return uncertainUnlessNotCommitted(notCommitted, err)
	}
	if isConnectionLost(err) {
		db.writers.Reset()
	}
	notCommittedAgain, second := db.runOnWriter(ctx, transaction)
	if second == nil {
		return nil
	}
	return uncertainUnlessNotCommitted(notCommitted && notCommittedAgain, errors.Join(err, second))
}

// uncertainUnlessNotCommitted wraps the error of a write in fault.Unavailable, and also in
// fault.Uncertain unless the write was certainly not committed.
func uncertainUnlessNotCommitted(notCommitted bool, err error) error {
	if err == nil || notCommitted {
		return store.WrapUnavailable(withCause(err))
	}
	return store.WrapUncertain(withCause(err))
}

// runOnWriter runs a transaction on a connection of the pool DB.writers. If err is not nil and
// notCommitted is true, nothing was committed.
func (db *DB) runOnWriter(ctx context.Context,
	transaction func(*pgxpool.Conn) (notCommitted bool, err error),
) (notCommitted bool, err error) {
	// Nothing is committed before runAndCommit, and runAndCommit recovers from its own panics. So
	// after a panic here, nothing was committed. The error is one of the store's own errors, so
	// that withRetry does not repeat the transaction.
	defer panics.Recover(panics.Batch, func() { notCommitted, err = true, store.WrapUnavailable(panics.Err) })
	conn, err := db.writers.Acquire(ctx)
	if err != nil {
		db.forgetSuccess()
		return true, err
	}
	defer conn.Release() // closes the connection if its transaction is still open
	if notCommitted, err = transaction(conn); err != nil {
		db.forgetSuccess()
	}
	if conn.Conn().PgConn().TxStatus() == 'E' { // so that the connection can be used again
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	if isServerReadOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	return notCommitted, err
}

// forgetSuccess records that a transaction of the pool DB.writers failed. After that,
// LastSendCommit returns nil until a send is committed, and the next Ping checks whether the disk
// has free space.
func (db *DB) forgetSuccess() {
	db.committed.Store(nil)
	db.roomy.Store(false)
}

// runAndCommit sends the queued statements and a COMMIT. The function read reads the results of the
// statements. If err is not nil and notCommitted is true, nothing was committed.
func (db *DB) runAndCommit(ctx context.Context, conn *pgxpool.Conn, queued *pgx.Batch,
	read func(pgx.BatchResults) error,
) (notCommitted bool, err error) {
	n := queued.Len()
	db.queue(queued, commitSQL)
	defer panics.Recover(panics.Batch, func() {
		notCommitted, err = false, store.WrapUnavailable(panics.Err)
		_ = conn.Conn().Close(ctx)
	})
	results := conn.SendBatch(ctx, queued)
	defer results.Close()
	// The server answers the statements in order. If a statement before the COMMIT fails, nothing
	// was committed. If the connection ends without an answer, the COMMIT may have taken effect,
	// because it was already sent.
	if err := read(results); err != nil {
		_, failed := errors.AsType[*pgconn.PgError](err)
		return failed || pgconn.SafeToRetry(err), err // SafeToRetry: nothing was sent
	}
	tag, err := results.Exec()
	switch {
	case err != nil:
		// Only an ERROR means that the transaction was rolled back; a FATAL may come after a
		// commit.
		return n == 0 || isRolledBack(err) || pgconn.SafeToRetry(err), err
	case tag.String() != "COMMIT":
		return tag.String() == "ROLLBACK", errors.New("store: the server did not commit the transaction: " + tag.String())
	}
	return false, nil
}

// open returns the batch for a round trip. The first statement of the batch begins a transaction.
// If brief is true, the statements of the transaction wait only briefly for locks.
func (db *DB) open(brief bool) *pgx.Batch {
	var trip pgx.Batch
	db.queue(&trip, beginTransactionSQL)
	if brief {
		db.queue(&trip, waitBrieflySQL)
	}
	return &trip
}

// execAll reads the results of n statements that return nothing.
func execAll(results pgx.BatchResults, n int) error {
	for range n {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}
