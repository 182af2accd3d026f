package audit

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
)

// spendSQL adds to an account unless that passes its cap. Two at once stand in line for the row, and the second looks at what
// the first has left.
const spendSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AT TIME ZONE 'UTC' AS now)
INSERT INTO spending AS s (account, period, used)
SELECT $1, date_trunc($2, clock.now)::date, $3::bigint FROM clock WHERE $3::bigint <= $4::bigint
ON CONFLICT (account, period) DO UPDATE SET used = s.used + excluded.used WHERE s.used + excluded.used <= $4::bigint
RETURNING s.used, to_char(s.period, 'YYYY-MM-DD')`

// Spend implements Log.
func (p *Postgres) Spend(ctx context.Context, charges []Charge) (spent []Spent, refusedBy string, err error) {
	charges, err = checkedCharges(charges)
	if err != nil {
		return nil, "", err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		spent, refusedBy = nil, ""
		for _, c := range charges {
			at := Spent{Charge: c}
			err := tx.QueryRow(ctx, p.sql(spendSQL), c.Account, string(c.Per), c.Amount, c.Limit).Scan(&at.Used, &at.Period)
			if errors.Is(err, pgx.ErrNoRows) {
				refusedBy = c.Account
				return errOverCap
			}
			if err != nil {
				return err
			}
			spent = append(spent, at)
		}
		return nil
	})
	return spending(spent, refusedBy, err)
}

// Unspend implements Log.
func (p *Postgres) Unspend(ctx context.Context, spent []Spent) error {
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		for _, x := range spent {
			_, err := tx.Exec(ctx, `UPDATE spending SET used = greatest(0, used - $1) WHERE account = $2 AND period = $3::text::date`, x.Amount, x.Account, x.Period)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const embargoSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
INSERT INTO embargoes AS e (channel, recipient, since, until)
SELECT $1, $2, clock.now, clock.now + $3 * interval '1 microsecond' FROM clock
ON CONFLICT (recipient, channel) DO UPDATE SET since = excluded.since, until = excluded.until WHERE excluded.until > e.until`

// Embargo implements Log.
func (p *Postgres) Embargo(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error {
	if err := checkEmbargo(lasts); err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, p.sql(embargoSQL), string(ch), h[:], lasts.Microseconds())
		return err
	})
}

// Embargoed implements Log.
func (p *Postgres) Embargoed(ctx context.Context, ch recipient.Channel, h recipient.Hash) (e Embargo, err error) {
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		var at embargoed
		var now time.Time
		err := tx.QueryRow(ctx, p.sql(`SELECT since, until, {{now}} FROM embargoes WHERE recipient = $1 AND channel = $2`), h[:], string(ch)).Scan(&at.since, &at.until, &now)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		e = at.at(now)
		return err
	})
	return e, err
}
