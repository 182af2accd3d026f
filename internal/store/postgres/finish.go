package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// finishTimeout bounds a round trip of outcomes.
const finishTimeout = 5 * time.Second

const (
	stmtFinish      = "sendcode_finish"
	stmtFinishFully = "sendcode_finish_fully"
	stmtPostpone    = "sendcode_postpone"
	stmtEndEvents   = "sendcode_end_events"
)

// All of these begin with the flights, whose rows say which attempt holds, and lock them; only then is sends touched, by the list of
// the IDs and thus by its key, in the partitions from the first of them to the last.

// seenSQL notes the minutes in which a provider had sends; in order, so that two statements do not wait for each other in a circle.
const seenSQL = `, seen AS (
INSERT INTO minutes (field, value, minute)
SELECT DISTINCT 'provider', provider, date_trunc('minute', logged_at) FROM done WHERE provider <> '' ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING
)`

// postponeSQL puts a batch of sends back, as finishSQL closes one.
const postponeSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now), held AS (
UPDATE flights f SET queued = true, due_at = clock.now + p.after * interval '1 microsecond'
FROM clock, unnest($1::uuid[], $2::int[], $6::bigint[]) AS p(id, attempt, after)
WHERE f.id = ANY ($1::uuid[]) AND f.id = p.id AND f.attempt = p.attempt
RETURNING f.id
), done AS (
UPDATE sends s SET status = 'queued', reason = p.reason, provider = p.provider, provider_code = p.provider_code
FROM held, unnest($1::uuid[], $3::text[], $4::text[], $5::text[]) AS p(id, reason, provider, provider_code)
WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $7 AND $8 AND s.id = held.id AND p.id = held.id
RETURNING s.id, s.provider, s.logged_at
)` + seenSQL + `
SELECT id FROM done`

// endedSQL closes a batch of sends.
const endedSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now), held AS (
DELETE FROM flights f USING unnest($1::uuid[], $2::int[]) AS o(id, attempt)
WHERE f.id = ANY ($1::uuid[]) AND f.id = o.id AND f.attempt = o.attempt
RETURNING f.id
), done AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = clock.now{{refund}}
FROM clock, held, unnest($1::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[]{{arrays}})
     AS o(id, status, reason, provider, provider_code, took{{names}})
WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $8 AND $9 AND s.id = held.id AND o.id = held.id
RETURNING s.id, s.provider, s.logged_at{{columns}}
)` + seenSQL + `{{more}}
SELECT id FROM done`

// A batch of which all was just sent and no app is told runs finishSQL. Any other runs finishFullySQL, which also gives places back,
// notes failures, suppresses addresses that are shown to have no mailbox, and writes the apps' events.
var (
	finishSQL      = strings.NewReplacer("{{refund}}", "", "{{arrays}}", "", "{{names}}", "", "{{columns}}", "", "{{more}}", "").Replace(endedSQL)
	finishFullySQL = strings.NewReplacer(
		"{{refund}}", ", counts = s.counts AND NOT (o.refund AND NOT s.in_doubt)",
		"{{arrays}}", ", $10::bool[], $11::uuid[], $12::bytea[], $13::bigint[], $14::text[], $15::uuid[], $16::text[], $17::bool[]",
		"{{names}}", ", refund, bar, address, bar_for, cause, event, type, test",
		"{{columns}}", `, s.status, s.reason, s.attempt, s.app, s.channel, s.recipient, s.masked, s.provider_code, s.finished_at, s.forgiven, s.verification_id,
          o.refund AND NOT s.in_doubt AS refund, o.bar, o.address, o.bar_for, o.cause, o.event, o.type, o.test`,
		"{{more}}", `, failed AS (
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at, status = 'failed' AND reason IN (`+sqldb.FailureReasons+`) AND NOT forgiven, app, channel, recipient
FROM done WHERE status <> 'sent' ON CONFLICT DO NOTHING
), refunded AS (
INSERT INTO refunds (id, since, attempt) SELECT id, finished_at, attempt FROM done WHERE refund
), barred AS (
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
SELECT bar, app, channel, address, recipient, masked, cause, provider_code, id, '', finished_at, finished_at + bar_for * interval '1 microsecond'
FROM done WHERE bar_for > 0
ON CONFLICT (id) DO NOTHING
), told AS (
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT event, app, type, id, verification_id, status, reason, test, finished_at, finished_at FROM done WHERE type <> ''
)`).Replace(endedSQL)
)

// Finish implements Outbox. Outcomes that come while a round trip is under way share the next one.
func (p *DB) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	o, err := outcome.Checked()
	if err != nil {
		return false, err
	}
	return p.endings.do(ctx, newWaiting[store.Outcome, bool](o, sendKey(o.Held)))
}

// Postpone implements Outbox, in the same way.
func (p *DB) Postpone(ctx context.Context, postponement store.Postponement) (bool, error) {
	q, err := postponement.Checked()
	if err != nil {
		return false, err
	}
	return p.postponements.do(ctx, newWaiting[store.Postponement, bool](q, sendKey(q.Held)))
}

// sendKey keeps two changes of one send out of one statement, which would apply one of them.
func sendKey(h store.Held) int64 {
	return int64(binary.BigEndian.Uint64(h.ID[:8]) ^ binary.BigEndian.Uint64(h.ID[8:]))
}

func (p *DB) finish(batch []*ending) {
	id := func(o store.Outcome) uuid.UUID { return o.ID }
	if slices.ContainsFunc(batch, func(x *ending) bool { return x.in.Status != store.Sent || x.in.Event.Type != "" }) {
		changeTogether(p, stmtFinishFully, batch, outcomesFully, id)
		return
	}
	changeTogether(p, stmtFinish, batch, outcomes, id)
}

func (p *DB) postpone(batch []*putBack) {
	changeTogether(p, stmtPostpone, batch, postponements, func(q store.Postponement) uuid.UUID { return q.ID })
}

// changeTogether changes a batch of sends: every call gets its answer, whatever happens.
func changeTogether[In any](p *DB, statement string, batch []*waiting[In, bool], parameters func([]*waiting[In, bool]) []any, id func(In) uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	changed, err := p.changed(ctx, statement, parameters(batch))
	if len(batch) > 1 && (poisoned(err) || strings.HasPrefix(code(err), "40")) {
		// One of them fails the others, by its data or by a lock; alone it fails itself.
		for _, x := range batch {
			changeTogether(p, statement, []*waiting[In, bool]{x}, parameters, id)
		}
		return
	}
	for _, x := range batch {
		x.finish(changed[id(x.in)], err)
	}
}

// changed runs a prepared statement that tells which sends it changed.
func (p *DB) changed(ctx context.Context, statement string, parameters []any) (map[uuid.UUID]bool, error) {
	conn, err := p.writers.Acquire(ctx)
	if err != nil {
		return nil, store.Unavailable(postgresCause(err))
	}
	defer conn.Release()
	rows, _ := conn.Query(ctx, statement, parameters...)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if readOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	changed := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		changed[id] = true
	}
	return changed, changing(err)
}

// outcomes are the parameters of finishSQL.
func outcomes(batch []*ending) []any {
	ids := part(batch, func(o *store.Outcome) [16]byte { return o.ID })
	first, last := span(ids)
	return []any{
		ids,
		part(batch, func(o *store.Outcome) int32 { return int32(o.Attempt) }),
		part(batch, func(o *store.Outcome) string { return string(o.Status) }),
		part(batch, func(o *store.Outcome) string { return o.Reason }),
		part(batch, func(o *store.Outcome) string { return o.Provider }),
		part(batch, func(o *store.Outcome) string { return o.ProviderCode }),
		part(batch, func(o *store.Outcome) int64 { return o.Took.Microseconds() }),
		first, last,
	}
}

// part makes one parameter out of one part of every outcome.
func part[T any](batch []*ending, of func(*store.Outcome) T) []T {
	return sqldb.Each(batch, func(x *ending) T { return of(&x.in) })
}

// outcomesFully are the parameters of finishFullySQL.
func outcomesFully(batch []*ending) []any {
	return append(outcomes(batch),
		part(batch, func(o *store.Outcome) bool { return o.Refund }),
		part(batch, func(o *store.Outcome) [16]byte { return store.SuppressionID(o.ID, o.Suppress.Cause) }),
		part(batch, func(o *store.Outcome) []byte { return o.Suppress.Address[:] }),
		part(batch, func(o *store.Outcome) int64 { return o.Suppress.For.Microseconds() }),
		part(batch, func(o *store.Outcome) string { return string(o.Suppress.Cause) }),
		part(batch, func(o *store.Outcome) [16]byte { return o.Event.ID }),
		part(batch, func(o *store.Outcome) string { return o.Event.Type }),
		part(batch, func(o *store.Outcome) bool { return o.Event.Test }),
	)
}

// postponements are the parameters of postponeSQL.
func postponements(batch []*putBack) []any {
	n := len(batch)
	ids, attempts, after := make([][16]byte, n), make([]int32, n), make([]int64, n)
	var texts [3][]string
	for i, x := range batch {
		q := &x.in
		ids[i], attempts[i], after[i] = q.ID, int32(q.Attempt), q.After.Microseconds()
		for j, text := range [...]string{q.Reason, q.Provider, q.ProviderCode} {
			texts[j] = append(texts[j], text)
		}
	}
	first, last := span(ids)
	return []any{ids, attempts, texts[0], texts[1], texts[2], after, first, last}
}

// span is from the first of some IDs, which are at least one, to the last.
func span(ids [][16]byte) (first, last uuid.UUID) {
	order := func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }
	return slices.MinFunc(ids, order), slices.MaxFunc(ids, order)
}

// endEventsSQL closes a batch of attempts, as finishSQL closes sends.
const endEventsSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE app_events e SET state = o.state, answer = o.answer,
       due_at = CASE WHEN o.state = 'pending' THEN clock.now + o.after * interval '1 microsecond' END,
       ended_at = CASE WHEN o.state <> 'pending' THEN clock.now END
FROM clock, unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::bigint[]) AS o(id, attempt, state, answer, after)
WHERE e.id = ANY ($1::uuid[]) AND e.id = o.id AND e.attempt = o.attempt AND e.due_at IS NOT NULL
RETURNING e.id`

// AppEventEnded implements AppEvents. Ends that come while a round trip is under way share the next one.
func (p *DB) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	e, err := end.Checked()
	if err != nil {
		return false, err
	}
	return p.eventEnds.do(ctx, newWaiting[store.AppEventEnd, bool](e, sendKey(e.Held)))
}

func (p *DB) endEvents(batch []*eventEnd) {
	changeTogether(p, stmtEndEvents, batch, eventEnds, func(e store.AppEventEnd) uuid.UUID { return e.ID })
}

// eventEnds are the parameters of endEventsSQL.
func eventEnds(batch []*eventEnd) []any {
	n := len(batch)
	ids, attempts, after := make([][16]byte, n), make([]int32, n), make([]int64, n)
	states, answers := make([]string, n), make([]string, n)
	for i, x := range batch {
		e := &x.in
		ids[i], attempts[i], after[i] = e.ID, int32(e.Attempt), e.After.Microseconds()
		states[i], answers[i] = string(e.State), e.Answer
	}
	return []any{ids, attempts, states, answers, after}
}
