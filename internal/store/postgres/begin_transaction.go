package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

// beginAnswer is the answer to one call of a batch.
type beginAnswer struct {
	*store.BeginAnswer       // points to the call's Answer, which is too large to copy
	joined             bool  // as in rowrules.Decision
	repeated           bool  // the send has a row already; nothing was decided
	err                error // error of only this call
}

// sortedLockKeys returns the lock keys of a batch. They are sorted, since two replicas that lock
// the same keys in different orders could deadlock.
func sortedLockKeys(batch []*beginCall) []int64 {
	list := columns.MapSlice(batch, func(x *beginCall) int64 { return x.Key })
	slices.Sort(list)
	return list
}

// lockRecipientsParameters returns the parameters of the statement that takes the locks.
func lockRecipientsParameters(batch []*beginCall) []any {
	p := columns.NewArrayParameters(sortedLockKeys(batch), 1)
	p.Add(columns.Bigint, columns.AppendBigint)
	return p.Args()
}

var (
	errClockJumps = errors.New("store: the database's clock keeps jumping")
	errNoClock    = errors.New("store: the database returned no time")
)

// maxClockTries is how often a batch reads at most, while the database's clock is outside the bounds
// that the read assumed.
const maxClockTries = 3

// runOnWriter runs a transaction on a connection of the pool writers. notCommitted means, with an
// error, that nothing was committed. brief is as in together.
func (p *DB) runOnWriter(ctx context.Context, brief bool,
	transaction func(*pgxpool.Conn) (notCommitted bool, err error),
) (notCommitted bool, err error) {
	// Until runAndCommit, which recovers itself, nothing is committed. The error is one of the store's, so
	// that withRetry does not repeat the transaction.
	defer panics.Recover(panics.Batch, func() { notCommitted, err = true, store.WrapUnavailable(panics.Err) })
	conn, err := p.writers.Acquire(ctx)
	if err != nil {
		p.forgetSuccess()
		return true, err
	}
	defer conn.Release() // closes the connection if its transaction is still open
	notCommitted = true
	err = briefly(brief, func(_ context.Context, conn *pgxpool.Conn) (err error) {
		notCommitted, err = transaction(conn)
		return err
	})(ctx, conn)
	if err != nil {
		p.forgetSuccess()
	}
	if isServerReadOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	return notCommitted, err
}

// forgetSuccess is called after a failed transaction of the pool writers: LastSendCommit returns nil
// until a send is committed, and the next Ping looks for room.
func (p *DB) forgetSuccess() {
	p.committed.Store(nil)
	p.roomy.Store(false)
}

// Begin takes two round trips to the server, in one transaction. The first locks the recipients and
// reads. Then package gate decides. The second writes and commits. If a send may join a
// verification that it does not name, a trip between them locks that verification and reads again.
// After a failure before the last trip, certainly nothing was written. A refusal writes nothing, so it is
// answered before the last trip.

// beginOnConn decides a batch in one transaction on a connection. It answers the calls that are refused,
// and returns the others with their answers. If the database's clock is not
// within the bounds that the read assumed, it rolls back and reads again; it reads maxClockTries times at most.
// notCommitted means, with an error, that nothing was committed.
func (p *DB) beginOnConn(ctx context.Context, conn *pgxpool.Conn, batch []*beginCall) (left []*beginCall, answers []beginAnswer,
	notCommitted bool, err error,
) {
	if len(batch) == 0 {
		return nil, nil, true, nil
	}
	for range maxClockTries {
		b := idBoundsOfBatch(batch, p.likelyNow())
		v, err := p.lockAndRead(ctx, conn, batch, b)
		if err != nil {
			return batch, nil, true, err
		}
		p.sawClock(v.now)
		if b.contains(v.now) {
			left, answers = v.decide(batch)
			began := time.Now()
			notCommitted, err = p.writeAndCommit(ctx, conn, answers)
			if err == nil && slices.ContainsFunc(answers, func(a beginAnswer) bool { return a.Admitted }) {
				p.committed.Store(&sqldb.CommitTiming{At: time.Now(), Took: time.Since(began)})
			}
			return left, answers, notCommitted, err
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return batch, nil, true, err
		}
	}
	return batch, nil, true, errClockJumps
}

// decide answers the calls that are refused, and returns the others with an answer to each: admitted,
// repeated, or store.ErrIDTimeDrift. It sets the calls' Answer.
func (v batchFacts) decide(batch []*beginCall) (left []*beginCall, answers []beginAnswer) {
	for i, x := range batch {
		x.Answer = store.BeginAnswer{} // an earlier transaction may have set it
		a := beginAnswer{BeginAnswer: &x.Answer, repeated: v.repeated[i]}
		if !a.repeated {
			a.err = store.CheckIDTimeDrift(x.In.Send.ID, v.now)
		}
		if !a.repeated && a.err == nil {
			d := rowrules.Decide(x.In, v.now, v.facts[i])
			if !d.Admitted {
				x.SetAnswer(d.BeginAnswer, nil)
				continue
			}
			x.Answer, a.joined = d.BeginAnswer, d.Joined
		}
		left, answers = append(left, x), append(answers, a)
	}
	return left, answers
}

// lockAndRead opens a transaction, locks the recipients and the verifications that calls name, and
// reads the facts for the gate. If holders have verifications that calls may join, a second trip
// locks all candidates in one order and reads the facts of these calls again: a check may have
// ended a verification, and locked out its recipient, before the lock was free.
func (p *DB) lockAndRead(ctx context.Context, conn *pgxpool.Conn, batch []*beginCall, b idBounds) (v batchFacts, err error) {
	named := listCandidates(batch, nil)
	mixed := len(named) > 0 && slices.ContainsFunc(batch, func(x *beginCall) bool { return x.In.HolderToJoin() != "" })
	var first, second pgx.Batch
	first.Queue(p.text[stmtBeginTransaction])
	first.Queue(p.text[stmtLockRecipients], lockRecipientsParameters(batch)...)
	if mixed {
		first.Queue(p.text[stmtSavepoint])
		second.Queue(p.text[stmtRollBackToSavepoint])
	}
	if v, err = p.readFacts(ctx, conn, &first, batch, named, b); err != nil {
		return v, err
	}
	all := listCandidates(batch, v.ofHolders)
	if len(all) == len(named) {
		return v, nil
	}
	var joining []*beginCall
	for n := range all {
		if n == 0 || all[n].beginCall != all[n-1].beginCall {
			joining = append(joining, all[n].beginCall)
		}
		all[n].i = len(joining) - 1
	}
	w, err := p.readFacts(ctx, conn, &second, joining, all, b)
	if err != nil {
		return v, err
	}
	if w.now.After(v.now) { // all rows that count now are among those of the first read
		v.now = w.now
	}
	for i, x := range joining {
		v.facts[slices.Index(batch, x)] = w.facts[i]
	}
	return v, nil
}

// readFacts takes a round trip: it runs the queued statements, which return nothing, locks the
// candidates and reads what the gate needs to decide the calls.
func (p *DB) readFacts(ctx context.Context, conn *pgxpool.Conn, queued *pgx.Batch, calls []*beginCall, list []joinCandidate,
	b idBounds,
) (v batchFacts, err error) {
	before := queued.Len()
	if len(list) > 0 {
		queued.Queue(p.text[stmtLockCandidates], candidateParameters(list)...)
	}
	queued.Queue(p.text[gateStatementName(calls)], gateParameters(calls, b)...)
	results := conn.SendBatch(ctx, queued)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range before {
		if _, err := results.Exec(); err != nil {
			return v, err
		}
	}
	locked := make([][]store.Verification, len(calls))
	if len(list) > 0 {
		rows, _ := results.Query()
		if err := readCandidates(rows, locked); err != nil {
			return v, err
		}
	}
	rows, _ := results.Query()
	v, err = readBatchFacts(rows, len(calls))
	for i := range v.facts {
		v.facts[i].Candidates = locked[i]
	}
	return v, err
}

// writeAndCommit writes the rows of the admitted sends and commits. notCommitted means, with an
// error, that nothing was committed.
func (p *DB) writeAndCommit(ctx context.Context, conn *pgxpool.Conn, answers []beginAnswer) (notCommitted bool, err error) {
	var queued pgx.Batch
	n := p.queueWrites(&queued, answers)
	return p.runAndCommit(ctx, conn, &queued, func(results pgx.BatchResults) error {
		for range n {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		return nil
	})
}

// runAndCommit sends the queued statements and a COMMIT; read reads the results of the statements.
// notCommitted means, with an error, that nothing was committed.
func (p *DB) runAndCommit(ctx context.Context, conn *pgxpool.Conn, queued *pgx.Batch,
	read func(pgx.BatchResults) error,
) (notCommitted bool, err error) {
	n := queued.Len()
	queued.Queue(p.text[stmtCommit])
	defer panics.Recover(panics.Batch, func() {
		notCommitted, err = false, store.WrapUnavailable(panics.Err)
		_ = conn.Conn().Close(ctx)
	})
	results := conn.SendBatch(ctx, queued)
	defer results.Close()
	// The server answers in order. If it reports an error before the COMMIT, nothing was committed.
	// If the connection ends without an answer, the COMMIT may have taken effect, since all
	// statements were already sent.
	if err := read(results); err != nil {
		return failedBeforeCommit(err), err
	}
	tag, err := results.Exec()
	switch {
	case err != nil:
		// Only an ERROR means that the transaction was rolled back; a FATAL may come after a
		// commit.
		return n == 0 || isRolledBack(err) || pgconn.SafeToRetry(err), err
	case tag.String() != "COMMIT":
		return tag.String() == "ROLLBACK", errors.New("store: transaction was not committed as asked: " + tag.String())
	}
	return false, nil
}

// queueWrites queues the statements that write the rows of all admitted sends, and returns how many
// statements these are.
func (p *DB) queueWrites(queued *pgx.Batch, answers []beginAnswer) int {
	var sends []*store.Send
	var admitted []*beginAnswer
	var fresh, joined []*store.Verification
	for i := range answers {
		a := &answers[i]
		switch {
		case !a.Admitted:
			continue
		case a.joined:
			joined = append(joined, &a.Verification)
		default:
			fresh = append(fresh, &a.Verification)
		}
		sends, admitted = append(sends, &a.Send), append(admitted, a)
	}
	if len(joined) > 0 {
		queued.Queue(p.text[stmtUpdateJoined], updateJoinedParameters(joined)...)
	}
	if len(sends) > 0 {
		queued.Queue(p.text[stmtInsert], insertParameters(admitted, fresh, sends)...)
	}
	return queued.Len()
}

// updateJoinedParameters returns the parameters of updateJoinedSQL.
func updateJoinedParameters(joined []*store.Verification) []any {
	p := columns.NewArrayParameters(joined, 2)
	p.Add(columns.Text, func(buf []byte, v *store.Verification) []byte { return append(buf, v.ID...) })
	p.Add(columns.Integer, func(buf []byte, v *store.Verification) []byte { return columns.AppendInteger(buf, v.Sends) })
	return p.Args()
}

// insertParameters returns the parameters of insertSQL.
func insertParameters(admitted []*beginAnswer, fresh []*store.Verification, sends []*store.Send) []any {
	return slices.Concat(outboxParameters(admitted), sqldb.VerificationTable.InsertManyArgs(store.InsertedByBegin, fresh),
		sqldb.SendTable.InsertManyArgs(store.InsertedByBegin, sends))
}

// outboxParameters returns the first six parameters of insertSQL: arrays with one element for each
// admitted send.
func outboxParameters(admitted []*beginAnswer) []any {
	p := columns.NewArrayParameters(admitted, 6)
	p.Add(columns.UUID, func(buf []byte, a *beginAnswer) []byte { return append(buf, a.Send.ID[:]...) })
	p.Add(columns.Instant, func(buf []byte, a *beginAnswer) []byte { return columns.AppendInstant(buf, a.Send.DueAt) })
	p.Add(columns.Text, func(buf []byte, a *beginAnswer) []byte { return append(buf, a.Send.Channel...) })
	p.Add(columns.Boolean, func(buf []byte, a *beginAnswer) []byte {
		return columns.AppendBoolean(buf, a.Verification.Class.IsStranger())
	})
	p.Add(columns.Instant, func(buf []byte, a *beginAnswer) []byte { return columns.AppendInstant(buf, a.Verification.ExpiresAt) })
	p.Add(columns.Bytes, func(buf []byte, a *beginAnswer) []byte {
		if a.Code == nil {
			return nil // NULL
		}
		return append(buf, a.Code...)
	})
	return p.Args()
}

// failedBeforeCommit reports whether the error of a statement before the COMMIT shows that nothing
// was committed: the server returned it, or nothing was sent.
func failedBeforeCommit(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok || pgconn.SafeToRetry(err)
}
