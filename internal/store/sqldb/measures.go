package sqldb

import ()

// Approvals counts what first sends opened, and what of it was approved, in each stretch.
func (c Conditions) Approvals(stretch string) string {
	return `SELECT ` + stretch + ` AS stretch, count(*), count(v.approved_at) FROM sends s JOIN verifications v ON v.id = s.verification_id` + c.Where() + ` AND s.number = 1
GROUP BY 1 ORDER BY 1`
}

// TookIn selects the times of what was sent; span is each database's own word for one, in µs.
func (c Conditions) TookIn(stretch, span string) string {
	return `SELECT ` + stretch + ` AS stretch, ` + span + ` AS took FROM sends s` + c.Where() +
		` AND s.status IN ('sent', 'delivered', 'undelivered') AND s.finished_at IS NOT NULL`
}

// tookBy finds the median and the 95th percentile of each stretch, by the nearest rank.
func (c Conditions) tookBy(stretch, span string) string {
	return `
SELECT stretch, max(CASE WHEN place = (n + 1) / 2 THEN took END), max(CASE WHEN place = (95 * n + 99) / 100 THEN took END)
FROM (SELECT stretch, took, row_number() OVER (PARTITION BY stretch ORDER BY took) AS place, count(*) OVER (PARTITION BY stretch) AS n
      FROM (` + c.TookIn(stretch, span) + `) sent) placed
GROUP BY stretch ORDER BY stretch`
}
