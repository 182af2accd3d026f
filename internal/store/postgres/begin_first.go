package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

// A Begin whose intent is LikelyFirst takes one round trip, if the guess is right. The trip locks the recipient, reads
// what the gate reads, writes the rows as they are without any such row, if it found none, and commits. Package rowrules then
// decides by what was read, as it does between the two trips of other Begins. docs/decisions/0001-two-gates.md
// says why that is exact.

// maxFirstBatch is how many guesses may share a round trip.
const maxFirstBatch = 32

// errFirstRunMayWrite is the error of a call of which a second run has written nothing, while the first one may still arrive.
var errFirstRunMayWrite = errors.New("store: a round trip whose answer was lost may still write")

// errWrongGuess is the answer to an intent that is LikelyFirst and that was neither written nor refused.
var errWrongGuess = errors.New("store: the recipient has rows that matter")

// groupOfBegin keeps guesses apart from other Begins.
func groupOfBegin(in store.Intent) int {
	if in.LikelyFirst {
		return 1
	}
	return 0
}

// writeFirstSQL returns the statement that reads as gateSQL does, and inserts as insertSQL does the rows of those calls
// of which it reads nothing that changes a row. It adds a writtenRow for each of them. Checks change nothing while they are too few
// for a lockout, and a suppression only the column that names it. In the parameters, the database's time is $16; all
// instants are shifted by what it differs from that. Nothing is inserted unless it is from $17 to before $18.
func writeFirstSQL(sends ...string) string {
	const judged, shift = "unnest((SELECT free FROM judged)) AS free, unnest((SELECT suppression FROM judged)) AS suppression",
		"(SELECT now - $16::timestamptz FROM clock)"
	opened, next := sqldb.VerificationTable.InsertSomeSQL(store.InsertedByBegin, 25, judged, "free", shift, nil)
	logged, _ := sqldb.SendTable.InsertSomeSQL(store.InsertedByBegin, next, judged, "free", shift, map[string]string{"suppression_id": "suppression"})
	return gateCallsSQL + `, facts AS MATERIALIZED (` + gateRowsSQL(sends...) + `
), judged AS MATERIALIZED (
    SELECT array_agg(free ORDER BY i) AS free, array_agg(suppression ORDER BY i) AS suppression
    FROM (
        SELECT i, now >= $17::timestamptz AND now < $18::timestamptz AND coalesce(sum(attempts), 0) < ` +
		fmt.Sprint(min(rowrules.FailedCheckLimit, rowrules.ConsecutiveFailedCheckLimit)) + `
          AND NOT bool_or(kind IN (1, 3, 4, 6)) AS free, (array_agg(id) FILTER (WHERE kind = 2))[1] AS suppression
        FROM (SELECT i, kind, id, attempts FROM facts UNION ALL SELECT i, 0, NULL, NULL FROM u) AS f, clock
        WHERE i > 0 GROUP BY i, now
    ) AS f
), opened AS (` + opened + `
), logged AS (` + logged + `
), waiting AS (
INSERT INTO outbox (id, due_at, attempt, queued, channel, stranger, expires_at, sealed)
SELECT id, due_at + ` + shift + `, 1, false, channel, stranger, expires_at + ` + shift + `, sealed
FROM (SELECT unnest($19::uuid[]) AS id, unnest($20::timestamptz[]) AS due_at, unnest($21::text[]) AS channel, unnest($22::boolean[]) AS stranger,
      unnest($23::timestamptz[]) AS expires_at, unnest($24::bytea[]) AS sealed, ` + judged + `) AS r WHERE free
)
SELECT * FROM facts
UNION ALL
SELECT u.i, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM u, judged WHERE judged.free[u.i]`
}

// beginFirst makes the round trip of a batch of guesses.
func (p *DB) beginFirst(ctx context.Context, brief bool, batch []*beginCall) (err error) {
	sent, unsure := false, false // unsure: an earlier run, whose answer was lost, may still write
	defer panics.Recover(panics.Batch, func() {
		err = errPanicBefore
		if sent {
			err = store.WrapUncertain(panics.Err)
		}
	})
	near := p.likelyNow()
	b := idBoundsOfBatch(batch, near)
	// A request that is delayed on its way, after its caller has given up, writes nothing: also if the clock was set back.
	b.from, b.to = near.Add(-beginTimeout()), near.Add(beginTimeout())
	for _, x := range batch {
		x.Answer = rowrules.Decide(x.In, near, rowrules.Facts{}).BeginAnswer
		if !x.Answer.Admitted || store.CheckIDTimeDrift(x.In.Send.ID, b.from) != nil || store.CheckIDTimeDrift(x.In.Send.ID, b.to) != nil {
			x.SetAnswer(store.BeginAnswer{}, errWrongGuess)
		}
	}
	batch = slices.DeleteFunc(slices.Clone(batch), (*beginCall).Answered)
	if len(batch) == 0 {
		return nil
	}
	var v batchFacts
	sent = true
	err = p.withRetry(ctx, brief, true, func(conn *pgxpool.Conn) (notCommitted bool, err error) {
		v, notCommitted, err = p.writeFirst(ctx, conn, batch, b, near)
		unsure = unsure || err != nil && !notCommitted
		return notCommitted, err
	})
	if err != nil {
		return err
	}
	var repeated []*beginCall
	for i, x := range batch {
		d := rowrules.Decide(x.In, v.now, v.facts[i])
		switch {
		case v.repeated[i]:
			repeated = append(repeated, x)
		case unsure && !v.written[i]:
			x.SetAnswer(store.BeginAnswer{}, store.WrapUncertain(errFirstRunMayWrite))
		case b.contains(v.now) && d.Admitted == v.written[i]:
			x.SetAnswer(d.BeginAnswer, nil)
		default:
			x.SetAnswer(store.BeginAnswer{}, errWrongGuess)
		}
	}
	p.answerRepeated(ctx, repeated)
	return nil
}

// writeFirst runs writeFirstSQL for calls whose Answer was decided at near. notCommitted means, with an error, that
// nothing was committed.
func (p *DB) writeFirst(ctx context.Context, conn *pgxpool.Conn, batch []*beginCall, b idBounds, near time.Time) (
	v batchFacts, notCommitted bool, err error,
) {
	statement := map[string]string{
		stmtGateCounted: stmtFirstCounted, stmtGateHolders: stmtFirstHolders,
		stmtGateCountedAndHolders: stmtFirstCountedAndHolders,
	}[gateStatementName(batch)]
	instant := func(t time.Time) any { return pgtype.Timestamptz{Time: t, Valid: true} }
	var queued pgx.Batch
	queued.Queue(p.text[stmtBeginTransaction])
	queued.Queue(p.text[stmtLockRecipients], lockRecipientsParameters(batch)...)
	queued.Queue(p.text[statement], slices.Concat(gateParameters(batch, b), []any{instant(near), instant(b.from), instant(b.to)},
		insertParameters(
			columns.MapSlice(batch, func(x *beginCall) *beginAnswer { return &beginAnswer{BeginAnswer: &x.Answer} }),
			columns.MapSlice(batch, func(x *beginCall) *store.Verification { return &x.Answer.Verification }),
			columns.MapSlice(batch, func(x *beginCall) *store.Send { return &x.Answer.Send })))...)
	began := time.Now()
	notCommitted, err = p.runAndCommit(ctx, conn, &queued, func(results pgx.BatchResults) error {
		for range 2 {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		rows, _ := results.Query() // the rows have the error
		v, err = readBatchFacts(rows, len(batch))
		return err
	})
	if err != nil {
		return v, notCommitted, err
	}
	p.sawClock(v.now)
	if slices.Contains(v.written, true) {
		p.committed.Store(&sqldb.CommitTiming{At: time.Now(), Took: time.Since(began)})
	}
	return v, false, nil
}
