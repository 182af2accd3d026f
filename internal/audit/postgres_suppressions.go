package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Suppress implements Log.
func (p *Postgres) Suppress(ctx context.Context, x Suppression, lasts time.Duration) (Suppression, bool, error) {
	x, err := x.checked(lasts)
	if err != nil {
		return x, false, err
	}
	added, err := changeRows(ctx, p, (*Suppression).fields, `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
INSERT INTO suppressions AS x (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock.now, clock.now + $11 * interval '1 microsecond' FROM clock
ON CONFLICT (id) DO NOTHING RETURNING `+suppressionColumns,
		x.ID, x.App, string(x.Channel), x.Address[:], x.Recipient[:], x.To, string(x.Cause), x.Detail, knownID(x.Send), x.By, lasts.Microseconds())
	if err != nil {
		return Suppression{}, false, err
	}
	if len(added) > 0 {
		return added[0], true, nil
	}
	old, err := readRows(ctx, p, (*Suppression).fields, `SELECT `+suppressionColumns+` FROM suppressions x WHERE x.id = $1`, x.ID)
	if err != nil {
		return Suppression{}, false, err
	}
	return old[0], false, nil // rows are not deleted
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
func (p *Postgres) Lift(ctx context.Context, l Lifting) (lifted int, err error) {
	if l, err = l.checked(); err != nil {
		return 0, err
	}
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, p.sql(`
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE suppressions x SET lifted_at = clock.now, lifted_by = $1, lifted_why = $2 FROM clock
WHERE x.lifted_at IS NULL AND x.until > clock.now AND x.channel = $3 AND x.address = $4 AND ($5 = '' OR x.app = $5)`),
			l.By, l.Why, string(l.Channel), l.Address[:], l.App)
		lifted = int(tag.RowsAffected())
		return err
	})
	return lifted, err
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
