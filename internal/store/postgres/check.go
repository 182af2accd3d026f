package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
)

// All tries of one recipient's codes go one after the other: the count of its failures must hold until the next is
// counted. The lock is a statement of its own, so that the next one's snapshot is younger than it.
const (
	lockTriesSQL = `
SELECT pg_advisory_xact_lock(hashtextextended(v.app || chr(31) || v.channel || chr(31) || encode(v.recipient, 'hex'), 1))
FROM verifications v WHERE v.id = $1`

	// lockRecipientSQL takes the same lock for one who has no verification at hand.
	lockRecipientSQL = `SELECT pg_advisory_xact_lock(hashtextextended($1::text || chr(31) || $2::text || chr(31) || encode($3::bytea, 'hex'),
  1))`

	countTrySQL = `
UPDATE verifications v SET attempts = v.attempts + 1
WHERE v.id = $1 AND v.attempts < v.max_attempts AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.expires_at > {{now}}
  AND (SELECT coalesce(sum(greatest(0, o.attempts - o.forgiven - CASE WHEN o.approved_at IS NULL THEN 0 ELSE 1 END)), 0)
    FROM verifications o
       WHERE o.recipient = v.recipient AND o.app = v.app AND o.channel = v.channel AND o.by_browser = v.by_browser AND o.attempts > 0
         AND o.expires_at > (SELECT {{now}} - $2 * interval '1 microsecond')) < $3
  AND (SELECT coalesce(sum(o.attempts - o.forgiven), 0) FROM verifications o
       WHERE o.recipient = v.recipient AND o.app = v.app AND o.channel = v.channel AND o.by_browser = v.by_browser AND o.attempts > 0
         AND o.approved_at IS NULL
         AND o.expires_at > greatest((SELECT {{now}} - $4 * interval '1 microsecond'), (
             SELECT max(a.approved_at) FROM verifications a
             WHERE a.recipient = v.recipient AND a.app = v.app AND a.channel = v.channel AND a.by_browser = v.by_browser AND a.attempts > 0
               AND a.expires_at > (SELECT {{now}} - $4 * interval '1 microsecond')))) < $5`
)

// Attempt implements Verifications.
func (p *DB) Attempt(ctx context.Context, id string) (v store.Verification, counted bool, now time.Time, err error) {
	if !store.ValidTexts(id) {
		return v, false, now, store.ErrNotFound
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		counted, now, err = p.countTry(ctx, conn, id, &v)
		return err
	})
	if err != nil {
		return store.Verification{}, false, time.Time{}, err
	}
	return v, counted, now, nil
}

// countTry counts one try of a code in one round trip. Each statement sees what was committed before it began, also if the server's
// default isolation is another.
func (p *DB) countTry(ctx context.Context, conn *pgxpool.Conn, id string, v *store.Verification) (counted bool, now time.Time, err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(lockTriesSQL, id)
	b.Queue(p.sql(countTrySQL), id, gate.FailureWindow.Microseconds(), gate.FailureLimit, gate.RowWindow.Microseconds(), gate.RowLimit)
	b.Queue(p.sql(`SELECT {{now}}, `+sqldb.VerificationColumns+` FROM verifications v WHERE v.id = $1`), id)
	b.Queue("COMMIT")
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return false, now, err
		}
	}
	tag, err := results.Exec()
	if err != nil {
		return false, now, err
	}
	err = results.QueryRow().Scan(append([]any{sqldb.TimeField{To: &now}}, sqldb.VerificationFields(v)...)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, now, store.ErrNotFound
	case err != nil:
		return false, now, err
	}
	if done, err := results.Exec(); err != nil || done.String() != "COMMIT" {
		return false, now, errors.Join(err, errors.New("store: a try was not committed"))
	}
	return tag.RowsAffected() > 0, now, nil
}
