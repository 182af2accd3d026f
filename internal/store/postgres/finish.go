package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

var finishStatements = []string{
	finishSentSQL, finishSQL, postponeSQL, renewSQL, takeOverSQL, takeOverWithExpiredCodeSQL, endEventsSQL, confirmRefundsSQL,
	waitBrieflySQL,
}

// Statements that finish or postpone sends first lock rows of outbox, which have the current
// attempt, then change rows of sends by ID. IDs contain a time, so the statements read only the
// partitions between the smallest and the largest ID. Parameters are sorted by ID, so that two
// statements can't deadlock.

// attempts are the rows a: one for each call of a batch, with the attempt that its caller owns.
var attempts = sqlgen.NewList("a", store.AttemptID{}, func(attempt store.AttemptID, to *sqlgen.Row) {
	to.UUID("id", attempt.ID)
	to.Integer("attempt", attempt.Attempt)
})

// sentOutcomes are the rows o of finishSentSQL, and outcomes are the rows o of finishSQL.
var (
	sentOutcomes = sqlgen.NewList("o", new(finishCall), addOutcome)
	outcomes     = sqlgen.NewList("o", new(finishCall), func(x *finishCall, to *sqlgen.Row) {
		o, suppress, event := &x.In, &x.In.Suppress, &x.In.Event
		addOutcome(x, to)
		to.Bool("refund", o.Refund)
		to.Bool("bad", o.BadAddress)
		to.UUID("suppression", store.SuppressionID(o.ID, suppress.Cause))
		to.Bytes("address", suppress.Address[:])
		to.Duration("suppress_for", suppress.For)
		to.Text("cause", string(suppress.Cause))
		to.Text("words", suppress.Words)
		to.UUID("event", event.ID)
		to.Text("type", string(event.Type))
		to.Bool("test", event.Test)
	})
)

func addOutcome(x *finishCall, to *sqlgen.Row) {
	o := &x.In
	to.UUID("id", o.ID)
	to.Text("status", string(o.Status))
	to.Text("reason", string(o.Reason))
	to.Text("provider", o.Provider)
	to.Text("provider_code", o.ProviderCode)
	to.Duration("took", o.Took)
}

var postponements = sqlgen.NewList("p", new(postponeCall), func(x *postponeCall, to *sqlgen.Row) {
	o := &x.In
	to.UUID("id", o.ID)
	to.Integer("attempt", o.Attempt)
	to.Duration("after", o.After)
	to.Text("reason", string(o.Reason))
	to.Text("provider", o.Provider)
	to.Text("provider_code", o.ProviderCode)
})

// addToMinuteIndexSQL adds the minutes in which a provider's sends were logged, sorted, so that two
// statements can't deadlock.
const addToMinuteIndexSQL = `, indexed AS (
INSERT INTO minute_index (field, value, minute)
SELECT DISTINCT 'provider', provider, date_trunc('minute', logged_at) FROM ended WHERE provider <> '' ORDER BY 1, 2, 3
  ON CONFLICT DO NOTHING
)`

var postponeSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (
UPDATE outbox f SET queued = true, due_at = (SELECT now FROM clock) + p.after * interval '1 microsecond'
FROM ` + postponements.SQL() + `
WHERE f.id = ANY (@p_id::uuid[]) AND f.id = p.id AND f.attempt = p.attempt
RETURNING f.id
), ended AS (
UPDATE sends s SET status = 'queued', reason = p.reason, provider = p.provider, provider_code = p.provider_code
FROM held, ` + postponements.SQL() + `
WHERE s.id = ANY (@p_id::uuid[]) AND s.id BETWEEN @first_id AND @last_id AND s.id = held.id AND p.id = held.id
RETURNING s.id, s.provider, s.logged_at
)` + addToMinuteIndexSQL + `
SELECT id FROM ended`

// finishSentSQL is for a batch in which every outcome is Sent and has no event.
var finishSentSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (` + deleteHeldOutboxSQL + `
), ended AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = (SELECT now FROM clock)
FROM held, ` + sentOutcomes.SQL() + `
WHERE s.id = ANY (@o_id::uuid[]) AND s.id BETWEEN @first_id AND @last_id AND s.id = held.id AND o.id = held.id
RETURNING s.id, s.provider, s.logged_at
)` + addToMinuteIndexSQL + `
SELECT id FROM ended`

// deleteHeldOutboxSQL deletes the rows whose current attempt is in the batch.
var deleteHeldOutboxSQL = `
DELETE FROM outbox f USING ` + attempts.SQL() + `
WHERE f.id = ANY (@a_id::uuid[]) AND f.id = a.id AND f.attempt = a.attempt
RETURNING f.id`

// finishSQL is for any batch, with its failures, refunds, suppressions and app events.
var finishSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (` + deleteHeldOutboxSQL + `
), ended AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = (SELECT now FROM clock), counts = s.counts AND NOT (o.refund AND NOT s.in_doubt)
FROM held, ` + outcomes.SQL() + `
WHERE s.id = ANY (@o_id::uuid[]) AND s.id BETWEEN @first_id AND @last_id AND s.id = held.id AND o.id = held.id
RETURNING s.id, s.provider, s.logged_at, s.status, s.reason, s.attempt, s.app, s.channel, s.recipient, s.masked, s.provider_code,
          s.finished_at, s.was_reset, s.verification_id, o.refund AND NOT s.in_doubt AS refund, o.suppression, o.address, o.suppress_for,
          o.cause, o.event, o.type, o.test, o.bad, CASE WHEN s.masked = '•••' THEN '' ELSE o.words END AS words
)` + addToMinuteIndexSQL + `, failed AS (
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at, status = 'failed' AND bad AND NOT was_reset, app, channel, recipient
FROM ended WHERE status <> 'sent' ON CONFLICT DO NOTHING
), refunded AS (
INSERT INTO refunds (id, since, attempt) SELECT id, finished_at, attempt FROM ended WHERE refund
), suppressed AS (
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, created_by, since, until, server, words)
SELECT suppression, app, channel, address, recipient, masked, cause, provider_code, id, '', finished_at,
  finished_at + suppress_for * interval '1 microsecond', provider, words
FROM ended WHERE suppress_for > 0
ON CONFLICT (id) DO NOTHING
), notified AS (
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT event, app, type, id, verification_id, status, reason, test, finished_at, finished_at FROM ended WHERE type <> ''
)
SELECT id FROM ended`

// Finish implements sqldb.PerDatabase. Outcomes that come during a round trip share the next one.
func (db *DB) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	defer db.Observe(&ctx, "finish", "finish")()
	o := outcome.Sanitized()
	done, err := db.outcomes.Submit(ctx, o, batchKeyOfRow(o.ID))
	if done {
		db.SettleNew(ctx, o.ID, o.Suppress)
	}
	return done, err
}

// Postpone implements sqldb.PerDatabase. It shares round trips as Finish does.
func (db *DB) Postpone(ctx context.Context, postponement store.Postponement) (bool, error) {
	defer db.Observe(&ctx, "postpone", "postpone")()
	return db.postponements.Submit(ctx, postponement.Sanitized(), batchKeyOfRow(postponement.ID))
}

// batchKeyOfRow hashes the row's ID, so that two changes of one row never share a statement, which
// would apply only one of them.
func batchKeyOfRow(id uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:]))
}

func (db *DB) finishBatch(batch []*finishCall) {
	if slices.ContainsFunc(batch, func(x *finishCall) bool { return x.In.Status != store.Sent || x.In.Event.Type != "" }) {
		changeBatch(batch[0].RoundTripContext(), db, finishSQL, batch, outcomes.Args)
		return
	}
	changeBatch(batch[0].RoundTripContext(), db, finishSentSQL, batch, sentOutcomes.Args)
}

func (db *DB) postponeBatch(batch []*postponeCall) {
	changeBatch(batch[0].RoundTripContext(), db, postponeSQL, batch, postponements.Args)
}

// changeBatch runs the statement for all calls, sorted by ID; parameters returns its arguments,
// besides attempts and the smallest and largest ID. Calls of stuck rows run alone. The answer says
// whether the row was changed. No statement begins once ctx has ended or store.CallTimeout has
// passed: the remaining calls get an error, and their callers repeat them.
func changeBatch[In rowChange](ctx context.Context, p *DB, statement string, calls []*batch.Call[In, bool],
	parameters func([]*batch.Call[In, bool]) map[string]any,
) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	slices.SortFunc(calls, func(x, y *batch.Call[In, bool]) int {
		a, b := x.In.GetAttemptID().ID, y.In.GetAttemptID().ID
		return bytes.Compare(a[:], b[:])
	})
	run := func(ctx context.Context, brief bool, calls []*batch.Call[In, bool]) (err error) {
		defer panics.Recover(panics.Batch, func() { err = errPanicBefore }) // a panic while the parameters are made
		ids := sqlgen.MapSlice(calls, func(x *batch.Call[In, bool]) store.AttemptID { return x.In.GetAttemptID() })
		changed, err := p.execReturningIDs(ctx, brief, statement, p.prepared[statement].arguments(parameters(calls), attempts.Args(ids),
			sqldb.Args{"first_id": uuidParameter(ids[0].ID), "last_id": uuidParameter(ids[len(ids)-1].ID)}))
		if len(calls) == 1 {
			p.stuck.note(calls[0].In.GetAttemptID().ID, err)
		}
		if err != nil {
			return err
		}
		for _, x := range calls {
			x.SetAnswer(changed[x.In.GetAttemptID().ID], nil)
		}
		return nil
	}
	var all, apart []*batch.Call[In, bool]
	for _, x := range calls {
		if p.stuck.has(x.In.GetAttemptID().ID) {
			apart = append(apart, x)
		} else {
			all = append(all, x)
		}
	}
	if len(all) > 0 {
		runBatch(ctx, false, all, run)
	}
	for one := range slices.Chunk(apart, 1) {
		runBatch(ctx, true, one, run)
	}
}

// execReturningIDs runs a prepared statement that returns the IDs of changed rows. With brief, it
// waits only briefly for a lock.
func (db *DB) execReturningIDs(ctx context.Context, brief bool, statement string,
	parameters []any,
) (changed map[uuid.UUID]bool, err error) {
	defer panics.Recover(panics.Batch, func() { err = store.WrapUncertain(panics.Err) })
	changed = map[uuid.UUID]bool{}
	err = withConn(ctx, db.finishers, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		var trip pgx.Batch // Postgres runs its statements in one transaction
		if brief {
			db.queue(&trip, waitBrieflySQL)
		}
		trip.Queue(db.prepared[statement].sql, parameters...)
		results := conn.SendBatch(ctx, &trip)
		defer func() { err = errors.Join(err, results.Close()) }()
		if err := execAll(results, trip.Len()-1); err != nil {
			return err
		}
		rows, _ := results.Query()
		var id pgtype.UUID
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { changed[id.Bytes] = true; return nil })
		return err
	})
	return changed, wrapWriteError(err)
}

var eventEnds = sqlgen.NewList("o", new(eventEndCall), func(x *eventEndCall, to *sqlgen.Row) {
	e := &x.In
	to.UUID("id", e.ID)
	to.Integer("attempt", e.Attempt)
	to.Text("state", string(e.State))
	to.Text("answer", e.Answer)
	to.Duration("after", e.After)
})

// endEventsSQL has a condition on state rather than due_at, so that the planner doesn't use the
// index of all due events.
var endEventsSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now)
UPDATE app_events e SET state = o.state, answer = o.answer,
       due_at = CASE WHEN o.state = 'pending' THEN (SELECT now FROM clock) + o.after * interval '1 microsecond' END,
       ended_at = CASE WHEN o.state <> 'pending' THEN (SELECT now FROM clock) END
FROM ` + eventEnds.SQL() + `
WHERE e.id = ANY (@o_id::uuid[]) AND e.id = o.id AND e.attempt = o.attempt AND e.state = 'pending'
RETURNING e.id`

// EndAppEventAttempt implements sqldb.PerDatabase. It shares round trips as Finish does.
func (db *DB) EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error) {
	defer db.Observe(&ctx, "app_event_ended", "app_event_ended")()
	return db.eventEnds.Submit(ctx, end.Sanitized(), batchKeyOfRow(end.ID))
}

func (db *DB) endEventBatch(batch []*eventEndCall) {
	changeBatch(batch[0].RoundTripContext(), db, endEventsSQL, batch, eventEnds.Args)
}

var confirmRefundsSQL = `
DELETE FROM refunds r USING ` + attempts.SQL() + `
WHERE r.id = ANY (@a_id::uuid[]) AND r.id = a.id AND r.attempt = a.attempt
RETURNING r.id`

// ConfirmRefund implements sqldb.PerDatabase. Confirmations within 10 ms share a commit, because
// many may come at once: each send to a suppressed address has a refund.
func (db *DB) ConfirmRefund(ctx context.Context, held store.AttemptID) error {
	defer db.Observe(&ctx, "write", "ConfirmRefund")()
	_, err := db.refundEnds.Submit(ctx, held, batchKeyOfRow(held.ID))
	return err
}

func (db *DB) confirmRefundBatch(calls []*refundEndCall) {
	changeBatch(calls[0].RoundTripContext(), db, confirmRefundsSQL, calls, func([]*refundEndCall) map[string]any { return nil })
}
