package audit

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxLife is the longest that a code lives (SEC-3). Rows stay that much longer, so that the verification that a send opened
// is old enough to go with it.
const maxLife = 10 * time.Minute

// Expirer lets go of what is old (AUDIT-6).
type Expirer interface {
	Maker

	// Expire deletes what was logged longer than age ago: up to limit rows of sends and refusals, the oldest first, and as many
	// verifications, events that providers told, and suppressions that ended so long ago. Sends that are under way, or have a
	// refund due, stay until that is done, each with its verification. Where sends are partitioned, the oldest partition goes
	// whole, with all of its rows, if nothing in it has to stay. Several replicas may call it at once.
	Expire(ctx context.Context, age time.Duration, limit int) (Expired, error)
	// Extent says how far the log reaches, and what Expire and Forget still have to do.
	Extent(ctx context.Context, age time.Duration) (Extent, error)
}

// Expired is what an Expire let go of.
type Expired struct {
	Rows      int    // of sends and refusals, not counting those of a partition
	Partition string // the one that went whole; "" is none
	More      bool   // there may be more to let go of now
}

func checkAge(age time.Duration, limit int) error {
	if age <= 0 || limit < 1 {
		return bad("an age and a limit are positive")
	}
	return nil
}

// Expire implements Log.
func (p *Postgres) Expire(ctx context.Context, age time.Duration, limit int) (gone Expired, err error) {
	if err := checkAge(age, limit); err != nil {
		return gone, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return gone, err
	}
	before := now.Add(-(age + maxLife).Truncate(time.Microsecond))
	if gone.Partition, err = p.dropPartition(ctx, before); err != nil {
		return gone, err
	}
	var verifications, told, failed int
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		// Verifications have ranges of pages by their time, which no other plan can read.
		if _, err := tx.Exec(ctx, `SET LOCAL enable_bitmapscan = on`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, expireSQL, before, limit, lowestID(before.Add(-maxDrift))).Scan(&gone.Rows, &verifications, &told, &failed)
	})
	gone.More = gone.Partition != "" || max(gone.Rows, verifications, told, failed) == limit
	return gone, err
}

// doneWithSQL: nothing waits for the send.
const doneWithSQL = ` AND NOT EXISTS (SELECT 1 FROM flights f WHERE f.id = s.id) AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id)`

// expireSQL lets go of rows one by one. Verifications and what providers told go by their own time, for the sends of a partition
// that went whole can't be asked any more; a verification stays whose send still waits for something.
const expireSQL = `
WITH gone AS MATERIALIZED (
    SELECT s.id FROM sends s
    WHERE s.logged_at < $1` + doneWithSQL + `
    ORDER BY s.logged_at, s.id LIMIT $2 FOR UPDATE OF s SKIP LOCKED
), waits AS MATERIALIZED (
    SELECT s.verification_id FROM sends s WHERE s.id = ANY (ARRAY(SELECT f.id FROM flights f UNION ALL SELECT r.id FROM refunds r)) AND s.logged_at < $1
), ended AS (
    DELETE FROM verifications v WHERE v.id = ANY (ARRAY(
        SELECT o.id FROM verifications o WHERE o.created_at < $1 AND o.id NOT IN (SELECT verification_id FROM waits)
        LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING 1
), of_gone AS (
    DELETE FROM provider_events e WHERE e.send_id = ANY (ARRAY(SELECT gone.id FROM gone))
), told AS (
    DELETE FROM provider_events e WHERE (e.send_id, e.kind) IN (
        SELECT o.send_id, o.kind FROM provider_events o WHERE o.send_id < $3 ORDER BY o.send_id, o.kind LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING 1
), over AS (
    DELETE FROM suppressions x WHERE x.id = ANY (ARRAY(
        SELECT o.id FROM suppressions o WHERE o.since < $1 AND o.until < $1 ORDER BY o.since, o.id LIMIT $2))
), failed AS (
    DELETE FROM failures f WHERE (f.status, f.logged_at, f.id) IN (
        SELECT o.status, o.logged_at, o.id FROM failures o
        WHERE o.status IN ('failed', 'unknown', 'undelivered') AND o.logged_at < $1 AND o.id NOT IN (SELECT r.id FROM refunds r) LIMIT $2)
    RETURNING 1
), over_minutes AS (
    DELETE FROM minutes m WHERE m.minute < $1 - interval '1 minute'
), deleted AS (
    DELETE FROM sends s WHERE s.id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
)
SELECT (SELECT count(*) FROM deleted), (SELECT count(*) FROM ended), (SELECT count(*) FROM told), (SELECT count(*) FROM failed)`

// expiredSQL are the rows that SQLite lets go of, before $1 and no more than $2.
const expiredSQL = ` FROM sends s WHERE s.logged_at < $1` + doneWithSQL + ` ORDER BY s.logged_at, s.id LIMIT $2`

// Expire implements Log.
func (s *SQLite) Expire(ctx context.Context, age time.Duration, limit int) (gone Expired, err error) {
	if err := checkAge(age, limit); err != nil {
		return gone, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		before := µs(now) - (age + maxLife).Microseconds()
		for _, statement := range []string{
			`DELETE FROM verifications WHERE id IN (SELECT s.verification_id` + expiredSQL + `)`,
			`DELETE FROM provider_events WHERE send_id IN (SELECT s.id` + expiredSQL + `)`,
			`DELETE FROM failures WHERE status IN ('failed', 'unknown', 'undelivered') AND logged_at < $1 AND id IN (SELECT s.id` + expiredSQL + `)`,
			`DELETE FROM suppressions WHERE id IN (SELECT id FROM suppressions WHERE since < $1 AND until < $1 ORDER BY since, id LIMIT $2)`,
		} {
			if _, err := tx.ExecContext(ctx, statement, before, limit); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM sends WHERE id IN (SELECT s.id`+expiredSQL+`)`, before, limit)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		gone = Expired{Rows: int(n), More: int(n) == limit}
		return err
	})
	return gone, err
}

// Expire implements Log.
func (m *Memory) Expire(ctx context.Context, age time.Duration, limit int) (gone Expired, err error) {
	if err := checkAge(age, limit); err != nil {
		return gone, err
	}
	now, lost, err := m.enter(ctx, "Expire")
	if err != nil {
		return gone, err
	}
	defer m.leave(lost, &err)
	var rows []*memoryRow
	for _, r := range m.rows {
		if now.Sub(r.LoggedAt) > (age+maxLife).Truncate(time.Microsecond) && r.DueAt.IsZero() && !r.RefundDue {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *memoryRow) int { return byLogged(a.Send, b.Send) })
	rows = rows[:min(limit, len(rows))]
	for _, r := range rows {
		b := r.bucket()
		m.buckets[b] = slices.DeleteFunc(m.buckets[b], func(other *memoryRow) bool { return other == r })
		delete(m.rows, r.ID)
		delete(m.told, r.ID)
		delete(m.verifications, r.VerificationID)
	}
	m.expireSuppressions(now.Add(-(age + maxLife).Truncate(time.Microsecond)), limit)
	return Expired{Rows: len(rows), More: len(rows) == limit}, nil
}
