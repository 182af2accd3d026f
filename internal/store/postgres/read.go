package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// found turns pgx's word for no row into ours.
func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

func readRows[T any](ctx context.Context, p *DB, fields func(*T) []any, query string, args ...any) ([]T, error) {
	return sqldb.ReadAll(ctx, &p.DB, fields, query, sqldb.Numbered(args))
}

// latestSQL is one look at the index for each recipient, whatever the planner thinks of how many there are.
var latestSQL = `
SELECT s.* FROM unnest(@recipients) AS h (recipient) CROSS JOIN LATERAL (
    (SELECT ` + sqldb.SendColumns + ` FROM sends s WHERE s.recipient = h.recipient AND s.number > 0 AND s.logged_at > @now - @within
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
    UNION ALL
    (SELECT ` + sqldb.SendColumns + ` FROM sends s WHERE s.recipient = h.recipient AND s.number = 0 AND s.logged_at > @now - @within
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
) s`
