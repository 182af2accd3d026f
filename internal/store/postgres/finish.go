package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/panics"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/columns"
)

const (
	stmtFinishSent              = "sendcode_finish"
	stmtFinish                  = "sendcode_finish_fully"
	stmtPostpone                = "sendcode_postpone"
	stmtRenew                   = "sendcode_renew"
	stmtTakeOver                = "sendcode_take_over"
	stmtTakeOverWithExpiredCode = "sendcode_take_over_expired"
	stmtEndEvents               = "sendcode_end_events"
	stmtConfirmRefunds          = "sendcode_confirm_refunds"
)

// finishStatements are the statements of the finishers' pool.
func (p *DB) finishStatements() []statement {
	return []statement{
		{stmtFinishSent, p.replaceNow(finishSentSQL)},
		{stmtFinish, p.replaceNow(finishSQL)},
		{stmtPostpone, p.replaceNow(postponeSQL)},
		{stmtRenew, p.replaceNow(renewSQL)},
		{stmtTakeOver, p.replaceNow(takeOverSQL(""))},
		{stmtTakeOverWithExpiredCode, p.replaceNow(takeOverSQL(" AND f.expires_at <= $4"))},
		{stmtEndEvents, p.replaceNow(endEventsSQL)},
		{stmtConfirmRefunds, confirmRefundsSQL},
	}
}

// Finishing and postponing first lock the rows of outbox, which have the current attempt. Then they
// change the rows of sends, by their IDs, in the partitions between the smallest and the largest ID.
// The parameters are sorted by ID, so that two statements cannot deadlock.

// addToMinuteIndexSQL adds the minutes of a provider's sends to the table minute_index, sorted, so
// that two statements cannot deadlock.
const addToMinuteIndexSQL = `, indexed AS (
INSERT INTO minute_index (field, value, minute)
SELECT DISTINCT 'provider', provider, date_trunc('minute', logged_at) FROM ended WHERE provider <> '' ORDER BY 1, 2, 3
  ON CONFLICT DO NOTHING
)`

// postponeSQL postpones a batch of sends.
const postponeSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (
UPDATE outbox f SET queued = true, due_at = (SELECT now FROM clock) + p.after * interval '1 microsecond'
FROM unnest($1::uuid[], $2::int[], $6::bigint[]) AS p(id, attempt, after)
WHERE f.id = ANY ($1::uuid[]) AND f.id = p.id AND f.attempt = p.attempt
RETURNING f.id
), ended AS (
UPDATE sends s SET status = 'queued', reason = p.reason, provider = p.provider, provider_code = p.provider_code
FROM held, unnest($1::uuid[], $3::text[], $4::text[], $5::text[]) AS p(id, reason, provider, provider_code)
WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $7 AND $8 AND s.id = held.id AND p.id = held.id
RETURNING s.id, s.provider, s.logged_at
)` + addToMinuteIndexSQL + `
SELECT id FROM ended`

// finishSentSQL writes the outcomes of a batch of sends in which every outcome is Sent and has no
// event.
var finishSentSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (` + deleteHeldOutboxSQL + `
), ended AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = (SELECT now FROM clock)
FROM held, unnest($1::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
     AS o(id, status, reason, provider, provider_code, took)
WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $8 AND $9 AND s.id = held.id AND o.id = held.id
RETURNING s.id, s.provider, s.logged_at
)` + addToMinuteIndexSQL + `
SELECT id FROM ended`

// deleteHeldOutboxSQL deletes the rows of outbox that the batch holds.
const deleteHeldOutboxSQL = `
DELETE FROM outbox f USING unnest($1::uuid[], $2::int[]) AS o(id, attempt)
WHERE f.id = ANY ($1::uuid[]) AND f.id = o.id AND f.attempt = o.attempt
RETURNING f.id`

// finishSQL writes the outcomes of any batch, and with them failures, refunds, suppressions and the
// apps' events.
var finishSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now), held AS (` + deleteHeldOutboxSQL + `
), ended AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = (SELECT now FROM clock), counts = s.counts AND NOT (o.refund AND NOT s.in_doubt)
FROM held, unnest($1::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
       $10::bool[], $11::uuid[], $12::bytea[], $13::bigint[], $14::text[], $15::uuid[], $16::text[], $17::bool[], $18::bool[],
       $19::text[])
     AS o(id, status, reason, provider, provider_code, took, refund, suppression, address, suppress_for, cause, event, type, test, bad, words)
WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $8 AND $9 AND s.id = held.id AND o.id = held.id
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

// Finish implements sqldb.PerDatabase. Outcomes that come while a round trip is under way share the
// next one.
func (p *DB) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	o := outcome.Sanitized()
	done, err := p.outcomes.Submit(ctx, o, batchKeyOfRow(o.ID))
	if done && o.Suppress.Words != "" {
		_ = p.HoldBursts(ctx) // SettleBursts repeats it
	}
	return done, err
}

// Postpone implements sqldb.PerDatabase. It shares round trips as Finish does.
func (p *DB) Postpone(ctx context.Context, postponement store.Postponement) (bool, error) {
	return p.postponements.Submit(ctx, postponement.Sanitized(), batchKeyOfRow(postponement.ID))
}

// batchKeyOfRow returns the batcher's key for a row, a hash of its ID. It keeps two changes of one
// row out of one statement, which would apply only one of them.
func batchKeyOfRow(id uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:]))
}

// finishBatch writes a batch of outcomes. finishSQL runs if one of them is not Sent or has an
// event, else finishSentSQL.
func (p *DB) finishBatch(batch []*finishCall) {
	if slices.ContainsFunc(batch, func(x *finishCall) bool { return x.In.Status != store.Sent || x.In.Event.Type != "" }) {
		changeBatch(batch[0].RoundTripContext(), p, stmtFinish, batch, finishParameters)
		return
	}
	changeBatch(batch[0].RoundTripContext(), p, stmtFinishSent, batch, finishSentParameters)
}

func (p *DB) postponeBatch(batch []*postponeCall) {
	changeBatch(batch[0].RoundTripContext(), p, stmtPostpone, batch, postponeParameters)
}

// changeBatch runs a statement on a batch of calls, which it sorts by ID. The answer to each call
// is whether its row was changed. No statement begins after the end of ctx or store.CallTimeout; then
// the calls that are left get an error, and their callers repeat them.
func changeBatch[In rowChange](ctx context.Context, p *DB, statement string, calls []*batch.Call[In, bool],
	parameters func([]*batch.Call[In, bool]) []any,
) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	slices.SortFunc(calls, func(x, y *batch.Call[In, bool]) int {
		a, b := x.In.GetAttemptID().ID, y.In.GetAttemptID().ID
		return bytes.Compare(a[:], b[:])
	})
	run := func(ctx context.Context, brief bool, calls []*batch.Call[In, bool]) (err error) {
		defer panics.Recover(panics.Batch, func() { err = errPanicBefore }) // of parameters
		changed, err := p.execReturningIDs(ctx, brief, statement, parameters(calls))
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
		runByHalves(ctx, false, all, run)
	}
	for x := range slices.Chunk(apart, 1) {
		runByHalves(ctx, true, x, run)
	}
}

// execReturningIDs runs a prepared statement and returns the IDs of the rows that it changed. brief is as
// in together.
func (p *DB) execReturningIDs(ctx context.Context, brief bool, statement string,
	parameters []any,
) (changed map[uuid.UUID]bool, err error) {
	defer panics.Recover(panics.Batch, func() { err = store.WrapUncertain(panics.Err) })
	changed = map[uuid.UUID]bool{}
	err = withConn(ctx, p.finishers, briefly(brief, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, p.text[statement], parameters...)
		var id pgtype.UUID
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error { changed[id.Bytes] = true; return nil })
		return err
	}))
	return changed, wrapWriteError(err)
}

// attemptIDParameters returns the first two parameters of each statement that changeBatch runs, the
// IDs and the attempts, with room for `most` parameters.
func attemptIDParameters[In rowChange](calls []*batch.Call[In, bool], most int) *columns.ArrayParameters[*batch.Call[In, bool]] {
	p := columns.NewArrayParameters(calls, most)
	p.Add(columns.UUID, func(buf []byte, x *batch.Call[In, bool]) []byte {
		id := x.In.GetAttemptID().ID
		return append(buf, id[:]...)
	})
	p.Add(columns.Integer, func(buf []byte, x *batch.Call[In, bool]) []byte {
		return columns.AppendInteger(buf, x.In.GetAttemptID().Attempt)
	})
	return p
}

// finishSentParameters returns the parameters of finishSentSQL, which are also the first of
// finishSQL. The batch must be sorted by ID.
func finishSentParameters(batch []*finishCall) []any {
	p := attemptIDParameters(batch, 18)
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Status...) })
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Reason...) })
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Provider...) })
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.ProviderCode...) })
	p.Add(columns.Bigint, func(buf []byte, x *finishCall) []byte { return columns.AppendBigint(buf, x.In.Took.Microseconds()) })
	return p.Args(uuidParameter(batch[0].In.ID), uuidParameter(batch[len(batch)-1].In.ID))
}

// finishParameters returns the parameters of finishSQL.
func finishParameters(batch []*finishCall) []any {
	p := columns.NewArrayParameters(batch, 10)
	p.Add(columns.Boolean, func(buf []byte, x *finishCall) []byte { return columns.AppendBoolean(buf, x.In.Refund) })
	p.Add(columns.UUID, func(buf []byte, x *finishCall) []byte {
		id := store.SuppressionID(x.In.ID, x.In.Suppress.Cause)
		return append(buf, id[:]...)
	})
	p.Add(columns.Bytes, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Suppress.Address[:]...) })
	p.Add(columns.Bigint, func(buf []byte, x *finishCall) []byte {
		return columns.AppendBigint(buf, x.In.Suppress.For.Microseconds())
	})
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Suppress.Cause...) })
	p.Add(columns.UUID, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Event.ID[:]...) })
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Event.Type...) })
	p.Add(columns.Boolean, func(buf []byte, x *finishCall) []byte { return columns.AppendBoolean(buf, x.In.Event.Test) })
	p.Add(columns.Boolean, func(buf []byte, x *finishCall) []byte { return columns.AppendBoolean(buf, x.In.BadAddress) })
	p.Add(columns.Text, func(buf []byte, x *finishCall) []byte { return append(buf, x.In.Suppress.Words...) })
	return append(finishSentParameters(batch), p.Args()...)
}

// postponeParameters returns the parameters of postponeSQL.
func postponeParameters(batch []*postponeCall) []any {
	p := attemptIDParameters(batch, 8)
	p.Add(columns.Text, func(buf []byte, x *postponeCall) []byte { return append(buf, x.In.Reason...) })
	p.Add(columns.Text, func(buf []byte, x *postponeCall) []byte { return append(buf, x.In.Provider...) })
	p.Add(columns.Text, func(buf []byte, x *postponeCall) []byte { return append(buf, x.In.ProviderCode...) })
	p.Add(columns.Bigint, func(buf []byte, x *postponeCall) []byte { return columns.AppendBigint(buf, x.In.After.Microseconds()) })
	return p.Args(uuidParameter(batch[0].In.ID), uuidParameter(batch[len(batch)-1].In.ID))
}

// endEventsSQL ends a batch of attempts of events. Its condition is on state, not on due_at, so
// that the planner does not read the index of all due events.
const endEventsSQL = `
WITH clock AS MATERIALIZED (SELECT @now AS now)
UPDATE app_events e SET state = o.state, answer = o.answer,
       due_at = CASE WHEN o.state = 'pending' THEN (SELECT now FROM clock) + o.after * interval '1 microsecond' END,
       ended_at = CASE WHEN o.state <> 'pending' THEN (SELECT now FROM clock) END
FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::bigint[]) AS o(id, attempt, state, answer, after)
WHERE e.id = ANY ($1::uuid[]) AND e.id = o.id AND e.attempt = o.attempt AND e.state = 'pending'
RETURNING e.id`

// EndAppEventAttempt implements sqldb.PerDatabase. Ends that come while a round trip is under way
// share the next one.
func (p *DB) EndAppEventAttempt(ctx context.Context, end store.AppEventAttemptEnd) (bool, error) {
	return p.eventEnds.Submit(ctx, end.Sanitized(), batchKeyOfRow(end.ID))
}

func (p *DB) endEventBatch(batch []*eventEndCall) {
	changeBatch(batch[0].RoundTripContext(), p, stmtEndEvents, batch, endEventParameters)
}

// endEventParameters returns the parameters of endEventsSQL.
func endEventParameters(batch []*eventEndCall) []any {
	p := attemptIDParameters(batch, 5)
	p.Add(columns.Text, func(buf []byte, x *eventEndCall) []byte { return append(buf, x.In.State...) })
	p.Add(columns.Text, func(buf []byte, x *eventEndCall) []byte { return append(buf, x.In.Answer...) })
	p.Add(columns.Bigint, func(buf []byte, x *eventEndCall) []byte { return columns.AppendBigint(buf, x.In.After.Microseconds()) })
	return p.Args()
}

// confirmRefundsSQL deletes a batch of refunds.
const confirmRefundsSQL = `
DELETE FROM refunds r USING unnest($1::uuid[], $2::int[]) AS o(id, attempt)
WHERE r.id = ANY ($1::uuid[]) AND r.id = o.id AND r.attempt = o.attempt
RETURNING r.id`

// ConfirmRefund implements sqldb.PerDatabase. The refunds of 10 ms share a commit, as outcomes do: a flood of suppressed
// addresses has one for each send.
func (p *DB) ConfirmRefund(ctx context.Context, held store.AttemptID) error {
	_, err := p.refundEnds.Submit(ctx, held, batchKeyOfRow(held.ID))
	return err
}

func (p *DB) confirmRefundBatch(calls []*refundEndCall) {
	changeBatch(calls[0].RoundTripContext(), p, stmtConfirmRefunds, calls, func(some []*refundEndCall) []any {
		return attemptIDParameters(some, 2).Args()
	})
}
