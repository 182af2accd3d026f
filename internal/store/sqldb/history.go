package sqldb

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// FailedSends returns the sends sorted by EndedAt, oldest first, and the time on the database's
// clock.
func (db *DB) FailedSends(ctx context.Context,
	q store.FailedSendsQuery,
) (failed []store.FailedSend, now time.Time, err error) {
	now, err = db.readWithClock(ctx, "FailedSends", func(tx Tx, now time.Time) error {
		failed, err = QueryAll(tx, func(f *store.FailedSend) []any {
			return []any{&f.ID, sqlgen.ScannerFor(&f.EndedAt), &f.Purpose, &f.CountsTowardBackoffRule, &f.Paused, &f.PauseInForce}
		}, `
SELECT s.id, f.finished_at, s.purpose, s.was_reset = false AND s.reason NOT IN ('`+store.ReasonEnded+`', '`+store.ReasonErased+`')
  AND NOT EXISTS (SELECT 1 FROM sends o WHERE o.recipient = @recipient AND o.logged_at > @after AND o.app = @app AND o.channel = @channel
    AND o.status = 'sent' AND o.finished_at > f.finished_at), s.reason = '`+store.ReasonPaused+`', EXISTS (SELECT 1 FROM prefix_pauses p
    WHERE p.app = s.app AND p.prefix = s.prefix AND p.class = v.class AND p.lifted_at IS NULL AND p.until > @at)
FROM `+tx.Dialect.pick(failuresFromSQL)+` JOIN verifications v ON v.id = s.verification_id
WHERE f.recipient = @recipient AND f.app = @app AND f.channel = @channel AND f.finished_at > @after
  AND f.status = 'failed' AND f.counts = false AND v.class = @class
ORDER BY f.finished_at, f.id`, Args{
			"recipient": q.Recipient, "app": q.App, "channel": q.Channel, "class": q.Class, "at": now,
			"after": now.Add(-q.Within.Truncate(time.Microsecond)),
		})
		return err
	})
	return failed, now, err
}
