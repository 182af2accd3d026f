package sqldb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	// settledSendSQL holds if the send s is not in flight and has no refund due.
	settledSendSQL = `NOT EXISTS (SELECT 1 FROM outbox f WHERE f.id = s.id) AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id)`

	expiredSendsSQL = `SELECT s.id FROM sends s WHERE s.logged_at < @before AND ` + settledSendSQL +
		` ORDER BY s.logged_at, s.id LIMIT @limit`

	// settledVerificationSQL holds if the verification o has no send in flight or with a refund
	// due. It is correct only for verifications that expired before @before.
	settledVerificationSQL = `o.id NOT IN (
        SELECT s.verification_id FROM sends s
        WHERE s.id = ANY (ARRAY(SELECT f.id FROM outbox f UNION ALL SELECT r.id FROM refunds r)) AND s.logged_at < @before)`
)

// agedTables are the tables whose old rows o are deleted. In Postgres, a verification stays as long
// as it has a send in flight or with a refund due. SQLite has no partitions, and deletes
// verifications and failures with their sends.
//
// limitFactor is large for verifications: a dropped partition deletes the sends of a week at once,
// but their verifications are deleted row by row (24,000 take 100 ms).
var agedTables = [...]struct {
	table, condition, order string
	limitFactor             int  // a step deletes at most limitFactor * @limit rows
	partitioned             bool // only in Postgres, which has partitions
	ignoresRetention        bool // the retention period doesn't apply, so StorageStatus counts no row
}{
	{"verifications", `o.expires_at < @before AND ` + settledVerificationSQL, "o.expires_at", 12, true, false},
	{
		"failures",
		`o.status IN ('failed', 'unknown', 'undelivered') AND o.logged_at < @before AND o.id NOT IN (SELECT r.id FROM refunds r)`,
		"o.status, o.logged_at, o.id", 1, true, false,
	},
	{"provider_events", `o.send_id < @lowest`, "o.send_id, o.kind", 1, false, false},
	{"suppressions", `o.since < @before AND coalesce(o.lifted_at, o.until) < @before`, "o.since, o.id", 1, false, false},
	{"refusals", `o.logged_at < @before`, "o.logged_at, o.id", 1, false, false},
	{"idempotency_keys", `o.created_at < @day`, "o.created_at", 12, false, true}, // many: one for each request with a key
	{"limiter_events", `o.until <= @now`, "o.until", 1, false, true},
	{"carrier_holds", `o.until <= @now`, "o.until", 1, false, true}, // without an index, because holds are few
	{"minute_index", `o.minute < CAST(@before AS timestamptz) - interval '1 minute'`, "o.minute", 1, true, false},
}

// rowLocationColumn finds a row without an index.
var rowLocationColumn = dialectSQL{"ctid", "rowid"}

// deleteAgedSQL skips rows that another replica has locked.
func (d dialect) deleteAgedSQL(table, condition, order string, limitFactor int) string {
	place := d.pick(rowLocationColumn)
	return fmt.Sprintf("DELETE FROM %s WHERE %s %s", table, place,
		d.inSubquery(d.lockRows(fmt.Sprintf("SELECT o.%s FROM %s o WHERE %s ORDER BY %s LIMIT %d * @limit", place, table, condition,
			order, limitFactor))))
}

// deleteWithSendsSQL deletes the sends @ids, after what belongs to them: Erase finds a verification
// through its sends, so no send may go before its verification.
func (d dialect) deleteWithSendsSQL() []string {
	among := d.inList("ids")
	condition := `o.id ` + d.inSubquery(`SELECT s.verification_id FROM sends s WHERE s.id `+among)
	var failures string
	if d == SQLite {
		condition += ` AND o.id NOT IN (SELECT s.verification_id FROM sends s WHERE s.id IN (SELECT f.id FROM outbox f UNION ALL SELECT r.id FROM refunds r))`
		failures = `DELETE FROM failures WHERE status IN ('failed', 'unknown', 'undelivered') AND logged_at < @before AND id ` + among
	} else {
		condition += ` AND ` + settledVerificationSQL
	}
	return []string{
		d.deleteAgedSQL("verifications", condition, "o.id", 1), failures, `DELETE FROM provider_events WHERE send_id ` + among,
		`DELETE FROM sends WHERE id ` + among,
	}
}

// storageStatusSQL counts rows from before @before, which were due at @late; see
// store.RetentionCutoff.
func (d dialect) storageStatusSQL() string {
	count := func(from string) string {
		return `, (SELECT count(*) FROM (SELECT 1 FROM ` + from + ` LIMIT 10000) old)`
	}
	sql := `
SELECT (SELECT s.logged_at FROM sends s ORDER BY s.logged_at LIMIT 1), (SELECT s.logged_at FROM refusals s ORDER BY s.logged_at LIMIT 1),
  (SELECT count(*) FROM erasures), (SELECT count(*) FROM erasures e WHERE e.forget_at <= @late)` +
		count(`sends s WHERE s.logged_at < @before AND `+settledSendSQL+` ORDER BY s.logged_at`)
	for _, a := range agedTables {
		if d == SQLite && a.partitioned || a.ignoresRetention {
			sql += ", 0"
		} else {
			sql += count(a.table + ` o WHERE ` + a.condition + ` ORDER BY ` + a.order)
		}
	}
	return sql
}

type storageStatus struct {
	store.StorageStatus
	oldestRefusal time.Time
	due           [1 + len(agedTables)]int // rows that are due: of sends, and of each table in agedTables
}

func (s *storageStatus) fields() []any {
	fields := []any{sqlgen.ScannerFor(&s.Oldest), sqlgen.ScannerFor(&s.oldestRefusal), &s.Forgetting, &s.ForgettingDue}
	for i := range s.due {
		fields = append(fields, &s.due[i])
	}
	return fields
}

func (s storageStatus) combined() store.StorageStatus {
	if s.Oldest.IsZero() || !s.oldestRefusal.IsZero() && s.oldestRefusal.Before(s.Oldest) {
		s.Oldest = s.oldestRefusal
	}
	s.Due = slices.Max(s.due[:])
	return s.StorageStatus
}

// DeleteAged deletes what was logged before store.RetentionCutoff of age: at most limit sends,
// oldest first, and at most limitFactor times as many rows of each of agedTables. With age 0
// it deletes only limiter events, carriers' holds and Idempotency-Keys' claims that have ended.
//
// A send in flight stays until its outcome, and a send with a refund due until the refund, each
// with its verification. With partitions, DeleteAged first drops the oldest one, unless a row in it
// has to stay. Replicas may call it at once.
func (db *DB) DeleteAged(ctx context.Context, age time.Duration, limit int) (gone store.DeletedRows, err error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	dropped, err := db.DropPartition(ctx, age)
	if err != nil {
		return gone, err
	}
	if db.Dialect == SQLite {
		return db.deleteInSteps(ctx, age, limit)
	}
	gone, _, err = db.deleteStep(ctx, InOrder, age, limit)
	gone.Partition, gone.More = dropped, gone.More || dropped != ""
	return gone, err
}

const (
	// maxHeld is how long a step of deleteInSteps should keep SQLite's only writer.
	maxHeld = 5 * time.Millisecond
	// After maxDeleting, a call of deleteInSteps begins no further step.
	maxDeleting = time.Second
	// minStep is the limit of deleteInSteps' first and smallest step, which takes about 5 ms, plus
	// the disk's sync.
	minStep = 10
)

// deleteInSteps is DeleteAged in small transactions, each within maxHeld on a fast disk. After each
// it leaves the writer to others for four times as long. Rows that are left after maxDeleting wait
// for the next call.
func (db *DB) deleteInSteps(ctx context.Context, age time.Duration, limit int) (gone store.DeletedRows, err error) {
	began, size := time.Now(), minStep
	for done := 0; ; {
		size = min(size, limit-done)
		step, took, err := db.deleteStep(ctx, Behind, age, size)
		gone.Rows += step.Rows
		gone.More = step.More
		done += size
		if err != nil || !step.More || done == limit || time.Since(began) > maxDeleting {
			return gone, err
		}
		if took > maxHeld {
			size = max(minStep, size/2)
		} else if took < maxHeld/2 {
			size *= 2
		}
		select {
		case <-time.After(4 * took):
		case <-ctx.Done():
			return gone, nil
		}
	}
}

// deleteStep is DeleteAged in one transaction. took is how long that kept SQLite's writer: without
// the wait for the writer, but with the COMMIT.
func (db *DB) deleteStep(ctx context.Context, precedence Precedence, age time.Duration, limit int) (gone store.DeletedRows,
	took time.Duration, err error,
) {
	var began time.Time
	gone, err = WriteWithPrecedence(ctx, db, "DeleteAged", precedence, func(q Tx) (store.DeletedRows, error) {
		began = time.Now()
		return q.deleteAged(store.RetentionCutoff(q.Now, age), limit)
	})
	return gone, time.Since(began), err
}

func (t Tx) deleteAged(before time.Time, limit int) (gone store.DeletedRows, err error) {
	args := Args{"now": t.Now, "before": before, "limit": limit, "lowest": store.LowestID(before.Add(-store.MaxIDTimeDrift))}
	args["day"] = t.Now.Add(-store.IdempotencyKeyLife)
	ids, err := QueryAll(t, OneColumn[uuid.UUID], t.Dialect.lockRows(expiredSendsSQL), args)
	if err != nil {
		return gone, err
	}
	args["ids"] = ids
	gone = store.DeletedRows{Rows: len(ids), More: len(ids) >= limit}
	for _, a := range agedTables {
		if t.Dialect == SQLite && a.partitioned {
			continue
		}
		n, err := t.Run(t.Dialect.deleteAgedSQL(a.table, a.condition, a.order, a.limitFactor), args, nil)
		if err != nil {
			return gone, err
		}
		gone.More = gone.More || int(n) >= limit
		if a.table == "refusals" {
			gone.Rows += int(n)
		}
	}
	return gone, t.ExecAll(args, t.Dialect.deleteWithSendsSQL()...)
}

// StorageStatus counts the rows that DeleteAged and ForgetDueErased should have deleted or
// forgotten an hour ago.
func (db *DB) StorageStatus(ctx context.Context, age time.Duration) (e store.StorageStatus, err error) {
	_, err = db.readWithClock(ctx, "StorageStatus", func(q Tx, now time.Time) error {
		late := now.Add(-time.Hour)
		before := store.RetentionCutoff(late, age)
		row, err := queryFirst(q, (*storageStatus).fields, q.Dialect.storageStatusSQL(),
			Args{"before": before, "late": late, "lowest": store.LowestID(before.Add(-store.MaxIDTimeDrift))})
		if err != nil {
			return err
		}
		e = row.combined()
		e.Now, e.Age = now, age
		return nil
	})
	if err != nil {
		return store.StorageStatus{}, err
	}
	if e.Bytes, err = db.databaseSize(ctx); err != nil {
		return store.StorageStatus{}, err
	}
	e.Partitions, err = db.Partitions(ctx)
	return e, err
}

func (db *DB) databaseSize(ctx context.Context) (int64, error) {
	sizes, err := ReadAll(ctx, db, "StorageStatus", OneColumn[int64], db.Dialect.pick(databaseSizeSQL), nil)
	if err != nil {
		return 0, err
	}
	return sizes[0], nil
}

var databaseSizeSQL = dialectSQL{
	"SELECT pg_database_size(current_database())",
	"SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}

// Partitions returns the partitions of sends, oldest first; none in SQLite.
func (db *DB) Partitions(ctx context.Context) ([]store.Partition, error) {
	if db.Dialect == SQLite {
		return nil, nil
	}
	return ReadAll(ctx, db, "Partitions", func(x *store.Partition) []any {
		return []any{&x.Name, sqlgen.ScannerFor(&x.Begins), sqlgen.ScannerFor(&x.Ends), &x.Rows, &x.Bytes}
	}, `
SELECT p.name, p.begins, p.ends, c.reltuples::bigint, pg_total_relation_size(p.id)
FROM sendcode_partitions p JOIN pg_class c ON c.oid = p.id ORDER BY p.ends`, nil)
}
