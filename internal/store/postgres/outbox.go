package postgres

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// RenewLeases implements sqldb.PerDatabase.
func (db *DB) RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) (err error) {
	defer db.Observe(&ctx, "renew", "renew")()
	calls := sqlgen.MapSlice(held, func(h store.AttemptID) *renewCall { return batch.NewCall[store.AttemptID, bool](h, 0) })
	changeBatch(ctx, db, renewSQL, slices.Clone(calls), func([]*renewCall) map[string]any {
		return sqldb.Args{"lease": lease.Microseconds()}
	})
	for _, x := range calls {
		err = cmp.Or(err, x.Err)
	}
	return err
}

var renewSQL = `
UPDATE outbox f SET due_at = @now + @lease * interval '1 microsecond'
FROM ` + attempts.SQL() + `
WHERE f.id = ANY (@a_id::uuid[]) AND f.id = a.id AND f.attempt = a.attempt AND NOT f.queued
RETURNING f.id`

// newTakeOverSQL returns SQL that takes over due rows of a queue that meet the condition. As in
// finish.go, rows of outbox are locked before rows of sends are changed. SKIP LOCKED skips what
// another replica takes over or finishes. Only the 10,000 longest due rows are considered, which
// bounds the sort; of these, those whose codes expire first are taken.
func newTakeOverSQL(condition string) string {
	return `
WITH due AS MATERIALIZED (
    SELECT f.id, f.expires_at, NOT f.queued AS doubt FROM outbox f
    WHERE f.due_at > @since AND f.channel = @channel AND f.stranger = @strangers
      AND f.due_at <= coalesce((
        SELECT l.due_at FROM outbox l
        WHERE l.due_at <= @until AND l.due_at > @since AND l.channel = @channel AND l.stranger = @strangers
        ORDER BY l.due_at OFFSET 9999 LIMIT 1), @until)` + condition + `
    ORDER BY f.expires_at, f.id LIMIT @limit FOR UPDATE OF f SKIP LOCKED
), held AS (
    UPDATE outbox f SET attempt = f.attempt + 1, queued = false, due_at = @until + @lease * interval '1 microsecond'
    FROM due WHERE f.id = ANY (ARRAY(SELECT due.id FROM due)) AND f.id = due.id
    RETURNING f.id, f.attempt, f.due_at, f.sealed, due.expires_at, due.doubt
), taken AS (
    UPDATE sends s SET status = 'sending', attempt = held.attempt, in_doubt = s.in_doubt OR held.doubt
    FROM held WHERE s.id = ANY (ARRAY(SELECT due.id FROM due)) AND s.id = held.id
    RETURNING held.expires_at, held.due_at AS due, held.sealed AS code, s.*
)
SELECT s.due, s.code, ` + sqldb.SendColumns + `, ` + sqldb.VerificationColumns + `
FROM taken s JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = s.verification_id LIMIT 1) v ON true
ORDER BY s.expires_at, s.id`
}

var (
	takeOverSQL                = newTakeOverSQL("")
	takeOverWithExpiredCodeSQL = newTakeOverSQL(" AND f.expires_at <= @until")
)

// TakeOver implements sqldb.PerDatabase.
func (db *DB) TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer db.Observe(&ctx, "take_over", "take_over")()
	return db.takeOver(ctx, takeOverSQL, q, lease, limit)
}

// TakeOverWithExpiredCode implements sqldb.PerDatabase. It always searches from the oldest row on.
func (db *DB) TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer db.Observe(&ctx, "take_over", "take_over")()
	return db.takeOver(ctx, takeOverWithExpiredCodeSQL, q, lease, limit)
}

// takeOver runs takeOverSQL or takeOverWithExpiredCodeSQL.
func (db *DB) takeOver(ctx context.Context, statement string, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	snapshot, err := db.readSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	now := snapshot.at
	var since time.Time
	if statement == takeOverSQL {
		since = db.searches.searchStart(q, now)
	}
	type due struct {
		at time.Time
		store.Work
	}
	rows, err := changeRows(ctx, db.finishers, func(d *due) []any {
		return append([]any{sqlgen.ScannerFor(&d.at)}, sqldb.WorkAndCodeDestinations(&d.Work)...)
	}, db.prepared[statement].sql, db.prepared[statement].arguments(sqldb.Args{
		"channel": string(q.Channel), "strangers": q.Strangers, "since": since, "until": now,
		"lease": lease.Microseconds(), "limit": limit,
	})...)
	if err == nil && statement == takeOverSQL {
		db.searches.recordSearch(q, snapshot, since, len(rows) < limit)
	}
	return sqlgen.MapSlice(rows, func(d due) store.Work { d.Send.DueAt, d.Now = d.at, now; return d.Work }), err
}

// transactionSnapshot says which transactions that change rows had ended, and which had not yet
// begun.
type transactionSnapshot struct {
	at     time.Time // on the database's clock
	oldest int64     // all transactions with smaller IDs had ended
	next   int64     // no transaction with this or a greater ID had begun
}

// readSnapshot reads the database's clock and its transactions.
func (db *DB) readSnapshot(ctx context.Context) (snapshot transactionSnapshot, err error) {
	err = db.readOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, db.replaceNow(`
SELECT @now, pg_snapshot_xmin(s.now)::text::bigint, pg_snapshot_xmax(s.now)::text::bigint FROM pg_current_snapshot() AS s (now)`)).
			Scan(sqlgen.ScannerFor(&snapshot.at), &snapshot.oldest, &snapshot.next)
	})
	return snapshot, err
}

// takeOverSearches lets TakeOver begin a queue's search later than at the oldest row, where it
// would also read the index entries of deleted rows, which stay until no transaction can see them.
type takeOverSearches struct {
	mu      sync.Mutex
	byQueue map[store.Queue]takeOverSearch
}

type takeOverSearch struct {
	now        time.Time // of the last search, on the database's clock
	fullSearch time.Time // of the last search from the oldest row on
	wideSearch time.Time // of the last search from the mark `complete` on
	tookAll    bool      // the last search took all due rows
	// complete: all rows that were due before this time were found, or belong to transactions that
	// begin later. It stays behind now while a transaction that began before now is open.
	complete time.Time
	// snapshots has what searches after complete saw, the oldest first, at most one a second.
	snapshots []transactionSnapshot
}

const (
	// longestTransaction is longer than a transaction of the service usually takes, including the
	// time between its reading of the clock and getting its ID. A transaction may take longer if
	// its process was killed while the commit waited for a synchronous standby. The row of such a
	// transaction becomes visible when the standby comes back, or another server takes its place.
	longestTransaction = 10 * time.Second
	// wideSearchInterval is the time between two searches for rows of transactions that are open
	// for longer than longestTransaction. They may be another application's, so these searches,
	// which read more and more entries of deleted rows, are less frequent.
	wideSearchInterval = 5 * time.Second
	// fullSearchInterval is the longest time between two searches from the oldest row on.
	fullSearchInterval = 10 * time.Minute
	maxSnapshots       = int(fullSearchInterval / time.Second)
)

// searchStart returns the due time at which a search begins. It is zero, to begin with the oldest
// row, if the last search left due rows, if the clock was set back, and once every
// fullSearchInterval.
func (o *takeOverSearches) searchStart(q store.Queue, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.byQueue[q]
	if !m.tookAll || now.Before(m.now) || now.Sub(m.fullSearch) >= fullSearchInterval {
		return time.Time{}
	}
	if m.now.Sub(m.complete) > longestTransaction && now.Sub(m.wideSearch) < wideSearchInterval {
		return m.now.Add(-longestTransaction)
	}
	return m.complete.Add(-longestTransaction)
}

// recordSearch records a search that began at since. tookAll means that it took all due rows.
// snapshot was read before the search, so rows that the search missed were not yet visible then.
func (o *takeOverSearches) recordSearch(q store.Queue, snapshot transactionSnapshot, since time.Time, tookAll bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, now := o.byQueue[q], snapshot.at
	if !m.tookAll || now.Before(m.now) || now.Sub(m.fullSearch) >= fullSearchInterval {
		m.fullSearch, m.complete, m.snapshots = now, now.Add(-fullSearchInterval), nil
	}
	if last := len(m.snapshots) - 1; last >= 0 && snapshot.next < m.snapshots[last].next { // another server, whose IDs are not comparable
		m.snapshots = nil
	}
	if last := len(m.snapshots) - 1; last < 0 || now.Sub(m.snapshots[last].at) >= time.Second {
		if m.snapshots = append(m.snapshots, snapshot); len(m.snapshots) > maxSnapshots {
			m.snapshots = m.snapshots[1:]
		}
	}
	if !since.After(m.complete.Add(-longestTransaction)) {
		m.wideSearch = now
		for len(m.snapshots) > 0 && m.snapshots[0].next <= snapshot.oldest { // no open transaction began before that
			m.complete, m.snapshots = m.snapshots[0].at, m.snapshots[1:]
		}
		if snapshot.next == snapshot.oldest {
			m.complete = now
		}
	}
	m.now, m.tookAll = now, tookAll
	if o.byQueue == nil {
		o.byQueue = map[store.Queue]takeOverSearch{}
	}
	o.byQueue[q] = m
}

// LeaseDueRefunds implements sqldb.PerDatabase.
func (db *DB) LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	defer db.Observe(&ctx, "refunds_due", "refunds_due")()
	return changeRows(ctx, db.pool, sqldb.RefundFields, db.replaceNow(refundsDueSQL),
		pgx.NamedArgs{"limit": limit, "lease": lease.Microseconds()})
}

const refundsDueSQL = `
WITH clock AS MATERIALIZED (
    SELECT @now AS now
), due AS MATERIALIZED (
    SELECT r.id, r.since FROM refunds r
    WHERE r.since <= (SELECT now FROM clock) - @lease * interval '1 microsecond'
    ORDER BY r.since, r.id LIMIT @limit FOR UPDATE OF r SKIP LOCKED
), leased AS (
    UPDATE refunds r SET since = clock.now FROM due, clock WHERE r.id = ANY (ARRAY(SELECT due.id FROM due)) AND r.id = due.id
    RETURNING r.id, r.attempt, due.since
)
SELECT leased.id, leased.attempt, ` + sqldb.RefundColumns + `
FROM leased CROSS JOIN LATERAL (SELECT * FROM sends s WHERE s.id = leased.id LIMIT 1) s
LEFT JOIN verifications v ON v.id = s.verification_id ORDER BY leased.since, leased.id`

// changeRows returns the rows that the statement returns. It never repeats the statement, which may
// have changed rows.
func changeRows[T any](ctx context.Context, pool *pgxpool.Pool, fields func(*T) []any, statement string,
	args ...any,
) (list []T, err error) {
	err = withConn(ctx, pool, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, statement, args...) // rows reports the error
		_, err := drainRows(rows, sqldb.AppendTo(&list, fields))
		return err
	})
	if err != nil {
		return nil, wrapWriteError(err)
	}
	return list, nil
}
