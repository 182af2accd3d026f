package sqlite

import (
	"context"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Domains implements Statistics.
func (s *DB) Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error) {
	q, err := q.Checked()
	if err != nil {
		return nil, err
	}
	query, args := sqldb.DomainsQuery(q, words)
	return sqliteRows(ctx, s, sqldb.DomainFields, query, args...)
}
