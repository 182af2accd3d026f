package audit

import (
	"context"
	"time"

	"sendcode/internal/recipient"
)

// A recipient may have themselves erased. What is left is the keyed hash where it counts, so that being erased frees no
// quota (SEC-12), and how many there were of what; once every window has passed the hash goes, too.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// Eraser is the part of the log that forgets people.
type Eraser interface {
	// Erase takes from every row what tells of the recipient but the keyed hash, ends their codes and the sends that wait for
	// their next attempt (Failed, ReasonErased; they keep their places), and has Forget take the hash after keep. A send that
	// an attempt holds right now ends as that attempt does. The act, written with it, keeps the hash for as long.
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error
	// Forget takes the hash out of the rows of those who were erased and whose time has come, and says how many they were.
	Forget(ctx context.Context) (int, error)
}

// nobody stands for the hash of somebody who was forgotten: nobody's.
var nobody recipient.Hash

// personal says, of each table that tells of a recipient, how that is taken out of the rows of one: $1 is the hash, {{now}}
// the log's instant. A table that somebody adds and leaves out here fails TestEveryColumnIsErased.
var personal = []struct {
	table, erase, forget string
	counted              bool // there in Postgres alone, which counts ahead
}{
	{
		// First, while the rows still tell the domain: who is erased leaves no domain behind that only they had.
		table: "hour_domains", counted: true,
		erase: `
WITH mine AS MATERIALIZED (
    SELECT date_trunc('hour', s.logged_at, 'UTC') AS hour, s.app, s.channel, s.purpose, s.domain, count(*) AS sends,
           count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'failed' AND s.reason = '` + ReasonRejected + `') AS rejected
    FROM sends s WHERE s.recipient = $1 AND s.number > 0 AND s.masked <> '•••' AND s.domain <> '' GROUP BY 1, 2, 3, 4, 5
), fewer AS (
    UPDATE hour_domains d SET sends = d.sends - m.sends, failed = d.failed - m.failed, rejected = d.rejected - m.rejected
    FROM mine m WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends > m.sends
)
DELETE FROM hour_domains d USING mine m
WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends <= m.sends`,
	},
	{
		// What waits for its next attempt ends; what an attempt holds ends as that attempt does.
		table: "flights",
		erase: `DELETE FROM flights WHERE queued AND id IN (SELECT s.id FROM sends s WHERE s.recipient = $1 AND s.number > 0 AND s.status = 'queued' AND s.masked <> '•••')`,
	},
	{
		table: "sends",
		erase: `
UPDATE sends SET status = 'failed', reason = 'erased', finished_at = {{now}}
WHERE recipient = $1 AND number > 0 AND status = 'queued' AND masked <> '•••' AND NOT EXISTS (SELECT 1 FROM flights f WHERE f.id = sends.id)`,
	},
	{
		table: "failures",
		erase: `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT s.status, s.logged_at, s.id, s.finished_at, {{false}}, s.app, s.channel, s.recipient
FROM sends s WHERE s.recipient = $1 AND s.number > 0 AND s.status = 'failed' AND s.reason = 'erased' ON CONFLICT DO NOTHING`,
	},
	{table: "sends", erase: eraseSendsSQL + `number > 0`, forget: forgetSendsSQL + `number > 0`},
	{table: "sends", erase: eraseSendsSQL + `number = 0`, forget: forgetSendsSQL + `number = 0`},
	{
		table:  "failures", // after their sends
		forget: `UPDATE failures SET recipient = $2 WHERE recipient = $1 AND NOT EXISTS (SELECT 1 FROM sends s WHERE s.id = failures.id AND s.recipient = $1)`,
	},
	{
		table: "verifications",
		erase: `
UPDATE verifications SET masked = '•••', sealed = NULL, holder = '', nonce = {{empty}}, locale = '', reference = '',
       canceled_at = CASE WHEN approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}} THEN {{now}} ELSE canceled_at END
WHERE recipient = $1 AND masked <> '•••'`,
		forget: `UPDATE verifications SET recipient = $2 WHERE recipient = $1 AND masked = '•••'`,
	},
	{
		table:  "act_people",
		erase:  `UPDATE act_people SET masked = '•••' WHERE recipient = $1 AND masked <> '•••'`,
		forget: `UPDATE act_people SET recipient = NULL WHERE recipient = $1 AND masked = '•••' AND $2 <> $1`,
	},
	{
		table:  "embargoes", // a hash and its times: what is erased is nothing
		forget: `DELETE FROM embargoes WHERE recipient = $1 AND recipient <> $2 AND until <= {{now}}`,
	},
	{
		// While a suppression holds, its hash keeps mail from them; so it is forgotten when it has run out.
		table: "suppressions",
		erase: `
UPDATE suppressions SET masked = '•••', detail = CASE WHEN reason = 'manual' THEN '' ELSE detail END, lifted_why = ''
WHERE recipient = $1 AND masked <> '•••'`,
		forget: `
UPDATE suppressions SET recipient = $2, address = $2
WHERE recipient = $1 AND masked = '•••' AND (lifted_at IS NOT NULL OR until <= {{now}})`,
	},
}

const (
	// Sends and refusals of a recipient are in two indexes.
	eraseSendsSQL = `
UPDATE sends SET masked = '•••', domain = '', country = '', prefix = '', reference = '', ip = '', locale = ''
WHERE recipient = $1 AND masked <> '•••' AND `
	forgetSendsSQL = `UPDATE sends SET recipient = $2 WHERE recipient = $1 AND masked = '•••' AND `

	// An erasure that comes after another one keeps what was erased before for as long as what is erased now.
	addErasureSQL = `
INSERT INTO erasures (recipient, erased_at, forget_at) VALUES ($1, {{now}}, {{later}})
ON CONFLICT (recipient) DO UPDATE SET erased_at = excluded.erased_at, forget_at = excluded.forget_at`

	dueErasuresSQL   = `SELECT recipient FROM erasures WHERE forget_at <= {{now}} ORDER BY forget_at LIMIT 100`
	putOffErasureSQL = `
UPDATE erasures SET forget_at = (SELECT max(x.until) FROM suppressions x WHERE x.recipient = $1 AND x.masked = '•••')
WHERE recipient = $1 AND EXISTS (SELECT 1 FROM suppressions x WHERE x.recipient = $1 AND x.masked = '•••')`
	endErasureSQL = `DELETE FROM erasures WHERE recipient = $1 AND forget_at <= {{now}}`
)

// forgetting is done to one recipient, in this order.
func forgetting() []string {
	var statements []string
	for _, p := range personal {
		if p.forget != "" {
			statements = append(statements, p.forget)
		}
	}
	return append(statements, putOffErasureSQL, endErasureSQL)
}

// eraseTimeout bounds what Postgres does for one recipient: an attack may have left them many rows.
const eraseTimeout = "60s"

func checkErased(h recipient.Hash, keep time.Duration, act Act) (Act, error) {
	if h.IsZero() || keep <= 0 {
		return act, bad("nobody to erase, or for no time")
	}
	act.Recipient, act.To = h, Erased
	return act.checked()
}
