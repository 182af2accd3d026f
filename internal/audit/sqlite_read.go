package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
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

// Verification implements Log.
func (s *SQLite) Verification(ctx context.Context, id string) (Verification, Send, time.Time, error) {
	v, newest, err := s.verification(ctx, id)
	if err != nil {
		return Verification{}, Send{}, time.Time{}, unavailable(err)
	}
	return v, newest, micro(s.now()), nil
}

func (s *SQLite) verification(ctx context.Context, id string) (v Verification, newest Send, err error) {
	v, err = sqliteVerification(ctx, s.readers, id)
	if err != nil {
		return v, newest, err
	}
	newest, err = first(ctx, s.readers, (*Send).fields, `
SELECT `+sendColumns+` FROM sends s WHERE s.verification_id <> '' AND s.verification_id = $1 AND s.status <> 'refused'
ORDER BY s.number DESC LIMIT 1`, id)
	return v, newest, err
}

// Sends implements Log.
func (s *SQLite) Sends(ctx context.Context, filter Filter) ([]Send, error) {
	filter, err := filter.checked()
	if err != nil {
		return nil, err
	}
	query, args := filter.query(sqliteWords)
	rows, err := s.sends(ctx, query, args...)
	return filter.newestFirst(rows), err
}

func (s *SQLite) sends(ctx context.Context, query string, args ...any) ([]Send, error) {
	return sqliteRows(ctx, s, (*Send).fields, query, args...)
}

func sqliteRows[T any](ctx context.Context, s *SQLite, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := collect(rows, fields)
	return list, unavailable(err)
}

// Referenced implements Log.
func (s *SQLite) Referenced(ctx context.Context, support string) ([]Send, error) {
	r, ok := readReference(support)
	if !ok {
		return nil, nil
	}
	from, to := r.between()
	rows, err := s.sends(ctx, referencedSends, from, to)
	return r.of(rows), err
}

// referencedSends are the rows that may have a reference; both databases understand it.
var referencedSends = fmt.Sprintf(`SELECT %s FROM sends s WHERE s.id >= $1 AND s.id < $2 ORDER BY s.id LIMIT %d`, sendColumns, maxReferenced)

// Story implements Log.
func (s *SQLite) Story(ctx context.Context, id uuid.UUID) (Story, error) {
	send, err := sqliteSend(ctx, s.readers, id)
	if err != nil {
		return Story{}, unavailable(err)
	}
	story := Story{Send: send, Now: micro(s.now())}
	if story.Suppressions, err = sqliteSuppressionsOf(ctx, s.readers, send); err != nil {
		return Story{}, unavailable(err)
	}
	if send.untried() {
		if story.Pause, err = theOne(sqliteRows(ctx, s, (*PrefixPause).fields, pauseOfSQL, send.pauseArgs(sqliteWords)...)); err != nil {
			return Story{}, err
		}
	}
	if story.Events, err = sqliteRows(ctx, s, (*ProviderEvent).fields, toldSQL, id); err != nil {
		return Story{}, err
	}
	if send.VerificationID == "" {
		return story, nil
	}
	v, err := sqliteVerification(ctx, s.readers, send.VerificationID)
	if errors.Is(err, ErrNotFound) {
		return story, nil
	}
	if err != nil {
		return Story{}, unavailable(err)
	}
	story.Verification = &v
	story.Related, err = s.sends(ctx, relatedSQL(""), v.ID, refusedAs(v.Recipient), v.App, v.Channel, µs(v.CreatedAt), µs(v.ExpiresAt))
	return story, err
}

// refusedAs finds the refusals of a recipient; none of one who was forgotten, for nobody's hash is that of them all.
func refusedAs(h recipient.Hash) []byte {
	if h == nobody {
		return []byte{}
	}
	return h[:]
}

// relatedSQL are the rows of a Story; both databases understand it but for the further condition, which may be empty.
func relatedSQL(further string) string {
	return fmt.Sprintf(`
SELECT %[1]s FROM sends s WHERE s.verification_id <> '' AND s.verification_id = $1 AND s.status <> 'refused'%[3]s
UNION ALL
SELECT %[1]s FROM sends s WHERE s.recipient = $2 AND s.app = $3 AND s.channel = $4 AND s.logged_at >= $5 AND s.logged_at < $6 AND s.status = 'refused'%[3]s
ORDER BY 20, 1 LIMIT %[2]d`, sendColumns, maxRelated, further) // logged_at, id
}

// Counting implements Log. It reads in pages: no statement runs while yield does, which may use the log.
func (s *SQLite) Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error {
	mark := Mark{At: micro(s.now()).Add(-within.Truncate(time.Microsecond)), ID: uuid.Max}
	for {
		page, err := s.sends(ctx, countingSQLite, µs(mark.At), mark.ID, countingPage)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := yield(counting(row, clock)); err != nil {
				return err
			}
		}
		if len(page) < countingPage {
			return nil
		}
		last := page[len(page)-1]
		mark = Mark{At: last.LoggedAt, ID: last.ID}
	}
}

const countingSQLite = `
SELECT ` + sendColumns + ` FROM sends s WHERE (s.logged_at, s.id) > ($1, $2) AND s.counts = 1 ORDER BY s.logged_at, s.id LIMIT $3`
