package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// sqliteTell writes the event of a send that has just ended.
func sqliteTell(ctx context.Context, tx *sql.Tx, t store.NewEvent, send uuid.UUID, _ string, now time.Time) error {
	if t.Type == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO app_events (id, app, type, send_id, verification_id, status, reason, test, at, due_at)
SELECT $1, s.app, $2, s.id, s.verification_id, s.status, s.reason, $3, $4, $4 FROM sends s
  WHERE s.id = $5`, t.ID, t.Type, t.Test, sqldb.Micros(now), send)
	return err
}

// AppEventEnded implements AppEvents.
func (s *DB) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	end, err := end.Checked()
	if err != nil {
		return false, err
	}
	return s.one(ctx, `
UPDATE app_events SET state = $1, answer = $2, due_at = CASE WHEN $1 = 'pending' THEN $3 + $4 END,
  ended_at = CASE WHEN $1 <> 'pending' THEN $3 END
WHERE id = $5 AND attempt = $6 AND due_at IS NOT NULL`, func(now time.Time) []any {
		return []any{string(end.State), end.Answer, sqldb.Micros(now), end.After.Microseconds(), end.ID, end.Attempt}
	})
}
