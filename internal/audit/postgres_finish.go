package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// finishTimeout bounds a round trip of outcomes.
const finishTimeout = 5 * time.Second

const (
	stmtFinish        = "sendcode_finish"
	stmtFinishTelling = "sendcode_finish_telling"
	stmtPostpone      = "sendcode_postpone"
	stmtEndEvents     = "sendcode_end_events"
)

// postponeSQL puts a batch of sends back, as finishSQL closes one.
const postponeSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE sends s SET status = 'queued', reason = p.reason, provider = p.provider, provider_code = p.provider_code,
       due_at = clock.now + p.after * interval '1 microsecond'
FROM clock, unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::bigint[])
     AS p(id, attempt, reason, provider, provider_code, after)
WHERE s.id = ANY ($1::uuid[]) AND (s.id >= $7 OR s.id > $7) AND (s.id <= $8 OR s.id < $8) AND s.id = p.id AND s.attempt = p.attempt AND s.status IN ('queued', 'sending')
RETURNING s.id`

// finishTemplate closes a batch of sends, and suppresses whom they show to have no mailbox. The rows are looked up by the
// list of their IDs, so that no plan can read others, and in the partitions from the first of them to the last. Those bounds are
// each an OR, which leaves partitions out and is of use to no index: as a range of IDs they make an index that has the ID in a
// later column look as good as the primary key, on partitions that are empty when the plan is made, and then all of it is read.
const finishTemplate = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now), done AS (
UPDATE sends s SET status = o.status, reason = o.reason, provider = o.provider, provider_code = o.provider_code, took = o.took,
       finished_at = clock.now, due_at = NULL,
       counts = s.counts AND NOT (o.refund AND NOT s.in_doubt),
       refund_since = CASE WHEN o.refund AND NOT s.in_doubt THEN clock.now END
FROM clock, unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bool[], $9::uuid[], $10::bytea[], $11::bigint[], $12::text[]{{tell parameters}})
     AS o(id, attempt, status, reason, provider, provider_code, took, refund, bar, address, bar_for, cause{{tell names}})
WHERE s.id = ANY ($1::uuid[]) AND (s.id >= $13 OR s.id > $13) AND (s.id <= $14 OR s.id < $14) AND s.id = o.id AND s.attempt = o.attempt AND s.status IN ('queued', 'sending')
RETURNING s.id, s.app, s.channel, s.recipient, s.masked, s.provider_code, s.finished_at, o.bar, o.address, o.bar_for, o.cause{{tell columns}}
), barred AS (
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
SELECT bar, app, channel, address, recipient, masked, cause, provider_code, id, '', finished_at, finished_at + bar_for * interval '1 microsecond'
FROM done WHERE bar_for > 0
ON CONFLICT (id) DO NOTHING
){{tell}}
SELECT id FROM done`

// Without an app that is told of something a batch runs finishSQL, with one finishTellingSQL, which writes the events too.
var (
	finishSQL        = strings.NewReplacer("{{tell parameters}}", "", "{{tell names}}", "", "{{tell columns}}", "", "{{tell}}", "").Replace(finishTemplate)
	finishTellingSQL = strings.NewReplacer(
		"{{tell parameters}}", ", $15::uuid[], $16::text[], $17::bool[]", "{{tell names}}", ", event, type, test",
		"{{tell columns}}", ", s.verification_id, s.status, s.reason, o.event, o.type, o.test",
		"{{tell}}", `, told AS (
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT event, app, type, id, verification_id, status, reason, test, finished_at, finished_at FROM done WHERE type <> ''
)`).Replace(finishTemplate)
)

// Finish implements Log. Outcomes that come while a round trip is under way share the next one.
func (p *Postgres) Finish(ctx context.Context, outcome Outcome) (bool, error) {
	o, err := outcome.checked()
	if err != nil {
		return false, err
	}
	return p.endings.do(ctx, newWaiting[Outcome, bool](o, sendKey(o.Held)))
}

// Postpone implements Log, in the same way.
func (p *Postgres) Postpone(ctx context.Context, postponement Postponement) (bool, error) {
	q, err := postponement.checked()
	if err != nil {
		return false, err
	}
	return p.postponements.do(ctx, newWaiting[Postponement, bool](q, sendKey(q.Held)))
}

// sendKey keeps two changes of one send out of one statement, which would apply one of them.
func sendKey(h Held) int64 {
	return int64(binary.BigEndian.Uint64(h.ID[:8]) ^ binary.BigEndian.Uint64(h.ID[8:]))
}

func (p *Postgres) finish(batch []*ending) {
	id := func(o Outcome) uuid.UUID { return o.ID }
	if slices.ContainsFunc(batch, func(x *ending) bool { return x.in.Tell.Type != "" }) {
		changeTogether(p, stmtFinishTelling, batch, outcomesTelling, id)
		return
	}
	changeTogether(p, stmtFinish, batch, outcomes, id)
}

func (p *Postgres) postpone(batch []*putBack) {
	changeTogether(p, stmtPostpone, batch, postponements, func(q Postponement) uuid.UUID { return q.ID })
}

// changeTogether changes a batch of sends: every call gets its answer, whatever happens.
func changeTogether[In any](p *Postgres, statement string, batch []*waiting[In, bool], parameters func([]*waiting[In, bool]) []any, id func(In) uuid.UUID) {
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
func (p *Postgres) changed(ctx context.Context, statement string, parameters []any) (map[uuid.UUID]bool, error) {
	conn, err := p.writers.Acquire(ctx)
	if err != nil {
		return nil, unavailable(err)
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
	n := len(batch)
	ids, attempts, took, refund := make([][16]byte, n), make([]int32, n), make([]int64, n), make([]bool, n)
	bars, addresses, barFor := make([][16]byte, n), make([][]byte, n), make([]int64, n)
	var texts [5][]string
	for i, x := range batch {
		o := &x.in
		ids[i], attempts[i], took[i], refund[i] = o.ID, int32(o.Attempt), o.Took.Microseconds(), o.Refund
		bars[i], addresses[i], barFor[i] = SuppressionID(o.ID, o.Bar.Cause), o.Bar.Address[:], o.Bar.For.Microseconds()
		for j, text := range [...]string{string(o.Status), o.Reason, o.Provider, o.ProviderCode, string(o.Bar.Cause)} {
			texts[j] = append(texts[j], text)
		}
	}
	first, last := span(ids)
	return []any{ids, attempts, texts[0], texts[1], texts[2], texts[3], took, refund, bars, addresses, barFor, texts[4], first, last}
}

// outcomesTelling are the parameters of finishTellingSQL.
func outcomesTelling(batch []*ending) []any {
	ids, types, tests := make([][16]byte, len(batch)), make([]string, len(batch)), make([]bool, len(batch))
	for i, x := range batch {
		ids[i], types[i], tests[i] = x.in.Tell.ID, x.in.Tell.Type, x.in.Tell.Test
	}
	return append(outcomes(batch), ids, types, tests)
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
