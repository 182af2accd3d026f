package audit

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
	var verifications, told int
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, expireSQL, before, limit, lowestID(before.Add(-maxDrift))).Scan(&gone.Rows, &verifications, &told)
	})
	gone.More = gone.Partition != "" || max(gone.Rows, verifications, told) == limit
	return gone, err
}

// expireSQL lets go of rows one by one. Verifications and what providers told go by their own time, for the sends of a partition
// that went whole can't be asked any more; a verification stays whose send still waits for something.
const expireSQL = `
WITH gone AS MATERIALIZED (
    SELECT s.id FROM sends s
    WHERE s.logged_at < $1 AND s.due_at IS NULL AND s.refund_since IS NULL
    ORDER BY s.logged_at, s.id LIMIT $2 FOR UPDATE SKIP LOCKED
), waits AS MATERIALIZED (
    SELECT s.verification_id FROM sends s WHERE s.due_at IS NOT NULL AND s.logged_at < $1
    UNION ALL
    SELECT s.verification_id FROM sends s WHERE s.refund_since IS NOT NULL AND s.logged_at < $1
), ended AS (
    DELETE FROM verifications v WHERE v.id = ANY (ARRAY(
        SELECT o.id FROM verifications o WHERE o.created_at < $1 AND o.id NOT IN (SELECT verification_id FROM waits)
        ORDER BY o.created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
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
), deleted AS (
    DELETE FROM sends s WHERE s.id = ANY (ARRAY(SELECT gone.id FROM gone)) RETURNING 1
)
SELECT (SELECT count(*) FROM deleted), (SELECT count(*) FROM ended), (SELECT count(*) FROM told)`

// Expire implements Log.
func (s *SQLite) Expire(ctx context.Context, age time.Duration, limit int) (gone Expired, err error) {
	if err := checkAge(age, limit); err != nil {
		return gone, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		before := µs(now) - (age + maxLife).Microseconds()
		if _, err := tx.ExecContext(ctx, `
DELETE FROM verifications WHERE id IN (
    SELECT verification_id FROM sends WHERE logged_at < $1 AND due_at IS NULL AND refund_since IS NULL ORDER BY logged_at, id LIMIT $2)`, before, limit); err != nil {
			return err
		}
		for _, statement := range []string{`
DELETE FROM provider_events WHERE send_id IN (
    SELECT id FROM sends WHERE logged_at < $1 AND due_at IS NULL AND refund_since IS NULL ORDER BY logged_at, id LIMIT $2)`, `
DELETE FROM suppressions WHERE id IN (SELECT id FROM suppressions WHERE since < $1 AND until < $1 ORDER BY since, id LIMIT $2)`} {
			if _, err := tx.ExecContext(ctx, statement, before, limit); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, `
DELETE FROM sends WHERE id IN (
    SELECT id FROM sends WHERE logged_at < $1 AND due_at IS NULL AND refund_since IS NULL ORDER BY logged_at, id LIMIT $2)`, before, limit)
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
