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
	// Expire deletes up to limit rows of sends and refusals that were logged longer than age ago, the oldest first, each
	// with the verification that it opened and what providers told of it, and says how many. Suppressions that ended so long
	// ago go as well. What is under way, or has a refund due, stays until that is
	// done. Several replicas may call it at once.
	Expire(ctx context.Context, age time.Duration, limit int) (int, error)
}

func checkAge(age time.Duration, limit int) error {
	if age <= 0 || limit < 1 {
		return bad("an age and a limit are positive")
	}
	return nil
}

// Expire implements Log.
func (p *Postgres) Expire(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if err := checkAge(age, limit); err != nil {
		return 0, err
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, p.sql(`
WITH clock AS MATERIALIZED (SELECT {{now}} - $1 * interval '1 microsecond' AS before),
gone AS MATERIALIZED (
    SELECT s.id, s.verification_id FROM sends s
    WHERE s.logged_at < (SELECT before FROM clock) AND s.due_at IS NULL AND s.refund_since IS NULL
    ORDER BY s.logged_at, s.id LIMIT $2 FOR UPDATE SKIP LOCKED
), ended AS (
    DELETE FROM verifications v WHERE v.id = ANY (ARRAY(SELECT gone.verification_id FROM gone))
), told AS (
    DELETE FROM provider_events e WHERE e.send_id = ANY (ARRAY(SELECT gone.id FROM gone))
), over AS (
    DELETE FROM suppressions x WHERE x.id = ANY (ARRAY(
        SELECT o.id FROM suppressions o WHERE o.since < (SELECT before FROM clock) AND o.until < (SELECT before FROM clock) ORDER BY o.since, o.id LIMIT $2))
)
DELETE FROM sends s WHERE s.id = ANY (ARRAY(SELECT gone.id FROM gone))`), (age + maxLife).Microseconds(), limit)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// Expire implements Log.
func (s *SQLite) Expire(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if err := checkAge(age, limit); err != nil {
		return 0, err
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
		gone, err := result.RowsAffected()
		n = int(gone)
		return err
	})
	return n, err
}

// Expire implements Log.
func (m *Memory) Expire(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if err := checkAge(age, limit); err != nil {
		return 0, err
	}
	now, lost, err := m.enter(ctx, "Expire")
	if err != nil {
		return 0, err
	}
	defer m.leave(lost, &err)
	var gone []*memoryRow
	for _, r := range m.rows {
		if now.Sub(r.LoggedAt) > (age+maxLife).Truncate(time.Microsecond) && r.DueAt.IsZero() && !r.RefundDue {
			gone = append(gone, r)
		}
	}
	slices.SortFunc(gone, func(a, b *memoryRow) int { return byLogged(a.Send, b.Send) })
	gone = gone[:min(limit, len(gone))]
	for _, r := range gone {
		b := r.bucket()
		m.buckets[b] = slices.DeleteFunc(m.buckets[b], func(other *memoryRow) bool { return other == r })
		delete(m.rows, r.ID)
		delete(m.told, r.ID)
		delete(m.verifications, r.VerificationID)
	}
	m.expireSuppressions(now.Add(-(age + maxLife).Truncate(time.Microsecond)), limit)
	return len(gone), nil
}
