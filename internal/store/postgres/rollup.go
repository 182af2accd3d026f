package postgres

import (
	"context"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// countHoursLockKey is the key of an advisory lock under which one replica at a time counts hours.
const countHoursLockKey = 0x73656e64636f6475

// nextHourToCountSQL selects the newest hour without counts that ended at least @delay ago and is
// at most @age old. It leaves out hours before the first row, and those with a send in flight.
var nextHourToCountSQL = `
WITH clock AS MATERIALIZED (
    SELECT @now AS now, @now - CAST(@age AS interval) AS since,
      least((SELECT min(s.logged_at) FROM sends s), (SELECT min(r.logged_at) FROM refusals r)) AS first
), under_way AS MATERIALIZED (
    SELECT DISTINCT date_trunc('hour', s.logged_at, 'UTC') AS hour FROM sends s WHERE s.id = ANY (ARRAY(SELECT f.id FROM outbox f))
)
SELECT h.hour FROM clock, generate_series(date_trunc('hour', clock.now - CAST(@delay AS interval), 'UTC') - interval '1 hour',
  clock.since, interval '-1 hour') AS h(hour)
WHERE h.hour > clock.first - interval '1 hour' AND NOT EXISTS (SELECT FROM counted_hours WHERE counted_hours.hour = h.hour)
  AND h.hour NOT IN (SELECT under_way.hour FROM under_way)
ORDER BY h.hour DESC LIMIT 1`

var deleteOldHoursSQL = sqldb.DeleteHourCountsSQL(`hour < (SELECT @now - CAST(@age AS interval))`)

// countHourSQL is one statement, so that all counts come from one snapshot.
var countHourSQL = `
WITH counted AS MATERIALIZED (` + sqldb.HourRowsSQL(sqldb.Postgres) + `)` +
	strings.Join(sqlgen.MapSlice(sqldb.HourTables, func(t sqldb.HourTable) string {
		return `, into_` + t.Name + ` AS (INSERT INTO ` + t.Name + ` (hour, ` + t.Columns + `) SELECT @hour, x.* FROM (` + t.Query +
			`) AS x)`
	}), "") + `
INSERT INTO counted_hours (hour) VALUES (@hour)`

// CountHours implements sqldb.PerDatabase. Each hour has its own transaction, so that an erasure
// waits for the counts of one hour at most.
func (db *DB) CountHours(ctx context.Context, life, keep time.Duration, limit int) (n int, err error) {
	defer db.Observe(&ctx, "count_hours", "count_hours")()
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	for n < limit {
		more, err := sqldb.WriteWithResult(ctx, &db.DB, "CountHours",
			func(q sqldb.Tx) (bool, error) {
				return countNextHour(q, life+sqldb.HourCountDelay, min(keep, sqldb.MaxCountedAge))
			})
		if err != nil || !more {
			return n, err
		}
		n++
	}
	return n, nil
}

// countNextHour deletes counts older than age, and counts the newest due hour. It returns false if
// there is none, or if another replica is counting.
func countNextHour(q sqldb.Tx, delay, age time.Duration) (bool, error) {
	locked, err := sqldb.QueryAll(q, sqldb.OneColumn[bool], `SELECT pg_try_advisory_xact_lock(@lock)`,
		sqldb.Args{"lock": int64(countHoursLockKey)})
	if err != nil || !locked[0] {
		return false, err
	}
	if err := q.ExecAll(sqldb.Args{"age": age}, deleteOldHoursSQL...); err != nil {
		return false, err
	}
	hours, err := sqldb.QueryAll(q, func(at *time.Time) []any { return []any{sqlgen.ScannerFor(at)} }, nextHourToCountSQL,
		sqldb.Args{"age": age, "delay": delay})
	if err != nil || len(hours) == 0 {
		return false, err
	}
	_, err = q.Run(countHourSQL, sqldb.Args{"hour": hours[0], "until": hours[0].Add(time.Hour)}, nil)
	return err == nil, err
}

// BeforeErase implements sqldb.Engine. It subtracts the recipient's sends from the hourly counts by
// domain and country, under a lock that keeps CountHours from counting an hour meanwhile.
func (db *DB) BeforeErase(q sqldb.Tx, h recipient.Hash) error {
	return q.ExecAll(sqldb.Args{"recipient": h, "key": int64(countHoursLockKey)}, sqldb.LongTimeoutSQL.Postgres,
		`SELECT pg_advisory_xact_lock(@key)`,
		subtractDomainsSQL, subtractCodesSQL)
}

// DeleteCountsOfHour implements sqldb.Engine. An hour with an instant less than
// sqldb.HourCountDelay ago has no counts yet. For an earlier hour it takes a lock, so that
// CountHours can't count the hour again before this transaction is committed.
func (db *DB) DeleteCountsOfHour(q sqldb.Tx, at time.Time) error {
	if q.Now.Sub(at) < sqldb.HourCountDelay {
		return nil
	}
	return q.ExecAll(sqldb.Args{"hour": at.Truncate(time.Hour), "key": int64(countHoursLockKey)},
		append([]string{`SELECT pg_advisory_xact_lock(@key)`}, sqldb.DeleteHourCountsSQL(`hour = @hour`)...)...)
}

// These run before the erasure removes domain and country from the rows.
var (
	subtractDomainsSQL = subtractCountsSQL("hour_domains", `
    SELECT date_trunc('hour', s.logged_at, 'UTC') AS hour, s.app, s.channel, s.purpose, s.domain, count(*) AS sends,
           count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'failed'
             AND s.reason = '`+store.ReasonRejected+`') AS rejected
    FROM sends s WHERE s.recipient = @recipient AND s.masked <> '•••' AND s.domain <> '' AND s.number > 0 GROUP BY 1, 2, 3, 4, 5`,
		[]string{"domain"}, "sends", "failed", "rejected")
	subtractCodesSQL = subtractCountsSQL("hour_codes", `
    SELECT date_trunc('hour', s.logged_at, 'UTC') AS hour, s.app, s.channel, s.purpose, k.dimension, k.value, count(*) AS opened,
           count(v.approved_at) AS approved
    FROM sends s JOIN verifications v ON v.id = s.verification_id AND `+sqldb.CountedCodeSQL+`
    CROSS JOIN LATERAL (VALUES ('country', s.country), ('domain', s.domain)) AS k (dimension, value)
    WHERE s.recipient = @recipient AND s.number = 1 AND s.masked <> '•••' AND k.value <> '' GROUP BY 1, 2, 3, 4, 5, 6`,
		[]string{"dimension", "value"}, "opened", "approved")
)

// subtractCountsSQL subtracts what query selects, by the rows' keys. A row whose first count would
// become 0 is deleted.
func subtractCountsSQL(table, query string, key []string, counts ...string) string {
	key = append([]string{"hour", "app", "channel", "purpose"}, key...)
	same := "(h." + strings.Join(key, ", h.") + ") = (m." + strings.Join(key, ", m.") + ")"
	less := sqlgen.MapSlice(counts, func(c string) string { return c + " = h." + c + " - m." + c })
	return `
WITH mine AS MATERIALIZED (` + query + `
), fewer AS (
    UPDATE ` + table + ` h SET ` + strings.Join(less, ", ") + ` FROM mine m WHERE ` + same + ` AND h.` + counts[0] + ` > m.` + counts[0] + `
)
DELETE FROM ` + table + ` h USING mine m WHERE ` + same + ` AND h.` + counts[0] + ` <= m.` + counts[0]
}
