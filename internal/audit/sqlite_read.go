package audit

import (
	"context"
	"database/sql"
	"time"
)

// Refused implements Log.
func (s *SQLite) Refused(ctx context.Context, refusals []Send) error {
	rows, err := merged(refusals)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		insert, err := tx.PrepareContext(ctx, `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip, status,
                   attempt, counts, taken_at, clock, logged_at, finished_at, blocked_by, retry_after, requests, country, prefix, recipients)
VALUES ($1, $2, 0, $3, $4, $5, $6, $7, $8, $9, $10, 'refused', 0, 0, $11, $12, $13, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + excluded.requests, retry_after = excluded.retry_after,
              recipients = max(sends.recipients, excluded.recipients)
WHERE sends.status = 'refused'`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, r := range rows {
			if r.Clock == LogClock {
				r.TakenAt = now
			}
			_, err := insert.ExecContext(ctx,
				timely(r.ID, now), r.VerificationID, r.App, r.Channel, r.Purpose, r.Recipient[:], r.To, r.Locale, r.Reference, r.IP,
				µs(r.TakenAt), r.Clock, µs(now), r.BlockedBy, r.RetryAfter.Microseconds(), r.Count, r.Country, r.Prefix, r.Recipients)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func sqliteRows[T any](ctx context.Context, s *SQLite, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := collect(rows, fields)
	return list, unavailable(err)
}
