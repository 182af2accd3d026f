package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sendcode/internal/recipient"
)

// Spend implements Log.
func (s *SQLite) Spend(ctx context.Context, charges []Charge) (spent []Spent, refusedBy string, err error) {
	charges, err = checkedCharges(charges)
	if err != nil {
		return nil, "", err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, c := range charges {
			at := Spent{Charge: c, Period: period(c.Per, now)}
			err := tx.QueryRowContext(ctx, `
INSERT INTO spending (account, period, used) SELECT $1, $2, $3 WHERE $3 <= $4
ON CONFLICT (account, period) DO UPDATE SET used = used + $3 WHERE used + $3 <= $4
RETURNING used`, c.Account, at.Period, c.Amount, c.Limit).Scan(&at.Used)
			if errors.Is(err, sql.ErrNoRows) {
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
func (s *SQLite) Unspend(ctx context.Context, spent []Spent) error {
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		for _, x := range spent {
			_, err := tx.ExecContext(ctx, `UPDATE spending SET used = max(0, used - $1) WHERE account = $2 AND period = $3`, x.Amount, x.Account, x.Period)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Embargo implements Log.
func (s *SQLite) Embargo(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error {
	if err := checkEmbargo(lasts); err != nil {
		return err
	}
	_, err := s.one(ctx, `
INSERT INTO embargoes (channel, recipient, since, until) VALUES ($1, $2, $3, $4)
ON CONFLICT (recipient, channel) DO UPDATE SET since = excluded.since, until = excluded.until WHERE excluded.until > until`, func(now time.Time) []any {
		return []any{string(ch), h[:], µs(now), µs(now) + lasts.Microseconds()}
	})
	return err
}

// Embargoed implements Log.
func (s *SQLite) Embargoed(ctx context.Context, ch recipient.Channel, h recipient.Hash) (e Embargo, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		var at embargoed
		err := tx.QueryRowContext(ctx, `SELECT since, until FROM embargoes WHERE recipient = $1 AND channel = $2`, h[:], string(ch)).
			Scan(timeField{&at.since}, timeField{&at.until})
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		e = at.at(now)
		return err
	})
	return e, err
}
