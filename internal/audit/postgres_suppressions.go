package audit

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Suppress implements Log.
func (p *Postgres) Suppress(ctx context.Context, x Suppression, lasts time.Duration, act *Act) (out Suppression, added bool, err error) {
	x, act, err = x.checked(lasts, act)
	if err != nil {
		return x, false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		if act != nil {
			if err := p.addAct(ctx, tx, *act); err != nil {
				return err
			}
		}
		rows, err := txRows(ctx, tx, (*Suppression).fields, p.sql(suppressSQL), x.ID, x.App, string(x.Channel), x.Address[:], x.Recipient[:], x.To, string(x.Cause), x.Detail,
			knownID(x.Send), x.By, lasts.Microseconds())
		if added = len(rows) > 0; err != nil {
			return err
		}
		if !added {
			rows, err = txRows(ctx, tx, (*Suppression).fields, `SELECT `+suppressionColumns+` FROM suppressions x WHERE x.id = $1`, x.ID)
		}
		if err == nil {
			out = rows[0] // rows are not deleted
		}
		return err
	})
	if err != nil {
		return Suppression{}, false, err
	}
	return out, added, nil
}

const suppressSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
INSERT INTO suppressions AS x (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock.now, clock.now + $11 * interval '1 microsecond' FROM clock
ON CONFLICT (id) DO NOTHING RETURNING ` + suppressionColumns

func txRows[T any](ctx context.Context, tx pgx.Tx, fields func(*T) []any, statement string, args ...any) ([]T, error) {
	rows, _ := tx.Query(ctx, statement, args...)
	return pgx.CollectRows(rows, scanned(fields))
}

// Suppressions implements Log.
func (p *Postgres) Suppressions(ctx context.Context, f SuppressionFilter) ([]Suppression, time.Time, error) {
	f, err := f.checked()
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, now, err
	}
	query, args := f.query(now, func(t time.Time) any { return t })
	list, err := readRows(ctx, p, (*Suppression).fields, query, args...)
	return list, now, err
}

// Lift implements Log.
func (p *Postgres) Lift(ctx context.Context, l Lifting, act *Act) (lifted []Suppression, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return nil, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		lifted, err = txRows(ctx, tx, (*Suppression).fields, p.sql(`
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE suppressions x SET lifted_at = clock.now, lifted_by = $1, lifted_why = $2 FROM clock
WHERE x.lifted_at IS NULL AND x.until > clock.now AND x.channel = $3 AND x.address = $4 AND ($5 = '' OR x.app = $5) RETURNING `+suppressionColumns),
			l.By, l.Why, string(l.Channel), l.Address[:], l.App)
		if err != nil || act == nil {
			return err
		}
		return p.addAct(ctx, tx, liftedAs(*act, lifted))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lifted, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	return lifted, nil
}

func (p *Postgres) suppressionsOf(ctx context.Context, row Send) ([]Suppression, error) {
	ids := suppressionsOf(row)
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return readRows(ctx, p, (*Suppression).fields,
		`SELECT `+suppressionColumns+` FROM suppressions x WHERE x.id = ANY ($1::uuid[]) ORDER BY x.since, x.id`, raw)
}
