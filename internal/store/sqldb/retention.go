package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
)

const (
	// settledSQL is the condition that a send s is not in flight and has no refund due.
	settledSQL = `NOT EXISTS (SELECT 1 FROM outbox f WHERE f.id = s.id) AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id)`

	expiringSQL = `SELECT s.id FROM sends s WHERE s.logged_at < @before AND ` + settledSQL + ` ORDER BY s.logged_at, s.id LIMIT @limit`

	// settledCodeSQL is that condition for the sends of a verification o that was opened before @before.
	settledCodeSQL = `o.id NOT IN (
        SELECT s.verification_id FROM sends s
        WHERE s.id = ANY (ARRAY(SELECT f.id FROM outbox f UNION ALL SELECT r.id FROM refunds r)) AND s.logged_at < @before)`

	// dueCodesSQL counts the verifications that are due.
	dueCodesSQL = `SELECT count(*) FROM (SELECT 1 FROM verifications o WHERE o.created_at < @before AND ` + settledCodeSQL + `
  ORDER BY o.created_at LIMIT 10000) old`

	// storageStatusSQL reads the fields of a StorageStatus. @before is the instant before which rows are due; see store.DueBefore.
	storageStatusSQL = `
SELECT (SELECT s.logged_at FROM sends s ORDER BY s.logged_at LIMIT 1), (SELECT s.logged_at FROM refusals s ORDER BY s.logged_at LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM sends s WHERE s.logged_at < @before
         AND ` + settledSQL + ` ORDER BY s.logged_at LIMIT 10000) old),
       (SELECT count(*) FROM (SELECT 1 FROM refusals s WHERE s.logged_at < @before ORDER BY s.logged_at LIMIT 10000) old),
       (SELECT count(*) FROM erasures), (SELECT count(*) FROM erasures e WHERE e.forget_at <= @now)`
)

// Postgres deletes verifications and failures by their own age, unless their send is in flight or has a refund due; SQLite, without
// partitions, together with their sends. A partition takes a week of sends at once, so their verifications go in larger steps than other
// rows: by their places (ctid), 20,000 take 80 ms.
var (
	expireVerificationsSQL = twin{
		Postgres: `
DELETE FROM verifications WHERE ctid = ANY (ARRAY(
    SELECT o.ctid FROM verifications o WHERE o.created_at < @before AND ` + settledCodeSQL + `
    ORDER BY o.created_at LIMIT 40 * @limit FOR UPDATE SKIP LOCKED))`,
		SQLite: `
DELETE FROM verifications WHERE id IN (
    SELECT s.verification_id FROM sends s WHERE s.id IN (SELECT value FROM json_each(@ids)))`,
	}
	expireFailuresSQL = twin{
		Postgres: `
DELETE FROM failures WHERE (status, logged_at, id) IN (
    SELECT o.status, o.logged_at, o.id FROM failures o
    WHERE o.status IN ('failed', 'unknown', 'undelivered') AND o.logged_at < @before
      AND o.id NOT IN (SELECT r.id FROM refunds r) LIMIT @limit)`,
		SQLite: `
DELETE FROM failures WHERE status IN ('failed', 'unknown', 'undelivered') AND logged_at < @before
  AND id IN (SELECT value FROM json_each(@ids))`,
	}
	expireProviderEventsSQL = twin{
		Postgres: `
DELETE FROM provider_events WHERE (send_id, kind) IN (
    SELECT o.send_id, o.kind FROM provider_events o WHERE o.send_id < @lowest
    ORDER BY o.send_id, o.kind LIMIT @limit FOR UPDATE SKIP LOCKED)`,
		SQLite: `
DELETE FROM provider_events WHERE (send_id, kind) IN (
    SELECT o.send_id, o.kind FROM provider_events o WHERE o.send_id < @lowest ORDER BY o.send_id, o.kind LIMIT @limit)`,
	}
	expireMinuteIndexSQL = twin{Postgres: `DELETE FROM minute_index WHERE minute < @minute`}
)

const oldRefusalsSQL = `SELECT o.id FROM refusals o WHERE o.logged_at < @before ORDER BY o.logged_at, o.id LIMIT @limit`

const oldSuppressionsSQL = `
    SELECT o.id FROM suppressions o WHERE o.since < @before AND o.until < @before ORDER BY o.since, o.id LIMIT @limit`

// storageStatus is a row of storageStatusSQL.
type storageStatus struct {
	store.StorageStatus
	oldestRefusal time.Time
	dueRefusals   int
}

func (e *storageStatus) fields() []any {
	return []any{columns.Into(&e.Oldest), columns.Into(&e.oldestRefusal), &e.Due, &e.dueRefusals, &e.Forgetting, &e.Late}
}

// total returns the status of sends, with their verifications, and refusals together.
func (e storageStatus) total() store.StorageStatus {
	if e.Oldest.IsZero() || !e.oldestRefusal.IsZero() && e.oldestRefusal.Before(e.Oldest) {
		e.Oldest = e.oldestRefusal
	}
	e.Due = min(e.Due+e.dueRefusals, store.MaxDue)
	return e.StorageStatus
}

// Expire deletes rows that were logged longer than age ago: up to limit rows each of sends, oldest first, refusals, verifications,
// provider events, and suppressions that also ended so long ago. A send in flight or with a refund due stays until
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
	ids, err := All(q, OneColumn[uuid.UUID], q.Dialect.locked(expiringSQL), args)
	if err != nil {
		return gone, err
	}
	args["ids"], args["minute"] = ids, before.Add(-time.Minute)
	most, among := int64(len(ids)), q.Dialect.in("ids")
	for _, statement := range []string{q.Dialect.pick(expireVerificationsSQL), q.Dialect.pick(expireFailuresSQL),
		q.Dialect.pick(expireProviderEventsSQL), `DELETE FROM suppressions WHERE id ` + q.Dialect.among(oldSuppressionsSQL)} {
		n, err := q.Run(statement, args, nil)
		if err != nil {
			return gone, err
		}
		most = max(most, n)
	}
	refusals, err := q.Run(`DELETE FROM refusals WHERE id `+q.Dialect.among(q.Dialect.locked(oldRefusalsSQL)), args, nil)
	if err != nil {
		return gone, err
	}
	err = q.ExecAll(args, `DELETE FROM provider_events WHERE send_id `+among, `DELETE FROM sends WHERE id `+among,
		q.Dialect.pick(expireMinuteIndexSQL))
	return store.Expired{Rows: len(ids) + int(refusals), More: max(most, refusals) >= int64(limit)}, err
}

// StorageStatus returns the age of the oldest row, and how much Expire and Forget still have to do.
func (db *DB) StorageStatus(ctx context.Context, age time.Duration) (e store.StorageStatus, err error) {
	_, err = db.readAt(ctx, func(q Tx, now time.Time) error {
		before := store.DueBefore(now, age)
		row, err := firstRow(q, (*storageStatus).fields, storageStatusSQL, Args{"before": before, "now": now})
		if err != nil {
			return err
		}
		if q.Dialect == Postgres { // else they go with their sends
			codes, err := firstRow(q, OneColumn[int], dueCodesSQL, Args{"before": before})
			if err != nil {
				return err
			}
			row.Due = max(row.Due, codes)
		}
		e = row.total()
		e.Now, e.Age = now, age
		return nil
	})
	if err != nil {
		return store.StorageStatus{}, err
	}
	e.Partitions, err = db.Partitions(ctx)
	return e, err
}

// Partitions returns the partitions of sends, oldest first; none in SQLite.
func (db *DB) Partitions(ctx context.Context) ([]store.Partition, error) {
	if db.Dialect == SQLite {
		return nil, nil
	}
	return ReadAll(ctx, db, func(x *store.Partition) []any {
		return []any{&x.Name, columns.Into(&x.Begins), columns.Into(&x.Ends), &x.Rows, &x.Bytes}
	}, `
SELECT p.name, p.begins, p.ends, c.reltuples::bigint, pg_total_relation_size(p.id)
FROM sendcode_partitions p JOIN pg_class c ON c.oid = p.id ORDER BY p.ends`, nil)
}
