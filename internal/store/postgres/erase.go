package postgres

import (
	"sendcode/internal/store"
)

// A recipient who is attacked may have left many rows.
const patientSQL = `SET LOCAL statement_timeout = '60s'`

// eraseHoursSQL takes what only the recipient had out of the domains that are counted ahead, while the rows still tell the domain.
const eraseHoursSQL = `
WITH mine AS MATERIALIZED (
    SELECT date_trunc('hour', s.logged_at, 'UTC') AS hour, s.app, s.channel, s.purpose, s.domain, count(*) AS sends,
           count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'failed' AND s.reason = '` + store.ReasonRejected + `') AS rejected
    FROM sends s WHERE s.recipient = @recipient AND s.number > 0 AND s.masked <> '•••' AND s.domain <> '' GROUP BY 1, 2, 3, 4, 5
), fewer AS (
    UPDATE hour_domains d SET sends = d.sends - m.sends, failed = d.failed - m.failed, rejected = d.rejected - m.rejected
    FROM mine m WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends > m.sends
)
DELETE FROM hour_domains d USING mine m
WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends <= m.sends`
