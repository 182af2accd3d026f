package audit

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/recipient"
)

// personalTable is a table that tells of a recipient.
type personalTable struct{ table, erase, forget string }

// personal says, of each table that tells of a recipient, how that is taken out of the rows of @recipient. A table that is added
// and left out here fails TestEveryColumnIsErased.
var personal = []personalTable{
	{
		table: "sends",
		erase: `
UPDATE sends SET masked = '•••', country = '', prefix = '', reference = '', ip = '', locale = '',
       reason = CASE WHEN status = 'queued' THEN 'erased' ELSE reason END,
       finished_at = CASE WHEN status = 'queued' THEN @now ELSE finished_at END,
       due_at = CASE WHEN status = 'queued' THEN NULL ELSE due_at END,
       status = CASE WHEN status = 'queued' THEN 'failed' ELSE status END
WHERE recipient = @recipient AND masked <> '•••'`,
		forget: `UPDATE sends SET recipient = @nobody WHERE recipient = @recipient AND masked = '•••'`,
	},
	{
		table: "verifications",
		erase: `
UPDATE verifications SET masked = '•••', sealed = NULL, holder = '', nonce = @empty, locale = '', reference = '',
       canceled_at = CASE WHEN approved_at IS NULL AND canceled_at IS NULL AND expires_at > @now THEN @now ELSE canceled_at END
WHERE recipient = @recipient AND masked <> '•••'`,
		forget: `UPDATE verifications SET recipient = @nobody WHERE recipient = @recipient AND masked = '•••'`,
	},
	{
		table:  "act_people",
		erase:  `UPDATE act_people SET masked = '•••' WHERE recipient = @recipient AND masked <> '•••'`,
		forget: `UPDATE act_people SET recipient = NULL WHERE recipient = @recipient AND masked = '•••'`,
	},
	{
		table:  "embargoes", // a hash and its times: what is erased is nothing
		forget: `DELETE FROM embargoes WHERE recipient = @recipient AND until <= @now`,
	},
	{
		// While a suppression holds, its hash keeps mail from them; so it is forgotten when it has run out.
		table: "suppressions",
		erase: `
UPDATE suppressions SET masked = '•••', detail = CASE WHEN reason = 'manual' THEN '' ELSE detail END, lifted_why = ''
WHERE recipient = @recipient AND masked <> '•••'`,
		forget: `
UPDATE suppressions SET recipient = @nobody, address = @nobody
WHERE recipient = @recipient AND masked = '•••' AND (lifted_at IS NOT NULL OR until <= @now)`,
	},
}

const (
	// An erasure that comes after another one keeps what was erased before for as long as what is erased now.
	addErasureSQL = `
INSERT INTO erasures (recipient, erased_at, forget_at) VALUES (@recipient, @now, @now + @keep)
ON CONFLICT (recipient) DO UPDATE SET erased_at = excluded.erased_at, forget_at = excluded.forget_at`

	dueErasuresSQL = `SELECT recipient FROM erasures WHERE forget_at <= @now ORDER BY forget_at LIMIT 100 {{skip locked}}`

	putOffErasureSQL = `
UPDATE erasures SET forget_at = (SELECT max(x.until) FROM suppressions x WHERE x.recipient = @recipient AND x.masked = '•••')
WHERE recipient = @recipient AND EXISTS (SELECT 1 FROM suppressions x WHERE x.recipient = @recipient AND x.masked = '•••')`

	endErasureSQL = `DELETE FROM erasures WHERE recipient = @recipient AND forget_at <= @now`
)

// execAll runs the statements that are not empty, one after the other.
func (q Tx) execAll(args Args, statements ...string) error {
	for _, statement := range statements {
		if statement == "" {
			continue
		}
		if err := q.exec(statement, args); err != nil {
			return err
		}
	}
	return nil
}

// Erase implements Eraser.
func (db *DB) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error {
	act, err := checkErased(h, keep, act)
	if err != nil {
		return err
	}
	return db.write(ctx, func(q Tx) error {
		statements := append(slices.Clone(db.dialect.beforeErase), each(personal, func(p personalTable) string { return p.erase })...)
		args := Args{"recipient": h, "keep": keep, "empty": []byte{}}
		if err := q.execAll(args, append(statements, addErasureSQL)...); err != nil {
			return err
		}
		return q.addAct(act)
	})
}

// Forget implements Eraser. Replicas may do it at once: each person is one's alone.
func (db *DB) Forget(ctx context.Context) (n int, err error) {
	err = db.write(ctx, func(q Tx) error {
		if err := q.execAll(nil, db.dialect.beforeForget...); err != nil {
			return err
		}
		due, err := all(q, func(h *recipient.Hash) []any { return []any{hashField{h}} }, dueErasuresSQL, nil)
		if err != nil {
			return err
		}
		statements := each(personal, func(p personalTable) string { return p.forget })
		statements = append(statements, putOffErasureSQL, endErasureSQL)
		for _, h := range due {
			if err := q.execAll(Args{"recipient": h, "nobody": nobody}, statements...); err != nil {
				return err
			}
		}
		n = len(due)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
