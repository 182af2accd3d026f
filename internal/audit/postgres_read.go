package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// found turns pgx's word for no row into ours.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

func readRows[T any](ctx context.Context, p *Postgres, fields func(*T) []any, query string, args ...any) (list []T, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, query, args...)
		list, err = pgx.CollectRows(rows, scanned(fields))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Sends implements Log. What could be rare by its kind alone is found by that.
func (p *Postgres) Sends(ctx context.Context, filter Filter) ([]Send, error) {
	filter, err := filter.checked()
	if err != nil || !filter.matchable() {
		return nil, err
	}
	f := sendFilter{filter}
	if !f.byKind() {
		return p.DB.Sends(ctx, filter)
	}
	query, args := f.kindQuery(p.DB.dialect)
	return p.page(ctx, filter, query, args)
}

// latestSQL is one look at the index for each recipient, whatever the planner thinks of how many there are.
const latestSQL = `
SELECT s.* FROM unnest(@recipients) AS h (recipient) CROSS JOIN LATERAL (
    SELECT ` + sendColumns + ` FROM sends s WHERE s.recipient = h.recipient AND s.logged_at > @now - @within
    ORDER BY s.logged_at DESC, s.id DESC LIMIT 1
) s`

// byKind says that a filter by app, channel, purpose or provider is all that could be rare about the rows.
func (f sendFilter) byKind() bool {
	return f.App+string(f.Channel)+f.Purpose+f.Provider != "" && f.Recipient == nil && f.Reference+f.BlockedBy+f.Country+f.Domain+f.Support == "" &&
		(f.Status == "" || f.Status == Sent)
}

// kindOf is what one index of Postgres is on, which so serves app, channel, purpose, provider and any of them together.
const kindOf = `(s.app || E'\x1f' || s.channel || E'\x1f' || s.purpose || E'\x1f' || s.provider) COLLATE "C"`

// kindQuery is the same as query, for Postgres. The few kinds that there are come first, each from one look at the index
// past the one before (a loose index scan, https://wiki.postgresql.org/wiki/Loose_indexscan), then the first rows of each
// kind that fits. So a kind that is rare, or is not there, is not looked for in the whole log. Bounds in place of an
// equality, and an order that begins with the kind: no other index has that, so the planner cannot choose one.
func (f sendFilter) kindQuery(d dialect) (string, []any) {
	c := f.conditions(d)
	c.add(kindOf + " >= kind.name AND " + kindOf + " <= kind.name")
	f.between(&c, d, kindOf+", ", "kind.name, ")
	inner := "SELECT " + sendColumns + " FROM sends s" + c.where() + f.page(kindOf)
	fits := conditions{args: c.args}
	for i, value := range []string{f.App, string(f.Channel), f.Purpose, f.Provider} {
		if value != "" {
			fits.add(fmt.Sprintf(`split_part(kind.name, E'\x1f', %d) = ?`, i+1), value)
		}
	}
	return `
WITH RECURSIVE kind (name) AS (
    (SELECT ` + kindOf + ` FROM sends s ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT next.name FROM kind CROSS JOIN LATERAL (
        SELECT ` + kindOf + ` AS name FROM sends s WHERE ` + kindOf + ` > kind.name ORDER BY 1 LIMIT 1
    ) next
)
SELECT s.* FROM kind CROSS JOIN LATERAL (` + inner + `) s` + fits.where() + f.page(), fits.args
}
