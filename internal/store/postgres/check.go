package postgres

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// Checks that arrive together share a transaction of two round trips, as Begins do: the first locks
// and reads, then package rowrules and the caller's Judge decide, the second writes and commits,
// then the callers get their answers.
//
// The first trip takes two locks for each check, always in this order: one on all checks of the
// recipient, because the limits on failed checks cover all its codes, and one on the verification's
// row, for which Cancel, Erase and Begin wait. A batch decides one check of each recipient; others
// run in a further batch.

var checkStatements = []string{lockChecksSQL, readCheckedSQL, countChecksSQL, liftDisprovedSQL, sqldb.SetCheckKeySQL}

var liftDisprovedSQL = sqldb.LiftDisprovedSQL(
	`recipient IN (SELECT v.recipient FROM verifications v WHERE v.id = ANY (@ids::text[]))`)

// lockChecksSQL locks the recipients' checks. It is a statement of its own, so that the next
// statement's snapshot is younger than the locks.
const lockChecksSQL = `
SELECT pg_advisory_xact_lock(key) FROM (
    SELECT hashtextextended(v.app || chr(31) || v.channel || chr(31) || encode(v.recipient, 'hex'), 1) AS key
    FROM verifications v WHERE v.id = ANY (@ids::text[]) ORDER BY key OFFSET 0
) k`

// readCheckedSQL reads and locks the verifications to check, and reads those of the same recipients
// that have checks.
var readCheckedSQL = `
SELECT @now, o.approved_at, o.expires_at, o.attempts, o.attempts_reset, o.class, o.checks, ` + sqldb.VerificationColumns + `
FROM verifications v LEFT JOIN LATERAL (` + verificationsWithChecksSQL("v", "(SELECT @now)") + `) o ON true
WHERE v.id = ANY (@ids::text[]) ORDER BY v.id FOR NO KEY UPDATE OF v`

// countedChecks are the rows c of countChecksSQL: checks with their app events.
var countedChecks = sqlgen.NewList("c", new(checkCall), func(x *checkCall, to *sqlgen.Row) {
	a := &x.Answer
	to.Text("id", x.In.ID)
	to.Time("at", a.Now)
	to.Text("entry", string(sqlgen.AppendCheck(make([]byte, 0, 64), store.Check{At: a.Now, Network: x.In.Network})))
	to.Bool("approves", a.Approved)
	to.Bytes("key", a.Verification.CheckKey)
	to.UUID("event", a.Event.ID)
	to.Text("type", string(a.Event.Type))
	to.Bool("test", a.Event.Test)
	to.Text("told", string(a.Event.Status))
})

// countChecksSQL changes no verification that has ended.
var countChecksSQL = `
WITH counted AS (
UPDATE verifications v SET attempts = v.attempts + 1, checks = v.checks || CASE WHEN v.checks = '' THEN '' ELSE ',' END || c.entry,
       approved_at = CASE WHEN c.approves THEN c.at END, check_key = nullif(c.key, '')
FROM ` + countedChecks.SQL() + `
WHERE v.id = ANY (@c_id::text[]) AND v.id = c.id
  AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > c.at
RETURNING v.id, c.at, v.app, c.event, c.type, c.told, c.test
), told AS (
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
SELECT event, app, type, id, told, '', test, at, at FROM counted WHERE type <> ''
)
SELECT id FROM counted`

// Check implements sqldb.PerDatabase. Checks that arrive during a round trip share the next one.
func (db *DB) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	defer db.Observe(&ctx, "check", "check")()
	if !store.AreValidTexts(c.ID, c.Network) {
		return store.CheckAnswer{}, fault.NotFound
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.ID))
	return db.checks.Submit(ctx, c, int64(h.Sum64()))
}

// checkBatch gives every call an answer or an error, within beginTimeout.
func (db *DB) checkBatch(batch []*checkCall) {
	ctx, cancel := context.WithTimeout(batch[0].RoundTripContext(), beginTimeout())
	defer cancel()
	runBatch(ctx, false, batch, db.checkTogether)
}

// checkTogether runs a batch, then what decideChecks left of it.
func (db *DB) checkTogether(ctx context.Context, brief bool, batch []*checkCall) error {
	var left []*checkCall
	decided := batch
	err := db.withRetry(ctx, false, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		if decided, left, err = db.decideChecks(ctx, conn, brief, batch); err != nil {
			return true, err
		}
		return db.writeChecks(ctx, conn, decided)
	})
	if err != nil {
		return err
	}
	for _, x := range decided {
		x.SetAnswer(x.Answer, x.Err)
	}
	if len(left) > 0 {
		runBatch(ctx, brief, left, db.checkTogether)
	}
	return nil
}

// decideChecks opens a transaction, locks and reads, and decides one check of each recipient, whose
// Answer and Err it sets. left has the other checks.
func (db *DB) decideChecks(ctx context.Context, conn *pgxpool.Conn, brief bool, batch []*checkCall) (decided, left []*checkCall,
	err error,
) {
	ids := sqldb.Args{"ids": sqlgen.MapSlice(batch, func(x *checkCall) string { return x.In.ID })}
	trip := db.open(brief)
	db.queue(trip, lockChecksSQL, ids)
	db.queue(trip, readCheckedSQL, ids)
	results := conn.SendBatch(ctx, trip)
	defer func() { err = errors.Join(err, results.Close()) }()
	if err := execAll(results, trip.Len()-1); err != nil {
		return nil, nil, err
	}
	rows, _ := results.Query()
	read, err := readCheckedRows(rows)
	if err != nil {
		return nil, nil, err
	}
	decidedRecipients := map[int64]bool{} // by store.RecipientLockKey
	for _, x := range batch {
		r := read[x.In.ID]
		if r == nil {
			x.Answer, x.Err = store.CheckAnswer{}, fault.NotFound
		} else if key := store.RecipientLockKey(store.Send{
			App: r.v.App, Channel: r.v.Channel,
			Recipient: r.v.Recipient,
		}); decidedRecipients[key] {
			left = append(left, x)
			continue
		} else {
			decidedRecipients[key] = true
			x.Answer, x.Err = rowrules.DecideCheck(x.In, r.v, r.withChecks, r.now)
		}
		decided = append(decided, x)
	}
	return decided, left, nil
}

// checkedRow is a verification to check, with those of its recipient that have checks.
type checkedRow struct {
	v          store.Verification
	withChecks []store.Verification
	now        time.Time
}

// readCheckedRows reads the rows of readCheckedSQL, by the verification's ID.
func readCheckedRows(rows pgx.Rows) (map[string]*checkedRow, error) {
	read := map[string]*checkedRow{}
	var r checkedRow
	var row gateRow
	fields := append([]any{sqlgen.ScannerFor(&r.now)}, row.withChecksFields()...)
	_, err := pgx.ForEachRow(rows, append(fields, sqldb.VerificationFields(&r.v)...), func() error {
		one := read[r.v.ID]
		if one == nil {
			one = &checkedRow{v: r.v, now: r.now}
			read[r.v.ID] = one
		}
		if row.at.Valid {
			one.withChecks = append(one.withChecks, row.verificationWithChecks())
		}
		r.v = store.Verification{}
		return nil
	})
	return read, err
}

// errCheckNotCounted can't occur while the row is locked.
var errCheckNotCounted = store.WrapUnavailable(errors.New("store: the verification ended during its check"))

// writeChecks writes and commits. Only checks whose IDs countChecksSQL returns were counted. If
// notCommitted, after an error, nothing was committed.
func (db *DB) writeChecks(ctx context.Context, conn *pgxpool.Conn, decided []*checkCall) (notCommitted bool, err error) {
	var trip pgx.Batch
	counted := map[string]*checkCall{}
	var approved []string
	for _, x := range decided {
		if x.Err == nil && x.Answer.Approved {
			approved = append(approved, x.In.ID)
		}
		if x.Err == nil && x.Answer.Counted {
			counted[x.In.ID], x.Err = x, errCheckNotCounted
		} else if x.Err == nil && x.Answer.KeyReused {
			db.queue(&trip, sqldb.SetCheckKeySQL, sqldb.Args{"id": x.In.ID, "key": x.Answer.Verification.CheckKey})
		}
	}
	keyUpdates := trip.Len()
	if len(counted) > 0 {
		db.queue(&trip, countChecksSQL, countedChecks.Args(slices.Collect(maps.Values(counted))))
	}
	if len(approved) > 0 {
		db.queue(&trip, liftDisprovedSQL, sqldb.Args{"ids": approved})
	}
	return db.runAndCommit(ctx, conn, &trip, func(results pgx.BatchResults) error {
		if err := execAll(results, keyUpdates); err != nil || len(counted) == 0 {
			return err
		}
		rows, _ := results.Query()
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error { counted[id].Err = nil; return nil })
		return errors.Join(err, execAll(results, min(len(approved), 1)))
	})
}
