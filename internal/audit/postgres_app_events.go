package audit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// approveTellingSQL approves and writes the event.
const approveTellingSQL = `
WITH ended AS (
    UPDATE verifications SET approved_at = {{now}}
    WHERE id = $1 AND approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}}
    RETURNING id, app, approved_at
)
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
SELECT $2, app, $3, id, 'approved', '', $4, approved_at, approved_at FROM ended`

// postgresAppEvents completes events with what is known of their sends and verifications. By laterals with a limit: the
// planner can only look each up by its key.
const postgresAppEvents = `
LEFT JOIN LATERAL (SELECT * FROM sends s WHERE s.id = e.send_id LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = e.verification_id LIMIT 1) v ON true`

// AppEventsDue implements AppEvents.
func (p *Postgres) AppEventsDue(ctx context.Context, lease time.Duration, shares []Share) (events []AppEvent, now time.Time, err error) {
	if err := checkShares(lease, shares); err != nil {
		return nil, now, err
	}
	apps, limits := make([]string, len(shares)), make([]int32, len(shares))
	for i, s := range shares {
		apps[i], limits[i] = s.App, int32(s.Limit)
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, p.sql(`
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS now
), due AS MATERIALIZED (
    SELECT e.id FROM unnest($1::text[], $2::int[]) AS share(app, places)
    CROSS JOIN LATERAL (
        SELECT e.id FROM app_events e
        WHERE e.app = share.app AND e.due_at IS NOT NULL AND e.due_at <= (SELECT now FROM clock)
        ORDER BY e.due_at, e.id LIMIT share.places FOR UPDATE SKIP LOCKED
    ) e
), taken AS (
    UPDATE app_events e SET attempt = e.attempt + 1, due_at = clock.now + $3 * interval '1 microsecond'
    FROM due, clock WHERE e.id = due.id
    RETURNING e.*
)
SELECT (SELECT now FROM clock), `+appEventColumns+` FROM taken e `+postgresAppEvents+` ORDER BY e.id`), apps, limits, lease.Microseconds())
		events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e AppEvent, err error) {
			err = row.Scan(append([]any{timeField{&now}}, e.fields()...)...)
			return e, err
		})
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return events, now, nil
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
func (p *Postgres) AppEventEnded(ctx context.Context, end AppEventEnd) (bool, error) {
	e, err := end.checked()
	if err != nil {
		return false, err
	}
	return p.eventEnds.do(ctx, newWaiting[AppEventEnd, bool](e, sendKey(e.Held)))
}

func (p *Postgres) endEvents(batch []*eventEnd) {
	changeTogether(p, stmtEndEvents, batch, eventEnds, func(e AppEventEnd) uuid.UUID { return e.ID })
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

// ForgetAppEvents implements AppEvents.
func (p *Postgres) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error) {
	if err := checkLease(keep, limit); err != nil {
		return 0, 0, err
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, p.sql(`
DELETE FROM app_events WHERE id = ANY (ARRAY(
    SELECT id FROM app_events WHERE ended_at IS NOT NULL AND ended_at < {{now}} - $1 * interval '1 microsecond'
    ORDER BY ended_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))`), keep.Microseconds(), limit)
		if err != nil {
			return err
		}
		forgotten = int(tag.RowsAffected())
		tag, err = conn.Exec(ctx, p.sql(`
UPDATE app_events SET state = 'given_up', due_at = NULL, ended_at = {{now}} WHERE id = ANY (ARRAY(
    SELECT id FROM app_events WHERE due_at IS NOT NULL AND at < {{now}} - $1 * interval '1 microsecond'
    ORDER BY at, id LIMIT $2 FOR UPDATE SKIP LOCKED))`), keep.Microseconds(), limit)
		givenUp = int(tag.RowsAffected())
		return err
	})
	return forgotten, givenUp, err
}

// AppEvents implements AppEvents.
func (p *Postgres) AppEvents(ctx context.Context, f AppEventFilter) ([]AppEvent, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if !storable(f.App, string(f.State)) {
		return nil, nil
	}
	query, args := f.query(` FROM app_events e ` + postgresAppEvents)
	return readRows(ctx, p, (*AppEvent).fields, query, args...)
}
