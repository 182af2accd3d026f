package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// nextHourToCountSQL selects the newest hour without counts that ended at least @delay ago and is
// at most @age old. It leaves out hours before the first row, and those with a send in flight.
const nextHourToCountSQL = `
WITH RECURSIVE hours (hour, since) AS (
    SELECT (@now - @delay) / @each * @each - @each, max(@now - @age, (SELECT min(first) FROM (
        SELECT min(s.logged_at) AS first FROM sends s UNION ALL SELECT min(r.logged_at) FROM refusals r)) - @each + 1)
    UNION ALL SELECT hour - @each, since FROM hours WHERE hour - @each >= since
)
SELECT h.hour FROM hours h WHERE h.hour >= h.since AND h.hour NOT IN (SELECT c.hour FROM counted_hours c)
  AND h.hour NOT IN (SELECT s.logged_at / @each * @each FROM outbox f CROSS JOIN sends s ON s.id = f.id)
ORDER BY h.hour DESC LIMIT 1`

// readHourSQL returns, for each of sqldb.HourTables, its name and the hour's rows as a JSON array.
// It is one statement, so that all counts come from one snapshot.
var readHourSQL = `WITH counted AS MATERIALIZED (` + sqldb.HourRowsSQL(sqldb.SQLite) + `) ` +
	strings.Join(sqlgen.MapSlice(sqldb.HourTables, func(t sqldb.HourTable) string {
		return `SELECT '` + t.Name + `', json_group_array(json_array(` + t.Columns + `)) FROM (` + t.Query + `)`
	}), " UNION ALL ")

// writeHourSQL takes the rows, as readHourSQL returned them, in the parameter with the table's
// name.
func writeHourSQL(t sqldb.HourTable) string {
	var values strings.Builder
	for i := range 1 + strings.Count(t.Columns, ",") {
		fmt.Fprintf(&values, ", value ->> %d", i)
	}
	return `INSERT INTO ` + t.Name + ` (hour, ` + t.Columns + `) SELECT @hour` + values.String() + ` FROM json_each(@` + t.Name + `)`
}

var writeHoursSQL = sqlgen.MapSlice(sqldb.HourTables, writeHourSQL)

// CountHours implements sqldb.PerDatabase. It reads an hour's rows on a read connection, so that
// sends can be written meanwhile.
func (db *DB) CountHours(ctx context.Context, life, keep time.Duration, limit int) (n int, err error) {
	defer db.Observe(&ctx, "count_hours", "count_hours")()
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	for n < limit {
		more, err := db.countNextHour(ctx, life+sqldb.HourCountDelay, min(keep, sqldb.MaxCountedAge))
		if err != nil || !more {
			return n, err
		}
		n++
	}
	return n, nil
}

// countNextHour deletes counts older than age, and counts the newest due hour. It returns false if
// none is due, if another call has counted the hour meanwhile, or if counts were deleted while it
// read the rows, which may then be out of date.
func (db *DB) countNextHour(ctx context.Context, delay, age time.Duration) (bool, error) {
	var hours []time.Time
	var deletions int
	err := db.Engine.Write(ctx, "CountHours", sqldb.Behind, func(q sqldb.Tx) (err error) {
		deletions = db.countDeletions
		args := sqldb.Args{"delay": delay, "age": age, "each": time.Hour}
		if err = q.ExecAll(args, sqldb.DeleteHourCountsSQL(`hour < @now - @age`)...); err != nil {
			return err
		}
		hours, err = sqldb.QueryAll(q, func(at *time.Time) []any { return []any{sqlgen.ScannerFor(at)} }, nextHourToCountSQL, args)
		return err
	})
	if err != nil || len(hours) == 0 {
		return false, err
	}
	args := sqldb.Args{"hour": hours[0], "until": hours[0].Add(time.Hour)}
	if err := db.Engine.Read(ctx, "CountHours", func(q sqldb.Tx) error {
		_, err := q.Run(readHourSQL, args, func(read sqldb.Scan) error {
			var table, rows string
			err := read(&table, &rows)
			args[table] = rows
			return err
		})
		return err
	}); err != nil {
		return false, err
	}
	return sqldb.WriteWithPrecedence(ctx, &db.DB, "CountHours", sqldb.Behind, func(q sqldb.Tx) (bool, error) {
		mine, err := q.Change(`INSERT INTO counted_hours (hour) SELECT @hour WHERE @unchanged ON CONFLICT DO NOTHING`,
			sqldb.Args{"hour": hours[0], "unchanged": db.countDeletions == deletions})
		if err != nil || !mine {
			return false, err
		}
		return true, q.ExecAll(args, writeHoursSQL...)
	})
}

// DeleteCountsOfHour implements sqldb.Engine.
func (db *DB) DeleteCountsOfHour(q sqldb.Tx, at time.Time) error {
	return db.deleteCountsWhere(q, `hour = @hour`, sqldb.Args{"hour": at.Truncate(time.Hour)})
}

// BeforeErase implements sqldb.Engine. It deletes the stored counts of each hour with a send to the
// recipient, so that CountHours counts these hours again.
func (db *DB) BeforeErase(q sqldb.Tx, h recipient.Hash) error {
	return db.deleteCountsWhere(q, `hour IN (SELECT s.logged_at / @each * @each FROM sends s WHERE s.recipient = @recipient AND s.masked <> '•••')`,
		sqldb.Args{"recipient": h, "each": time.Hour})
}

func (db *DB) deleteCountsWhere(q sqldb.Tx, which string, args sqldb.Args) error {
	db.countDeletions++
	return q.ExecAll(args, sqldb.DeleteHourCountsSQL(which)...)
}
