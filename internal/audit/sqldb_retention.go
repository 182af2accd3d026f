package audit

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	// settledSQL: nothing is under way of the send, and no refund is due.
	settledSQL = `s.due_at IS NULL AND s.refund_since IS NULL`

	expiringSQL = `SELECT s.id FROM sends s WHERE s.logged_at < @before AND ` + settledSQL + ` ORDER BY s.logged_at, s.id LIMIT @limit {{skip locked}}`

	// A verification goes with its send, where no send went with a whole partition.
	expireWithSendsSQL = `
DELETE FROM verifications WHERE id IN (SELECT s.verification_id FROM sends s WHERE s.id IN (@ids))`

	// Else it goes by its own time, but stays while its send waits for something.
	expireVerificationsSQL = `
DELETE FROM verifications WHERE id {{among}}
    SELECT o.id FROM verifications o WHERE o.created_at < @before AND o.id NOT IN (
        SELECT s.verification_id FROM sends s WHERE s.due_at IS NOT NULL AND s.logged_at < @before
        UNION ALL
        SELECT s.verification_id FROM sends s WHERE s.refund_since IS NOT NULL AND s.logged_at < @before)
    ORDER BY o.created_at LIMIT @limit {{skip locked}} {{end}}`

	expireProviderEventsSQL = `
DELETE FROM provider_events WHERE (send_id, kind) IN (
    SELECT o.send_id, o.kind FROM provider_events o WHERE o.send_id < @lowest ORDER BY o.send_id, o.kind LIMIT @limit {{skip locked}})`

	expireSuppressionsSQL = `
DELETE FROM suppressions WHERE id {{among}}
    SELECT o.id FROM suppressions o WHERE o.since < @before AND o.until < @before ORDER BY o.since, o.id LIMIT @limit {{end}}`

	// extentSQL has the instant before which rows are due, or before which there is none.
	extentSQL = `
SELECT (SELECT s.logged_at FROM sends s ORDER BY s.logged_at, s.id LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM sends s WHERE s.logged_at < @before AND ` + settledSQL + ` ORDER BY s.logged_at LIMIT 10000) old),
       (SELECT count(*) FROM erasures), (SELECT count(*) FROM erasures e WHERE e.forget_at <= @now)`
)

func extentFields(e *Extent) []any {
	return []any{timeField{&e.Oldest}, &e.Due, &e.Forgetting, &e.Late}
}

func idField(id *uuid.UUID) []any { return []any{id} }

// Expire implements Expirer. Events of providers go by their own time as well as with their sends.
func (db *DB) Expire(ctx context.Context, age time.Duration, limit int) (gone Expired, err error) {
	if err := checkAge(age, limit); err != nil {
		return gone, err
	}
	err = db.write(ctx, func(q Tx) error {
		gone, err = q.expire(q.now.Add(-(age + maxLife).Truncate(time.Microsecond)), limit)
		return err
	})
	return gone, err
}

func (q Tx) expire(before time.Time, limit int) (gone Expired, err error) {
	args := Args{"before": before, "limit": limit, "lowest": lowestID(before.Add(-maxDrift))}
	ids, err := all(q, idField, expiringSQL, args)
	if err != nil {
		return gone, err
	}
	args["ids"] = ids
	most, verifications := int64(len(ids)), expireWithSendsSQL
	if q.dialect.partitioned {
		verifications = expireVerificationsSQL
	}
	for _, statement := range []string{verifications, expireProviderEventsSQL, expireSuppressionsSQL} {
		n, err := q.run(statement, args, nil)
		if err != nil {
			return gone, err
		}
		most = max(most, n)
	}
	err = q.execAll(args, `DELETE FROM provider_events WHERE send_id IN (@ids)`, `DELETE FROM sends WHERE id IN (@ids)`)
	return Expired{Rows: len(ids), More: most >= int64(limit)}, err
}

// Extent implements Expirer.
func (db *DB) Extent(ctx context.Context, age time.Duration) (e Extent, err error) {
	err = db.read(ctx, func(q Tx) error {
		now, err := q.clock()
		if err != nil {
			return err
		}
		e, err = single(q, extentFields, extentSQL, Args{"before": dueBefore(now, age), "now": now})
		e.Now, e.Age = now, age
		return err
	})
	return e, err
}
