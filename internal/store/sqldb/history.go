package sqldb

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
	"sendcode/internal/store/gate"
)

// readSince runs a statement with @after set to the database's time minus within.
func readSince[T any](ctx context.Context, db *DB, name string, within time.Duration, fields func(*T) []any, statement string,
	args Args) (rows []T, err error) {
	_, err = db.readWithClock(ctx, name, func(q Tx, now time.Time) error {
		args["after"] = now.Add(-within.Truncate(time.Microsecond))
		rows, err = QueryAll(q, fields, statement, args)
		return err
	})
	return rows, err
}

// SQLiteCountedInBucketSQL is SQLite's statement that reads the counted sends of a bucket after @after.
// It is written so that only the index by recipient and time can be used. IS TRUE keeps the planner
// from an index on app, channel and purpose, which would read the rows of all recipients. Postgres
// has historySQL and gateSQL.
var SQLiteCountedInBucketSQL = `
SELECT s.id, s.logged_at, s.verification_id FROM sends s
WHERE s.recipient <= @recipient AND (s.recipient, s.logged_at) > (@recipient, @after)
  AND (s.app = @app AND s.channel = @channel AND s.purpose ` + SQLite.inList("purposes") + `) IS TRUE AND (s.counts = true) IS TRUE`

func pastSendFields(p *gate.PastSend) []any {
	return []any{&p.ID, columns.ScannerFor(&p.At), &p.Verification}
}

// rejectedSendsSQL selects the rejected sends of a recipient that ended after @after.
const rejectedSendsSQL = `
SELECT f.id, f.finished_at FROM failures f
WHERE f.recipient = @recipient AND f.app = @app AND f.channel = @channel AND f.counts = true AND f.finished_at > @after`

func rejectedSendFields(p *gate.PastSend) []any { return []any{&p.ID, columns.ScannerFor(&p.At)} }

// bucketArgs are the parameters of SQLiteCountedInBucketSQL and rejectedSendsSQL, except @after.
func bucketArgs(b store.Bucket) Args {
	return Args{"recipient": b.Recipient, "app": b.App, "channel": b.Channel, "purposes": b.Purposes}
}

// SQLiteCountedInBucket returns the counted sends of a bucket that are younger than within. It is for SQLite.
func (q Tx) SQLiteCountedInBucket(b store.Bucket, within time.Duration) ([]gate.PastSend, error) {
	args := bucketArgs(b)
	args["after"] = q.Now.Add(-within)
	return QueryAll(q, pastSendFields, SQLiteCountedInBucketSQL, args)
}

// RejectedSends returns the rejected sends of the bucket's recipient, of all purposes, that ended
// less than within ago; see store.Outcome.BadAddress.
func (q Tx) RejectedSends(b store.Bucket, within time.Duration) ([]gate.PastSend, error) {
	args := bucketArgs(b)
	args["after"] = q.Now.Add(-within.Truncate(time.Microsecond))
	return QueryAll(q, rejectedSendFields, rejectedSendsSQL, args)
}

// ReadSQLiteHistory is SQLite's ReadHistory, by statements of its own, which share no round trip.
func (db *DB) ReadSQLiteHistory(ctx context.Context, l gate.HistoryQuery) (seen gate.History, err error) {
	seen.Now, err = db.readWithClock(ctx, "ReadHistory", func(q Tx, now time.Time) error {
		q.Now = now
		if l.CountedWithin > 0 {
			seen.Past, err = q.SQLiteCountedInBucket(l.Bucket, l.CountedWithin)
		}
		if l.RejectedWithin > 0 && err == nil {
			seen.Rejections, err = q.RejectedSends(l.Bucket, l.RejectedWithin)
		}
		return err
	})
	return seen, err
}

// FailedSends returns the sends that q selects, oldest first, and the time on the database's clock.
func (db *DB) FailedSends(ctx context.Context,
	q store.FailedSendsQuery) (failed []store.FailedSend, now time.Time, err error) {
	now, err = db.readWithClock(ctx, "FailedSends", func(tx Tx, now time.Time) error {
		failed, err = QueryAll(tx, func(f *store.FailedSend) []any {
			return []any{&f.ID, columns.ScannerFor(&f.EndedAt), &f.Purpose, &f.CountsForBackoff, &f.Paused, &f.PauseInForce}
		}, `
SELECT s.id, f.finished_at, s.purpose, s.was_reset = false AND s.reason NOT IN ('`+store.ReasonEnded+`', '`+store.ReasonErased+`')
  AND NOT EXISTS (SELECT 1 FROM sends o WHERE o.recipient = @recipient AND o.logged_at > @after AND o.app = @app AND o.channel = @channel
    AND o.status = 'sent' AND o.finished_at > f.finished_at), s.reason = '`+store.ReasonPaused+`', EXISTS (SELECT 1 FROM prefix_pauses p
    WHERE p.app = s.app AND p.prefix = s.prefix AND p.class = v.class AND p.lifted_at IS NULL AND p.until > @at)
FROM `+tx.Dialect.pick(failuresFromSQL)+` JOIN verifications v ON v.id = s.verification_id
WHERE f.recipient = @recipient AND f.app = @app AND f.channel = @channel AND f.finished_at > @after
  AND f.status = 'failed' AND f.counts = false AND v.class = @class
ORDER BY f.finished_at, f.id`, Args{"recipient": q.Recipient, "app": q.App, "channel": q.Channel, "class": q.Class, "at": now,
			"after": now.Add(-q.Within.Truncate(time.Microsecond))})
		return err
	})
	return failed, now, err
}

// HeavyRecipientsSQL returns the statement that finds recipients with many counted sends after
// @after. Its last column is the number of all such recipients, without the limit.
func (d dialect) HeavyRecipientsSQL() string {
	return `
SELECT s.app, s.channel, s.recipient, max(s.masked), max(s.purpose), count(*), max(s.logged_at), count(*) OVER ()
FROM sends s WHERE s.counts = true AND s.logged_at > @after AND s.purpose ` + d.inList("purposes") + ` AND ` + d.partitionsSince("@after") + `
GROUP BY s.app, s.channel, s.recipient HAVING count(*) >= @least ORDER BY max(s.logged_at) DESC, s.recipient LIMIT @limit`
}

// HeavyRecipients returns up to q.Limit recipients with many counted sends, newest send first, and
// the number of all such recipients.
func (db *DB) HeavyRecipients(ctx context.Context, q store.HeavyRecipientsQuery) ([]store.HeavyRecipient, int, error) {
	all := 0
	rows, err := readSince(ctx, db, "HeavyRecipients", q.Within, func(c *store.HeavyRecipient) []any {
		return []any{&c.App, &c.Channel, columns.ScannerFor(&c.Recipient), &c.To, &c.Purpose, &c.Sends,
			columns.ScannerFor(&c.Newest), &all}
	}, db.Dialect.HeavyRecipientsSQL(), Args{"purposes": q.Purposes, "least": q.AtLeast, "limit": q.Limit})
	return rows, all, err
}
