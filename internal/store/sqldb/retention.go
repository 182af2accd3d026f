package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

const (
	// settledSQL is the condition that a send s is not in flight and has no refund due.
	settledSQL = `NOT EXISTS (SELECT 1 FROM outbox f WHERE f.id = s.id) AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id)`

	expiringSQL = `SELECT s.id FROM sends s WHERE s.logged_at < @before AND ` + settledSQL +
		` ORDER BY s.logged_at, s.id LIMIT @limit {{skip locked}}`

	// Without partitions, verifications and failures are deleted together with their sends.
	expireWithSendsSQL = `
DELETE FROM verifications WHERE id IN (SELECT s.verification_id FROM sends s WHERE s.id IN (@ids))`
	expireFailuresWithSendsSQL = `
DELETE FROM failures WHERE status IN ('failed', 'unknown', 'undelivered') AND logged_at < @before AND id IN (@ids)`

	// With partitions, they are deleted by their own age, unless their send is in flight or has a refund due.
	expireVerificationsSQL = `
DELETE FROM verifications WHERE id {{among}}
    SELECT o.id FROM verifications o WHERE o.created_at < @before AND o.id NOT IN (
        SELECT s.verification_id FROM sends s WHERE s.id {{among}} SELECT f.id FROM outbox f UNION ALL SELECT r.id FROM refunds r {{end}}
          AND s.logged_at < @before)
    LIMIT @limit {{skip locked}} {{end}}`
	expireFailuresSQL = `
DELETE FROM failures WHERE (status, logged_at, id) IN (
    SELECT o.status, o.logged_at, o.id FROM failures o
    WHERE o.status IN ('failed', 'unknown', 'undelivered') AND o.logged_at < @before
      AND o.id NOT IN (SELECT r.id FROM refunds r) LIMIT @limit)`

	expireMinuteIndexSQL = `DELETE FROM minute_index WHERE minute < @minute`

	expireProviderEventsSQL = `
DELETE FROM provider_events WHERE (send_id, kind) IN (
    SELECT o.send_id, o.kind FROM provider_events o WHERE o.send_id < @lowest ORDER BY o.send_id, o.kind LIMIT @limit {{skip locked}})`

	expireSuppressionsSQL = `
DELETE FROM suppressions WHERE id {{among}}
    SELECT o.id FROM suppressions o WHERE o.since < @before AND o.until < @before ORDER BY o.since, o.id LIMIT @limit {{end}}`

	// storageStatusSQL reads the fields of a StorageStatus. @before is the instant before which rows are due; see store.DueBefore.
	storageStatusSQL = `
SELECT (SELECT s.logged_at FROM sends s ORDER BY s.logged_at LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM sends s WHERE s.logged_at < @before
         AND ` + settledSQL + ` ORDER BY s.logged_at LIMIT 10000) old),
       (SELECT count(*) FROM erasures), (SELECT count(*) FROM erasures e WHERE e.forget_at <= @now)`
)

func storageStatusFields(e *store.StorageStatus) []any {
	return []any{TimeField{&e.Oldest}, &e.Due, &e.Forgetting, &e.Late}
}

// Expire deletes rows that were logged longer than age ago: up to limit sends and refusals, oldest first, and up to limit rows each of
// verifications, provider events, and suppressions that also ended so long ago. A send in flight or with a refund due stays until
// that is done, and its verification too. With partitions, it first drops the oldest partition if no row in it has to stay. Several
// replicas may call it at once.
func (db *DB) Expire(ctx context.Context, age time.Duration, limit int) (gone store.Expired, err error) {
	dropped, err := db.DropPartition(ctx, age)
	if err != nil {
		return gone, err
	}
	gone, err = Writing(ctx, db, func(q Tx) (store.Expired, error) { return q.expire(store.DueBefore(q.Now, age), limit) })
	gone.Partition, gone.More = dropped, gone.More || dropped != ""
	return gone, err
}

func (q Tx) expire(before time.Time, limit int) (gone store.Expired, err error) {
	args := Args{"before": before, "limit": limit, "lowest": store.LowestID(before.Add(-store.MaxDrift))}
	if err := q.ExecAll(nil, q.Dialect.BeforeExpire...); err != nil {
		return gone, err
	}
	ids, err := All(q, OneColumn[uuid.UUID], expiringSQL, args)
	if err != nil {
		return gone, err
	}
	args["ids"], args["minute"] = ids, before.Add(-time.Minute)
	most, statements := int64(len(ids)), []string{expireWithSendsSQL, expireFailuresWithSendsSQL, expireProviderEventsSQL,
		expireSuppressionsSQL}
	last := []string{`DELETE FROM provider_events WHERE send_id IN (@ids)`, `DELETE FROM sends WHERE id IN (@ids)`}
	if q.Dialect.Partitioned {
		statements[0], statements[1] = expireVerificationsSQL, expireFailuresSQL
		last = append(last, expireMinuteIndexSQL)
	}
	for _, statement := range statements {
		n, err := q.Run(statement, args, nil)
		if err != nil {
			return gone, err
		}
		most = max(most, n)
	}
	err = q.ExecAll(args, last...)
	return store.Expired{Rows: len(ids), More: most >= int64(limit)}, err
}

// StorageStatus returns the age of the oldest row, and how much Expire and Forget still have to do.
func (db *DB) StorageStatus(ctx context.Context, age time.Duration) (e store.StorageStatus, err error) {
	_, err = db.readAt(ctx, func(q Tx, now time.Time) error {
		e, err = firstRow(q, storageStatusFields, storageStatusSQL, Args{"before": store.DueBefore(now, age), "now": now})
		e.Now, e.Age = now, age
		return err
	})
	if err != nil {
		return store.StorageStatus{}, err
	}
	e.Partitions, err = db.Partitions(ctx)
	return e, err
}
