package audit

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Refused implements Log.
func (p *Postgres) Refused(ctx context.Context, refusals []Send) error {
	rows, err := merged(refusals)
	if err != nil || len(rows) == 0 {
		return err
	}
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch // one transaction
		for ; len(rows) > 0; rows = rows[min(len(rows), maxRefusals):] {
			b.Queue(p.sql(refusedSQL), refusalParameters(rows[:min(len(rows), maxRefusals)])...)
		}
		return conn.SendBatch(ctx, &b).Close()
	})
}

// maxRefusals is how many rows one statement writes.
const maxRefusals = 1000

// refusedSQL keeps a refusal under its timely ID.
var refusedSQL = strings.ReplaceAll(`
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, country, prefix, locale, reference, ip, status,
                   attempt, counts, taken_at, clock, logged_at, finished_at, blocked_by, retry_after, requests, recipients)
SELECT CASE WHEN r.id BETWEEN sendcode_lowest_id(clock.now - {{drift}}) AND sendcode_lowest_id(clock.now + {{drift}}) THEN r.id
            ELSE (left(sendcode_lowest_id(clock.now)::text, 13) || substr(r.id::text, 14))::uuid END,
       r.verification_id, 0, r.app, r.channel, r.purpose, r.recipient, r.masked, r.country, r.prefix, r.locale, r.reference, r.ip, 'refused',
       0, false, coalesce(r.taken_at, clock.now), r.clock, clock.now, clock.now, r.blocked_by, r.retry_after, r.requests, r.recipients
FROM (SELECT {{now}} AS now OFFSET 0) clock,
     unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::timestamptz[], $12::text[], $13::text[], $14::bigint[], $15::int[], $16::text[], $17::text[], $18::int[])
     AS r(id, verification_id, app, channel, purpose, recipient, masked, locale, reference, ip,
          taken_at, clock, blocked_by, retry_after, requests, country, prefix, recipients)
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + excluded.requests, retry_after = excluded.retry_after,
              recipients = greatest(sends.recipients, excluded.recipients)
WHERE sends.status = 'refused'`, "{{drift}}", interval(maxDrift))

func refusalParameters(rows []Send) []any {
	text := func(part func(Send) string) []string { return each(rows, part) }
	return []any{
		each(rows, func(s Send) [16]byte { return s.ID }),
		text(func(s Send) string { return s.VerificationID }),
		text(func(s Send) string { return s.App }),
		text(func(s Send) string { return string(s.Channel) }),
		text(func(s Send) string { return s.Purpose }),
		each(rows, func(s Send) []byte { return s.Recipient[:] }),
		text(func(s Send) string { return s.To }),
		text(func(s Send) string { return s.Locale }),
		text(func(s Send) string { return s.Reference }),
		text(func(s Send) string { return s.IP }),
		each(rows, func(s Send) *time.Time {
			if s.Clock == LogClock {
				return nil
			}
			return known(s.TakenAt)
		}),
		text(func(s Send) string { return s.Clock }),
		text(func(s Send) string { return s.BlockedBy }),
		each(rows, func(s Send) int64 { return s.RetryAfter.Microseconds() }),
		each(rows, func(s Send) int32 { return int32(s.Count) }),
		text(func(s Send) string { return s.Country }),
		text(func(s Send) string { return s.Prefix }),
		each(rows, func(s Send) int32 { return int32(s.Recipients) }),
	}
}
