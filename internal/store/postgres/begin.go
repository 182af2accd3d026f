package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// A batch of Begins is one transaction, usually of two round trips:
//
//   - lockAndRead locks the recipients in a statement of its own, then reads what the decision
//     needs. Under READ COMMITTED, later statements have a snapshot younger than the locks, so they
//     see all commits of earlier owners. The read also locks the verifications that Intent.Join
//     names. If other sends may join open verifications of their holders, a further trip locks
//     these and reads again.
//   - decide calls package rowrules. A refused call writes nothing, so it is answered at once.
//   - write writes the admitted sends' rows and commits.
//
// If the batch fails before the last round trip, nothing was written.

const (
	savepointSQL           = "SAVEPOINT candidates"
	rollBackToSavepointSQL = "ROLLBACK TO SAVEPOINT candidates"
)

var (
	lockKeys          = sqlgen.NewList("locked", int64(0), func(key int64, to *sqlgen.Row) { to.Bigint("key", key) })
	lockRecipientsSQL = "SELECT pg_advisory_xact_lock(key) FROM " + lockKeys.SQL()
)

var beginStatements = []string{
	lockRecipientsSQL, savepointSQL, rollBackToSavepointSQL, lockCandidatesSQL, gateCountedSQL, gateHoldersSQL,
	gateCountedAndHoldersSQL, updateJoinedSQL, insertSQL,
}

// beginTimeout bounds a Begin with its retries. It is less than store.CallTimeout, so that callers
// still wait when the answer comes.
func beginTimeout() time.Duration { return store.CallTimeout * 4 / 5 }

// Begin implements sqldb.PerDatabase.
func (db *DB) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	defer db.Observe(&ctx, "begin", "begin")()
	in, err := store.ValidatedIntent(intent)
	if err != nil {
		return store.BeginAnswer{}, err
	}
	return db.begins.Submit(ctx, in, store.RecipientLockKey(in.Send))
}

// beginBatch gives every call an answer or an error, within beginTimeout.
func (db *DB) beginBatch(batch []*beginCall) {
	ctx, cancel := context.WithTimeout(batch[0].RoundTripContext(), beginTimeout())
	defer cancel()
	runBatch(ctx, false, batch, db.beginTogether)
}

// beginTogether may repeat Begins that were perhaps committed: the second transaction finds their
// rows by ID. If the first still runs, the second waits for its locks on the recipients.
func (db *DB) beginTogether(ctx context.Context, brief bool, batch []*beginCall) error {
	var admitted, repeated []*beginCall
	err := db.withRetry(ctx, true, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		batch = slices.DeleteFunc(slices.Clone(batch), (*beginCall).Answered) // leaves out calls that an earlier run has answered
		admitted, repeated, notCommitted, err = db.beginOnConn(ctx, conn, brief, batch)
		return notCommitted, err
	})
	if err != nil {
		return err
	}
	for _, x := range admitted {
		x.SetAnswer(x.Answer, nil)
	}
	db.answerRepeated(ctx, repeated)
	return nil
}

// beginOnConn answers refused calls, and returns those whose rows it wrote, and those whose sends
// already had rows. If notCommitted, after an error, nothing was committed.
//
// The decision needs only rows in a range of IDs, because an ID contains a time. That range depends
// on the database's time, which is known only after the read. So beginOnConn assumes bounds (see
// idBounds). If the time turns out to be outside them, it rolls back and reads again, up to
// maxClockTries times.
func (db *DB) beginOnConn(ctx context.Context, conn *pgxpool.Conn, brief bool, batch []*beginCall) (admitted, repeated []*beginCall,
	notCommitted bool, err error,
) {
	if len(batch) == 0 {
		return nil, nil, true, nil
	}
	for range maxClockTries {
		b := idBoundsOfBatch(batch, db.likelyNow())
		read, err := db.lockAndRead(ctx, conn, brief, batch, b)
		if err != nil {
			return nil, nil, true, err
		}
		db.sawClock(read.now)
		if b.contains(read.now) {
			admitted, repeated = read.decide(batch)
			notCommitted, err = db.write(ctx, conn, admitted)
			return admitted, repeated, notCommitted, err
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return nil, nil, true, err
		}
	}
	return nil, nil, true, errClockJumps
}

// sortedLockKeys sorts the keys, because replicas that lock the same keys in different orders could
// deadlock.
func sortedLockKeys(batch []*beginCall) []int64 {
	list := sqlgen.MapSlice(batch, func(x *beginCall) int64 { return x.Key })
	slices.Sort(list)
	return list
}

// lockAndRead opens a transaction, locks the recipients and the verifications named by Intent.Join,
// and reads the facts. If a call without Join may join open verifications of its holder, a second
// trip locks these and the named ones in the order of their IDs, and reads the joining calls' facts
// again, because a check may have ended a verification or locked out the recipient after the first
// read.
func (db *DB) lockAndRead(ctx context.Context, conn *pgxpool.Conn, brief bool, batch []*beginCall, b idBounds) (v batchFacts, err error) {
	named := listCandidates(batch, nil)
	mixed := len(named) > 0 && slices.ContainsFunc(batch, func(x *beginCall) bool { return x.In.HolderToJoin() != "" })
	first, second := db.open(brief), new(pgx.Batch)
	db.queue(first, lockRecipientsSQL, lockKeys.Args(sortedLockKeys(batch)))
	if mixed {
		db.queue(first, savepointSQL)
		db.queue(second, rollBackToSavepointSQL)
	}
	if v, err = db.readFacts(ctx, conn, first, batch, named, b); err != nil {
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
	w, err := db.readFacts(ctx, conn, second, joining, all, b)
	if err != nil {
		return v, err
	}
	if w.now.After(v.now) { // all rows that count at w.now were in the first read
		v.now = w.now
	}
	for i, x := range joining {
		v.facts[slices.Index(batch, x)] = w.facts[i]
	}
	return v, nil
}

// readFacts makes one round trip: it runs the queued statements, whose rows it discards, locks the
// verifications in list, and reads what the decision about the calls needs.
func (db *DB) readFacts(ctx context.Context, conn *pgxpool.Conn, queued *pgx.Batch, calls []*beginCall, list []joinCandidate,
	b idBounds,
) (v batchFacts, err error) {
	before := queued.Len()
	if len(list) > 0 {
		db.queue(queued, lockCandidatesSQL, candidates.Args(list))
	}
	db.queue(queued, gateStatement(calls), gateCalls.Args(calls), b.args())
	results := conn.SendBatch(ctx, queued)
	defer func() { err = errors.Join(err, results.Close()) }()
	if err := execAll(results, before); err != nil {
		return v, err
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

// decide answers the calls that the rules refuse, and those whose ID has a time too far from the
// database's. It returns the admitted ones, with their Answer set, and those whose sends have rows.
func (b batchFacts) decide(batch []*beginCall) (admitted, repeated []*beginCall) {
	for i, x := range batch {
		if b.repeated[i] {
			repeated = append(repeated, x)
		} else if err := store.CheckIDTimeDrift(x.In.Send.ID, b.now); err != nil {
			x.SetAnswer(store.BeginAnswer{}, err)
		} else if d := rowrules.Decide(x.In, b.now, b.facts[i]); d.Admitted {
			x.Answer, admitted = d.BeginAnswer, append(admitted, x)
		} else {
			x.SetAnswer(d.BeginAnswer, nil)
		}
	}
	return admitted, repeated
}

// write writes the admitted sends' rows and commits. If notCommitted, after an error, nothing was
// committed.
func (db *DB) write(ctx context.Context, conn *pgxpool.Conn, admitted []*beginCall) (notCommitted bool, err error) {
	var sends []*store.Send
	var opened, joined []*store.Verification
	for _, x := range admitted {
		sends = append(sends, &x.Answer.Send)
		if x.Answer.Opened() {
			opened = append(opened, &x.Answer.Verification)
		} else {
			joined = append(joined, &x.Answer.Verification)
		}
	}
	var trip pgx.Batch
	if len(joined) > 0 {
		db.queue(&trip, updateJoinedSQL, joinedRows.Args(joined))
	}
	if len(sends) > 0 {
		db.queue(&trip, insertSQL, outboxRows.Args(admitted), openedRows.Args(opened), sendRows.Args(sends))
	}
	began, statements := time.Now(), trip.Len()
	notCommitted, err = db.runAndCommit(ctx, conn, &trip, func(results pgx.BatchResults) error { return execAll(results, statements) })
	if err == nil && len(sends) > 0 {
		db.committed.Store(&sqldb.CommitTiming{At: time.Now(), Took: time.Since(began)})
	}
	return notCommitted, err
}

// joinedRows are verifications that sends join, with their new number of sends and newest labels.
var joinedRows = sqlgen.NewList("joined", new(store.Verification), func(v *store.Verification, to *sqlgen.Row) {
	to.Text("id", v.ID)
	to.Integer("sends", v.Sends)
	for name, text := range v.Labels.All() {
		to.Text(name, text)
	}
})

var updateJoinedSQL = `
UPDATE verifications v SET sends = joined.sends, ` + sqldb.SetLabelsSQL("joined.") + ` FROM ` + joinedRows.SQL() + `
WHERE v.id = ANY (@joined_id::text[]) AND v.id = joined.id`

// These are the rows that insertSQL writes into three tables.
var (
	openedRows = sqldb.VerificationTable.List(store.InsertedByBegin)
	sendRows   = sqldb.SendTable.List(store.InsertedByBegin)
	outboxRows = sqlgen.NewList("outbox", new(beginCall), func(x *beginCall, to *sqlgen.Row) {
		s, v := &x.Answer.Send, &x.Answer.Verification
		to.UUID("id", s.ID)
		to.Time("due_at", s.DueAt)
		to.Text("channel", string(s.Channel))
		to.Bool("stranger", v.Class.IsStranger())
		to.Time("expires_at", v.ExpiresAt)
		to.Bytes("sealed", x.Answer.Code)
	})
)

// insertSQL writes admitted sends and the verifications that they open. One statement fills three
// tables, because each further one would start another executor in the server.
var insertSQL = `
WITH opened AS (` + openedRows.InsertSQL() + `
), logged AS (` + sendRows.InsertSQL() + `
)
INSERT INTO outbox (attempt, queued, id, due_at, channel, stranger, expires_at, sealed)
SELECT 1, false, ` + outboxRows.SelectSQL()

type joinCandidate struct {
	*beginCall
	i  int // the index of the call in its batch
	id string
}

// listCandidates lists the verifications that calls may join: the one that Join names, or the open
// ones of the call's holder. The parameter ofHolders has the latter, by call.
func listCandidates(batch []*beginCall, ofHolders [][]string) (list []joinCandidate) {
	for i, x := range batch {
		if x.In.Join != "" {
			list = append(list, joinCandidate{x, i, x.In.Join})
		} else if ofHolders != nil {
			for _, id := range ofHolders[i] {
				list = append(list, joinCandidate{x, i, id})
			}
		}
	}
	return list
}

var candidates = sqlgen.NewList("u", joinCandidate{beginCall: new(beginCall)}, func(c joinCandidate, to *sqlgen.Row) {
	s := &c.In.Send
	to.Integer("i", c.i)
	to.Text("id", c.id)
	to.Text("holder", c.In.HolderToJoin())
	to.Text("app", s.App)
	to.Text("channel", string(s.Channel))
	to.Text("purpose", s.Purpose)
	to.Bytes("recipient", s.Recipient[:])
})

// lockCandidatesSQL reads and locks the verifications of u, each with its call. No check can change
// them while they are locked. Begins and checks lock them in the order of their IDs, so that they
// can't deadlock.
var lockCandidatesSQL = `
SELECT u.i, ` + sqldb.VerificationColumns + `
FROM (
    SELECT * FROM ` + candidates.SQL() + `
    ORDER BY id
) u CROSS JOIN LATERAL (
    SELECT * FROM verifications v
    WHERE v.id = u.id AND (u.holder = '' OR v.holder = u.holder)
      AND v.recipient = u.recipient AND v.app = u.app AND v.channel = u.channel AND v.purpose = u.purpose
      AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > @now
    FOR NO KEY UPDATE OF v
) v`

// readCandidates reads rows of lockCandidatesSQL into locked, by call.
func readCandidates(rows pgx.Rows, locked [][]store.Verification) error {
	var i int32
	var v store.Verification
	_, err := pgx.ForEachRow(rows, append([]any{&i}, sqldb.VerificationFields(&v)...), func() error {
		locked[i] = append(locked[i], v)
		v = store.Verification{}
		return nil
	})
	return err
}

func (db *DB) answerRepeated(ctx context.Context, calls []*beginCall) {
	if len(calls) == 0 {
		return
	}
	err := db.awaitStandby(ctx, calls[0].In.Send.ID)
	for _, x := range calls {
		if err == nil {
			x.SetAnswer(db.readRepeated(ctx, x.In))
		} else {
			x.SetAnswer(store.BeginAnswer{}, store.WrapUncertain(withCause(err)))
		}
	}
}

// awaitStandby waits until a synchronous standby, if there is one, has all visible commits: an
// interrupted COMMIT may leave rows that are visible here and missing there. A read doesn't wait
// for the standby, but a COMMIT after a write does, for all earlier commits too. A row's lock is
// such a write.
func (db *DB) awaitStandby(ctx context.Context, send uuid.UUID) error {
	_, err := db.pool.Exec(ctx, "SELECT FROM sends WHERE id = @id FOR KEY SHARE", pgx.NamedArgs{"id": send})
	return err
}

// readRepeated reads a send that has a row; see rowrules.RepeatedAnswer.
func (db *DB) readRepeated(ctx context.Context, in store.Intent) (_ store.BeginAnswer, err error) {
	defer panics.Recover(panics.Batch, func() { err = store.WrapUncertain(panics.Err) })
	story, err := db.SendDetails(ctx, in.Send.ID)
	if err != nil {
		return store.BeginAnswer{}, store.WrapUncertain(withCause(err))
	}
	var v store.Verification
	if story.Verification != nil {
		v = *story.Verification
	}
	return rowrules.RepeatedAnswer(in, story.Send.Send, v)
}
