package audit

import (
	"context"
	"time"

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

// AppEventEnded implements AppEvents.
func (p *Postgres) AppEventEnded(ctx context.Context, end AppEventEnd) (bool, error) {
	end, err := end.checked()
	if err != nil {
		return false, err
	}
	return p.one(ctx, `
UPDATE app_events e SET state = $1, answer = $2,
       due_at = CASE WHEN $1 = 'pending' THEN clock.now + $3 * interval '1 microsecond' END,
       ended_at = CASE WHEN $1 <> 'pending' THEN clock.now END
FROM (SELECT {{now}} AS now) AS clock
WHERE e.id = $4 AND e.attempt = $5 AND e.due_at IS NOT NULL`, string(end.State), end.Answer, end.After.Microseconds(), end.ID, end.Attempt)
}

// ForgetAppEvents implements AppEvents.
func (p *Postgres) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (givenUp int, err error) {
	if err := checkLease(keep, limit); err != nil {
		return 0, err
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, p.sql(`
DELETE FROM app_events WHERE id = ANY (ARRAY(
    SELECT id FROM app_events WHERE ended_at IS NOT NULL AND ended_at < {{now}} - $1 * interval '1 microsecond'
    ORDER BY ended_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))`), keep.Microseconds(), limit)
		if err != nil {
			return err
		}
		tag, err := conn.Exec(ctx, p.sql(`
UPDATE app_events SET state = 'given_up', due_at = NULL, ended_at = {{now}} WHERE id = ANY (ARRAY(
    SELECT id FROM app_events WHERE due_at IS NOT NULL AND at < {{now}} - $1 * interval '1 microsecond'
    ORDER BY at, id LIMIT $2 FOR UPDATE SKIP LOCKED))`), keep.Microseconds(), limit)
		givenUp = int(tag.RowsAffected())
		return err
	})
	return givenUp, err
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
