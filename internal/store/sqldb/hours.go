package sqldb

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	// An hour is counted once the longest life of a code and HourCountDelay have passed since its
	// end. By then no refusal is added to its rows any more.
	HourCountDelay = 50 * time.Minute
	// MaxCountedAge is twice the longest time range of the console's statistics. Counts of older
	// hours are deleted, and not made again.
	MaxCountedAge = 2 * 31 * 24 * time.Hour
)

// HourTable is filled by CountHours. Query computes Columns for an hour from the subquery counted,
// which is HourRowsSQL.
type HourTable struct{ Name, Columns, Query string }

// HourTables are filled by CountHours, beside counted_hours.
var HourTables = []HourTable{
	{"hour_tallies", "app, channel, purpose, status, reason, blocked_by, rows, requests, opened, approved", `
SELECT app, channel, purpose, status, reason, blocked_by, count(*) AS rows, sum(requests) AS requests, count(*) FILTER (WHERE opened) AS opened,
  count(*) FILTER (WHERE approved) AS approved
FROM counted GROUP BY app, channel, purpose, status, reason, blocked_by`},
	{"hour_times", "app, channel, purpose, bucket, n", `
SELECT app, channel, purpose, bucket, count(*) AS n FROM counted WHERE bucket IS NOT NULL GROUP BY app, channel, purpose, bucket`},
	{"hour_domains", "app, channel, purpose, domain, sends, failed, rejected", `
SELECT app, channel, purpose, domain, count(*) AS sends, count(*) FILTER (WHERE status = 'failed') AS failed,
  count(*) FILTER (WHERE status = 'failed' AND reason = '` + store.ReasonRejected + `') AS rejected
FROM counted WHERE domain <> '' GROUP BY app, channel, purpose, domain`},
	{"hour_codes", "app, channel, purpose, dimension, value, opened, approved", `
SELECT app, channel, purpose, dimension, value, count(*) AS opened, count(*) FILTER (WHERE approved) AS approved
FROM (SELECT app, channel, purpose, 'country' AS dimension, country AS value, approved FROM counted WHERE opened
      UNION ALL SELECT app, channel, purpose, 'carrier', provider, approved FROM counted WHERE opened
      UNION ALL SELECT app, channel, purpose, 'domain', domain, approved FROM counted WHERE opened) AS k
WHERE value <> '' GROUP BY app, channel, purpose, dimension, value`},
}

var AllHourTableNames = append(sqlgen.MapSlice(HourTables, func(t HourTable) string { return t.Name }), "counted_hours")

// DeleteHourCountsSQL takes a condition on the column hour.
func DeleteHourCountsSQL(which string) []string {
	return sqlgen.MapSlice(AllHourTableNames, func(table string) string { return `DELETE FROM ` + table + ` WHERE ` + which })
}

// HourRowsSQL reads the rows logged from @hour on and before @until.
func HourRowsSQL(d dialect) string {
	return `
SELECT s.app, s.channel, s.purpose, s.status, CASE WHEN s.status IN ('failed', 'unknown') THEN s.reason ELSE '' END AS reason,
  '' AS blocked_by, 1 AS requests, CASE WHEN s.number > 0 THEN s.domain ELSE '' END AS domain, s.country, s.provider,
  v.id IS NOT NULL AS opened, v.approved_at IS NOT NULL AS approved,
  CASE WHEN s.status IN ('sent', 'delivered', 'undelivered') AND s.finished_at IS NOT NULL THEN ` + d.pick(deliveryTimeBucketSQL) +
		` END AS bucket
FROM sends s LEFT JOIN verifications v ON s.number = 1 AND v.id = s.verification_id AND ` + CountedCodeSQL + `
WHERE s.logged_at >= @hour AND s.logged_at < @until AND ` + d.partitionsSince("@hour") + `
UNION ALL
SELECT s.app, s.channel, s.purpose, 'refused', '', s.blocked_by, s.requests, '', '', '', false, false, NULL
FROM refusals s WHERE s.logged_at >= @hour AND s.logged_at < @until`
}
