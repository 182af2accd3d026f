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
		insert, err := tx.PrepareContext(ctx, sendTable.insertOne(asBlock)+addRefusalSQL)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range rows {
			rows[i].refusedAt(now)
			if _, err := insert.ExecContext(ctx, sendTable.values(asBlock, &rows[i])...); err != nil {
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
	newest, err = first(ctx, s.readers, (*Send).fields, `SELECT `+sendColumns+` FROM sends s WHERE `+sentOfSQL+` ORDER BY s.number DESC LIMIT 1`,
		id, v.Recipient[:], µs(v.CreatedAt.Add(-maxDrift)))
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
	story.Related, err = s.sends(ctx, relatedSQL(""), v.ID, v.Recipient[:], µs(v.CreatedAt.Add(-maxDrift)),
		refusedAs(v.Recipient), v.App, v.Channel, µs(v.CreatedAt), µs(v.ExpiresAt))
	return story, err
}

// refusedAs finds the refusals of a recipient; none of one who was forgotten, for nobody's hash is that of them all.
func refusedAs(h recipient.Hash) []byte {
	if h == nobody {
		return []byte{}
	}
	return h[:]
}

// sentOfSQL finds the sends of a verification, $1, by its recipient, $2, and the time before which it was not there, $3. Both databases
// understand it.
const sentOfSQL = `s.recipient = $2 AND s.number > 0 AND s.logged_at > $3 AND s.verification_id = $1`

// relatedSQL are the rows of a Story; both databases understand it but for the further condition, which may be empty.
func relatedSQL(further string) string {
	return fmt.Sprintf(`
SELECT %[1]s FROM sends s WHERE `+sentOfSQL+`%[3]s
UNION ALL
SELECT %[1]s FROM sends s WHERE s.recipient = $4 AND s.app = $5 AND s.channel = $6 AND s.logged_at >= $7 AND s.logged_at < $8 AND s.number = 0%[3]s
ORDER BY logged_at, id LIMIT %[2]d`, sendColumns, maxRelated, further)
}

// Counting implements Log.
func (s *SQLite) Counting(ctx context.Context, clock string, within time.Duration, yield func(Counting) error) error {
	rows, err := s.readers.QueryContext(ctx, `
SELECT `+sendColumns+` FROM sends s WHERE s.logged_at > $1 AND s.counts = 1 ORDER BY s.logged_at, s.id`, µs(micro(s.now()))-within.Microseconds())
	if err != nil {
		return unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row Send
		if err := rows.Scan(row.fields()...); err != nil {
			return unavailable(err)
		}
		if err := yield(counting(row, clock)); err != nil {
			return err
		}
	}
	return unavailable(rows.Err())
}
