package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

// Names of the statements of Begin's trips, which are prepared on each connection of the pool
// writers. A trip sends several statements and then reads all answers.
const (
	stmtBeginTransaction      = "sendcode_open"
	stmtLockRecipients        = "sendcode_lock"
	stmtSavepoint             = "sendcode_save"
	stmtRollBackToSavepoint   = "sendcode_unlock"
	stmtLockCandidates        = "sendcode_candidates"
	stmtGateCounted           = "sendcode_gate"
	stmtGateHolders           = "sendcode_gate_held"
	stmtGateCountedAndHolders = "sendcode_gate_both"
	stmtUpdateJoined          = "sendcode_join"
	stmtInsert                = "sendcode_insert"
	stmtCommit                = "sendcode_commit"
)

// updateJoinedSQL writes the number of sends of joined verifications.
const updateJoinedSQL = `
UPDATE verifications v SET sends = x.sends FROM unnest($1::text[], $2::int[]) AS x(id, sends)
WHERE v.id = ANY ($1::text[]) AND v.id = x.id`

// insertSQL returns the statement that writes the rows of admitted sends, and of the verifications
// that they open. One statement serves three tables, since each statement starts an executor in the server.
func insertSQL() string {
	opened, next := sqldb.VerificationTable.InsertManySQL(store.InsertedByBegin, 7)
	logged, _ := sqldb.SendTable.InsertManySQL(store.InsertedByBegin, next)
	return `
WITH opened AS (` + opened + `
), logged AS (` + logged + `
)
INSERT INTO outbox (id, due_at, attempt, queued, channel, stranger, expires_at, sealed)
SELECT unnest($1::uuid[]), unnest($2::timestamptz[]), 1, false, unnest($3::text[]), unnest($4::boolean[]),
       unnest($5::timestamptz[]), unnest($6::bytea[])`
}

// beginTimeout bounds a Begin, including its retries. It is less than store.CallTimeout, so that
// callers still wait for the answer.
func beginTimeout() time.Duration { return store.CallTimeout * 4 / 5 }

// beginStatements are the statements of Begin.
func (p *DB) beginStatements() []statement {
	return []statement{
		// The isolation level is explicit, since the server's default may be REPEATABLE READ: its
		// snapshot would be older than the lock.
		{stmtBeginTransaction, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{stmtLockRecipients, "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key"},
		{stmtSavepoint, "SAVEPOINT candidates"},
		{stmtRollBackToSavepoint, "ROLLBACK TO SAVEPOINT candidates"},
		{stmtLockCandidates, p.replaceNow(lockCandidatesSQL)},
		{stmtGateCounted, p.replaceNow(gateSQL(countedSendsSQL))},
		{stmtGateHolders, p.replaceNow(gateSQL(sendsOfHoldersSQL))},
		{stmtGateCountedAndHolders, p.replaceNow(gateSQL(countedSendsSQL, sendsOfHoldersSQL))},
		{stmtUpdateJoined, updateJoinedSQL},
		{stmtInsert, insertSQL()},
		{stmtCommit, "COMMIT"},
	}
}

// Begin implements sqldb.PerDatabase.
func (p *DB) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	in, err := store.ValidatedIntent(intent)
	if err != nil {
		return store.BeginAnswer{}, err
	}
	ctx, cancel := store.Bounded(ctx)
	defer cancel()
	return p.begins.Submit(ctx, in, store.RecipientLockKey(in.Send))
}

// beginBatch makes the round trip of a batch of Begins within beginTimeout. Every call gets an
// answer or an error.
func (p *DB) beginBatch(batch []*beginCall) {
	ctx, cancel := context.WithTimeout(batch[0].RoundTripContext(), beginTimeout())
	defer cancel()
	runByHalves(ctx, false, batch, p.beginTogether)
}

// beginTogether makes the round trip of a batch. A Begin can be repeated even if the first transaction
// was committed: the second one finds the rows by their IDs. It waits for the recipients' locks if the
// first one still runs.
func (p *DB) beginTogether(ctx context.Context, brief bool, batch []*beginCall) error {
	var answers []beginAnswer
	err := p.withRetry(ctx, brief, true, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		batch, answers, notCommitted, err = p.beginOnConn(ctx, conn, batch)
		return notCommitted, err
	})
	if err != nil {
		return err
	}
	var repeated []*beginCall
	for i, x := range batch {
		if answers[i].repeated {
			repeated = append(repeated, x)
		} else {
			x.SetAnswer(x.Answer, answers[i].err)
		}
	}
	p.answerRepeated(ctx, repeated)
	return nil
}

// withRetry runs a transaction. It runs it once more if the connection was lost, the server is
// read-only, or a deadlock or a conflict rolled it back. If the first run may have been committed,
// it does so only if repeatable is set. brief is as in together. The error wraps fault.Uncertain if rows
// may have been written.
func (p *DB) withRetry(ctx context.Context, brief, repeatable bool,
	transaction func(*pgxpool.Conn) (notCommitted bool, err error),
) error {
	notCommitted, err := p.runOnWriter(ctx, brief, transaction)
	if err == nil || ctx.Err() != nil || !notCommitted && !repeatable ||
		!isConnectionLost(err) && !isServerReadOnly(err) && !strings.HasPrefix(sqlState(err), "40") {
		return uncertainUnlessNotCommitted(notCommitted, err)
	}
	if isConnectionLost(err) {
		p.writers.Reset()
	}
	again, second := p.runOnWriter(ctx, brief, transaction)
	if second == nil {
		return nil
	}
	return uncertainUnlessNotCommitted(notCommitted && again, errors.Join(err, second))
}

// uncertainUnlessNotCommitted wraps the error of a write in fault.Unavailable, and also in
// fault.Uncertain unless the write was certainly not committed.
func uncertainUnlessNotCommitted(notCommitted bool, err error) error {
	if err == nil || notCommitted {
		return store.WrapUnavailable(withCause(err))
	}
	return store.WrapUncertain(withCause(err))
}

// answerRepeated answers Begins whose sends have rows already.
func (p *DB) answerRepeated(ctx context.Context, calls []*beginCall) {
	if len(calls) == 0 {
		return
	}
	err := p.awaitStandby(ctx, calls[0].In.Send.ID)
	for _, x := range calls {
		if err == nil {
			x.SetAnswer(p.readRepeated(ctx, x.In))
		} else {
			x.SetAnswer(store.BeginAnswer{}, store.WrapUncertain(withCause(err)))
		}
	}
}

// awaitStandby waits until a synchronous standby, if there is one, has all that was seen committed. If a server or a
// client breaks a COMMIT off that waits for the standby, its rows are there, but perhaps only here. What only reads
// waits for nothing. The lock is a write, and its COMMIT waits for all before it in the log.
func (p *DB) awaitStandby(ctx context.Context, send uuid.UUID) error {
	_, err := p.pool.Exec(ctx, "SELECT FROM sends WHERE id = $1 FOR KEY SHARE", send)
	return err
}

// readRepeated returns the answer to a Begin whose send has a row already; see
// rowrules.RepeatedAnswer.
func (p *DB) readRepeated(ctx context.Context, in store.Intent) (_ store.BeginAnswer, err error) {
	defer panics.Recover(panics.Batch, func() { err = store.WrapUncertain(panics.Err) })
	story, err := p.SendDetails(ctx, in.Send.ID)
	if err != nil {
		return store.BeginAnswer{}, store.WrapUncertain(withCause(err))
	}
	var v store.Verification
	if story.Verification != nil {
		v = *story.Verification
	}
	return rowrules.RepeatedAnswer(in, story.Send.Send, v)
}

// refusalsPerInsert is how many refusals one statement writes.
const refusalsPerInsert = 1000

// RecordRefusals implements sqldb.PerDatabase.
func (p *DB) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	rows := store.MergeRefusals(refusals)
	if len(rows) == 0 {
		return nil
	}
	return p.Write(ctx, "RecordRefusals", sqldb.InOrder, func(q sqldb.Tx) error {
		if err := q.MaskErased(rows); err != nil {
			return err
		}
		var list []*store.SendOrRefusal
		for i := range rows {
			rows[i].SetRefusedAt(q.Now)
			list = append(list, &rows[i])
		}
		for some := range slices.Chunk(list, refusalsPerInsert) {
			if _, err := q.Conn.(pgConn).Exec(ctx, insertRefusalsSQL+sqldb.OnConflictAddRefusalSQL,
				sqldb.RefusalTable.InsertManyArgs(store.InsertedByRefusal, some)...); err != nil {
				return err
			}
		}
		return nil
	})
}

var insertRefusalsSQL, _ = sqldb.RefusalTable.InsertManySQL(store.InsertedByRefusal, 1)
