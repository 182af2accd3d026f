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

// This file has the transactions of Begin, Check and claims of Idempotency-Keys, which run on
// connections of DB.writers. Each round trip sends several prepared statements and then reads all
// answers.

const (
	// explicit, since the server's default may be REPEATABLE READ, with which a transaction that
	// waited for a lock reads from a snapshot older than the lock, and misses what the previous
	// holder of the lock wrote
	beginTransactionSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"
	commitSQL           = "COMMIT"
)

var transactionStatements = []string{beginTransactionSQL, waitBrieflySQL, commitSQL}

// withRetry runs a transaction again if the connection was lost, the server is read-only, or a
// deadlock or conflict rolled it back. A transaction that may have been committed runs again only
// with repeatable. If rows may have been written, the error wraps fault.Uncertain.
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

// uncertainUnlessNotCommitted wraps a write's error in fault.Unavailable and, unless the write was
// certainly not committed, in fault.Uncertain.
func uncertainUnlessNotCommitted(notCommitted bool, err error) error {
	if err == nil || notCommitted {
		return store.WrapUnavailable(withCause(err))
	}
	return store.WrapUncertain(withCause(err))
}

// runOnWriter uses a connection of DB.writers. If notCommitted, after an error, nothing was
// committed.
func (db *DB) runOnWriter(ctx context.Context,
	transaction func(*pgxpool.Conn) (notCommitted bool, err error),
) (notCommitted bool, err error) {
	// Nothing is committed before runAndCommit, which recovers from its own panics. So after a
	// panic here, nothing was committed. The error is a store's own, so that withRetry doesn't
	// repeat the transaction.
	defer panics.Recover(panics.Batch, func() { notCommitted, err = true, store.WrapUnavailable(panics.Err) })
	conn, err := db.writers.Acquire(ctx)
	if err != nil {
		db.noteFailure()
		return true, err
	}
	defer conn.Release() // closes it if its transaction is still open
	if notCommitted, err = transaction(conn); err != nil {
		db.noteFailure()
	}
	if conn.Conn().PgConn().TxStatus() == 'E' { // a statement failed; without a ROLLBACK, Release would close the connection
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	if isServerReadOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	return notCommitted, err
}

// noteFailure notes that a transaction of DB.writers failed: LastSendCommit is nil until a send
// is committed, and the next Ping checks the disk's free space.
func (db *DB) noteFailure() {
	db.committed.Store(nil)
	db.spaceChecked.Store(false)
}

// runAndCommit sends the queued statements and a COMMIT. `read` gets the statements' results. If
// notCommitted, after an error, nothing was committed.
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
	// The server answers in order: if a statement before the COMMIT fails, nothing was committed.
	// If the connection ends without an answer, the COMMIT, which was sent, may have taken effect.
	// The same holds if a FATAL comes in place of an answer: a pooler sends one if it lost the
	// server.
	if err := read(results); err != nil {
		return isRolledBack(err) || pgconn.SafeToRetry(err), err // SafeToRetry: nothing was sent
	}
	tag, err := results.Exec()
	switch {
	case err != nil:
		err = commitError(err)
		return n == 0 || isRolledBack(err) || pgconn.SafeToRetry(err), err
	case tag.String() != "COMMIT":
		return tag.String() == "ROLLBACK", errors.New("store: the server did not commit the transaction: " + tag.String())
	}
	return false, nil
}

// open returns a round trip that so far only begins a transaction. With brief, the transaction
// waits only briefly for locks.
func (db *DB) open(brief bool) *pgx.Batch {
	var trip pgx.Batch
	db.queue(&trip, beginTransactionSQL)
	if brief {
		db.queue(&trip, waitBrieflySQL)
	}
	return &trip
}

// execAll reads n results and discards their rows.
func execAll(results pgx.BatchResults, n int) error {
	for range n {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}
