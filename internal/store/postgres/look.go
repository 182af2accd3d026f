package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// maxReaders bounds the batches of one kind of read that run at once. They have their own
// connections, so that reads and Begins don't delay each other.
const maxReaders = 2

// These are calls of ReadHistory, of Verification and VerificationRow, and of ReadShared.
type (
	historyCall      = batch.Call[rowrules.HistoryQuery, rowrules.History]
	verificationCall = batch.Call[verificationQuery, storedVerification]
	sharedReadCall   = batch.Call[*sqldb.Statement, struct{}]
)

type verificationQuery struct {
	id       string
	withSend bool
}

// storedVerification has the newest send if any call of the batch needs it.
type storedVerification struct {
	store.Work
	now time.Time // zero: not found
}

// historyCalls are the calls u of ReadHistory.
var historyCalls = sqlgen.NewList("u", new(historyCall), func(x *historyCall, to *sqlgen.Row) {
	to.Text("app", x.In.App)
	to.Text("channel", string(x.In.Channel))
	to.Bytes("recipient", x.In.Recipient[:])
	to.Text("purposes", strings.Join(x.In.Purposes, store.PurposeSeparator))
	to.Duration("counting", x.In.CountedWithin)
	to.Duration("rejecting", x.In.RejectedWithin)
})

// historySQL returns the database's time and, for each call, the bucket's counted sends and the
// recipient's rejected ones. As in gateSQL, the planner has only one plan, and the conditions on
// IDs let Postgres skip partitions.
var historySQL = `
WITH clock AS MATERIALIZED (
    SELECT @now AS now
), u AS MATERIALIZED (
    SELECT * FROM ` + historyCalls.NumberedSQL() + `
)
SELECT 0::bigint AS i, NULL::uuid AS id, NULL::boolean AS rejected, now AS at, NULL::text AS verification, NULL::boolean AS in_flight
FROM clock
UNION ALL
SELECT u.i, s.id, false, s.logged_at, s.verification_id, s.status IN ('queued', 'sending') FROM clock, u CROSS JOIN LATERAL (
    SELECT * FROM sends s
    WHERE s.recipient <= u.recipient
      AND (s.recipient, s.logged_at) > (u.recipient, clock.now - u.counting * interval '1 microsecond')
      AND (s.counts AND ` + bucketConditionEnd + `
    OFFSET 0
) s WHERE u.counting > 0
UNION ALL
SELECT u.i, f.id, true, f.finished_at, NULL, false FROM clock, u CROSS JOIN LATERAL (
    SELECT * FROM failures f
    WHERE f.recipient = u.recipient AND f.app = u.app AND f.channel = u.channel AND f.counts
      AND f.finished_at > clock.now - u.rejecting * interval '1 microsecond'
    OFFSET 0
) f WHERE u.rejecting > 0`

// verificationsSQL reads each verification with its newest send.
var verificationsSQL = `
SELECT @now, ` + sqldb.SendColumns + `, ` + sqldb.VerificationColumns + ` FROM verifications v CROSS JOIN LATERAL (
    SELECT * FROM sends s
    WHERE s.recipient <= v.recipient
      AND (s.recipient, s.logged_at) > (v.recipient, v.created_at - ` + sqldb.PostgresIntervalSQL(store.MaxIDTimeDrift) + `)
      AND (s.verification_id = v.id) IS TRUE
      AND ` + sqldb.PostgresPartitionsSinceSQL("v.created_at") + `
    ORDER BY s.number DESC LIMIT 1
) s WHERE v.id = ANY (@ids::text[])`

// verificationRowsSQL reads no sends, because the search for them costs several times as much as
// the rest.
var verificationRowsSQL = `SELECT @now, ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id = ANY (@ids::text[])`

var readStatements = []string{historySQL, verificationsSQL, verificationRowsSQL}

// ReadHistory implements sqldb.Engine. Calls that come during a round trip share the next one.
func (db *DB) ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error) {
	return submitRead(ctx, db, db.histories, l)
}

// Verification implements sqldb.Engine. It shares round trips as ReadHistory does.
func (db *DB) Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error) {
	f, err := db.findVerification(ctx, verificationQuery{id, true})
	return f.Verification, f.Send, f.now, err
}

// VerificationRow implements sqldb.Engine. It shares round trips with Verification.
func (db *DB) VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error) {
	f, err := db.findVerification(ctx, verificationQuery{id, false})
	return f.Verification, f.now, err
}

func (db *DB) findVerification(ctx context.Context, q verificationQuery) (f storedVerification, err error) {
	if !store.AreValidTexts(q.id) {
		return f, fault.NotFound
	}
	if f, err = submitRead(ctx, db, db.verifications, q); err == nil && f.now.IsZero() {
		err = fault.NotFound
	}
	return f, err
}

// ReadShared implements sqldb.Engine. It shares round trips as ReadHistory does.
func (db *DB) ReadShared(ctx context.Context, _ string, s *sqldb.Statement) error {
	_, err := submitRead(ctx, db, db.sharedStatements, s)
	return err
}

// submitRead never returns an error that wraps fault.Uncertain, because a read changes nothing.
func submitRead[In, Answer any](ctx context.Context, p *DB, reads *batch.Batcher[In, Answer], in In) (Answer, error) {
	answer, err := reads.Submit(ctx, in, p.lastReadKey.Add(1)) // each read has its own key, so any two can share a batch
	if errors.Is(err, fault.Uncertain) {
		err = store.WrapUnavailable(ctx.Err())
	}
	return answer, err
}

// These functions answer the batches of DB.histories, DB.verifications and DB.sharedStatements.
func (db *DB) answerHistories(calls []*historyCall) { answerReads(db, calls, db.readHistories) }

func (db *DB) answerVerifications(calls []*verificationCall) {
	answerReads(db, calls, db.readVerifications)
}
func (db *DB) answerSharedReads(calls []*sharedReadCall) { answerReads(db, calls, db.runSharedReads) }

// answerReads runs trip once more if the connection is lost.
func answerReads[In, Answer any](p *DB, calls []*batch.Call[In, Answer],
	trip func(ctx context.Context, calls []*batch.Call[In, Answer]) ([]Answer, error),
) {
	ctx, cancel := context.WithTimeout(calls[0].RoundTripContext(), store.CallTimeout)
	defer cancel()
	runBatch(ctx, false, calls, func(ctx context.Context, _ bool, calls []*batch.Call[In, Answer]) error {
		answers, err := trip(ctx, calls)
		if err != nil && ctx.Err() == nil && isConnectionLost(err) {
			p.readers.Reset()
			answers, err = trip(ctx, calls)
		}
		if err != nil {
			return store.WrapUnavailable(withCause(err))
		}
		for i, x := range calls {
			x.SetAnswer(answers[i], nil)
		}
		return nil
	})
}

func (db *DB) readVerifications(ctx context.Context, calls []*verificationCall) (all []storedVerification, err error) {
	ids := sqldb.Args{"ids": sqlgen.MapSlice(calls, func(x *verificationCall) string { return x.In.id })}
	statement, fields := verificationRowsSQL, func(w *store.Work) []any { return sqldb.VerificationFields(&w.Verification) }
	if slices.ContainsFunc(calls, func(x *verificationCall) bool { return x.In.withSend }) {
		statement, fields = verificationsSQL, sqldb.WorkDestinations
	}
	byID := map[string]storedVerification{}
	err = withConn(ctx, db.readers, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows := db.query(ctx, conn, statement, ids)
		var f storedVerification
		_, err := pgx.ForEachRow(rows, append([]any{sqlgen.ScannerFor(&f.now)}, fields(&f.Work)...), func() error {
			byID[f.Verification.ID] = f
			f.Work = store.Work{}
			return nil
		})
		return err
	})
	return sqlgen.MapSlice(calls, func(x *verificationCall) storedVerification { return byID[x.In.id] }), err
}

func (db *DB) runSharedReads(ctx context.Context, calls []*sharedReadCall) ([]struct{}, error) {
	var trip pgx.Batch
	for _, x := range calls {
		trip.Queue(replaceNow(x.In.SQL, db.clockSQL, x.In.Args), toNamedArgs(x.In.Args))
	}
	return make([]struct{}, len(calls)),
		withConn(ctx, db.readers, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			results := conn.SendBatch(ctx, &trip)
			defer func() { err = errors.Join(err, results.Close()) }()
			for _, x := range calls {
				if x.In.Restart != nil {
					x.In.Restart()
				}
				if err := readStepResult(x.In, results); err != nil {
					return err
				}
			}
			return nil
		})
}

// readHistories assumes bounds for the database's time, on which the range of IDs depends. If the
// time is outside them, it reads again, up to maxClockTries times.
func (db *DB) readHistories(ctx context.Context, calls []*historyCall) (histories []rowrules.History, err error) {
	reach := slices.MaxFunc(calls, func(x, y *historyCall) int { return int(x.In.CountedWithin - y.In.CountedWithin) }).In.CountedWithin
	for range maxClockTries {
		b := idBoundsAround(db.likelyNow(), reach)
		var now time.Time
		err = withConn(ctx, db.readers, func(ctx context.Context, conn *pgxpool.Conn) error {
			rows := db.query(ctx, conn, historySQL, historyCalls.Args(calls), b.args())
			histories, now, err = readHistoryRows(rows, len(calls))
			return err
		})
		if err != nil {
			break
		}
		db.sawClock(now)
		if b.contains(now) {
			return histories, nil
		}
		err = errClockJumps
	}
	return nil, err
}

// readHistoryRows reads the rows of historySQL for a batch of n calls.
func readHistoryRows(rows pgx.Rows, n int) (histories []rowrules.History, now time.Time, err error) {
	histories = make([]rowrules.History, n)
	var i int64
	var id pgtype.UUID
	var verification pgtype.Text
	var rejected, inFlight pgtype.Bool
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&i, &id, &rejected, &at, &verification, &inFlight}, func() error {
		if i == 0 {
			now = store.TruncateToMicroseconds(at.Time)
			return nil
		}
		x := &histories[i-1]
		row := rowrules.PastSend{
			ID: id.Bytes, At: store.TruncateToMicroseconds(at.Time), Verification: verification.String, InFlight: inFlight.Bool,
		}
		if rejected.Bool {
			x.Rejections = append(x.Rejections, row)
		} else {
			x.Past = append(x.Past, row)
		}
		return nil
	})
	if err == nil && now.IsZero() {
		err = errNoClock
	}
	for i := range histories {
		histories[i].Now = now
	}
	return histories, now, err
}
