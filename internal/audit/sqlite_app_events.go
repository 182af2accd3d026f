package audit

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"
)

// sqliteTell writes the event of a send that has just ended, or with no send that of a verification just approved.
func sqliteTell(ctx context.Context, tx *sql.Tx, t Tell, send uuid.UUID, verification string, now time.Time) error {
	if t.Type == "" {
		return nil
	}
	if verification != "" {
		_, err := tx.ExecContext(ctx, `
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
SELECT $1, v.app, $2, v.id, 'approved', '', $3, $4, $4 FROM verifications v WHERE v.id = $5`, t.ID, t.Type, t.Test, µs(now), verification)
		return err
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT $1, s.app, $2, s.id, s.verification_id, s.status, s.reason, $3, $4, $4 FROM sends s WHERE s.id = $5`, t.ID, t.Type, t.Test, µs(now), send)
	return err
}

// sqliteAppEvents is where appEventColumns come from.
const sqliteAppEvents = ` FROM app_events e LEFT JOIN sends s ON s.id = e.send_id LEFT JOIN verifications v ON v.id = e.verification_id`

// AppEventsDue implements AppEvents.
func (s *SQLite) AppEventsDue(ctx context.Context, lease time.Duration, shares []Share) (events []AppEvent, at time.Time, err error) {
	if err := checkShares(lease, shares); err != nil {
		return nil, at, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		at = now
		for _, share := range shares {
			due, err := sqliteDue(ctx, tx, lease, share, now)
			if err != nil {
				return err
			}
			events = append(events, due...)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	slices.SortFunc(events, byID)
	return events, at, nil
}

func sqliteDue(ctx context.Context, tx *sql.Tx, lease time.Duration, share Share, now time.Time) ([]AppEvent, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+appEventColumns+sqliteAppEvents+`
WHERE e.app = $1 AND e.due_at IS NOT NULL AND e.due_at <= $2 ORDER BY e.due_at, e.id LIMIT $3`, share.App, µs(now), share.Limit)
	if err != nil {
		return nil, err
	}
	due, err := collect(rows, (*AppEvent).fields)
	if err != nil {
		return nil, err
	}
	for i := range due {
		e := &due[i]
		e.Attempt, e.DueAt = e.Attempt+1, now.Add(lease.Truncate(time.Microsecond))
		if _, err := tx.ExecContext(ctx, `UPDATE app_events SET attempt = $1, due_at = $2 WHERE id = $3`, e.Attempt, µs(e.DueAt), e.ID); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// AppEventEnded implements AppEvents.
func (s *SQLite) AppEventEnded(ctx context.Context, end AppEventEnd) (bool, error) {
	end, err := end.checked()
	if err != nil {
		return false, err
	}
	return s.one(ctx, `
UPDATE app_events SET state = $1, answer = $2, due_at = CASE WHEN $1 = 'pending' THEN $3 + $4 END, ended_at = CASE WHEN $1 <> 'pending' THEN $3 END
WHERE id = $5 AND attempt = $6 AND due_at IS NOT NULL`, func(now time.Time) []any {
		return []any{string(end.State), end.Answer, µs(now), end.After.Microseconds(), end.ID, end.Attempt}
	})
}

// ForgetAppEvents implements AppEvents.
func (s *SQLite) ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error) {
	if err := checkLease(keep, limit); err != nil {
		return 0, 0, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		before := µs(now) - keep.Microseconds()
		change := func(n *int, statement string, args ...any) error {
			result, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			changed, err := result.RowsAffected()
			*n = int(changed)
			return err
		}
		if err := change(&forgotten, `
DELETE FROM app_events WHERE id IN (
    SELECT id FROM app_events WHERE ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at, id LIMIT $2)`, before, limit); err != nil {
			return err
		}
		return change(&givenUp, `
UPDATE app_events SET state = 'given_up', due_at = NULL, ended_at = $1 WHERE id IN (
    SELECT id FROM app_events WHERE due_at IS NOT NULL AND at < $2 ORDER BY at, id LIMIT $3)`, µs(now), before, limit)
	})
	if err != nil {
		return 0, 0, err
	}
	return forgotten, givenUp, nil
}

// AppEvents implements AppEvents.
func (s *SQLite) AppEvents(ctx context.Context, f AppEventFilter) ([]AppEvent, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	query, args := f.query(sqliteAppEvents)
	return sqliteRows(ctx, s, (*AppEvent).fields, query, args...)
}
