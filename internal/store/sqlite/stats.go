package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Stats implements Statistics.
func (s *DB) Stats(ctx context.Context, q store.StatsQuery) (stats store.Stats, err error) {
	if q, err = q.Checked(); err != nil {
		return stats, err
	}
	c := sqldb.StatsConditions(q, words)
	stretch, span := fmt.Sprintf("(s.logged_at + %d) / %d", q.Offset.Microseconds(), q.Each.Microseconds()), "s.finished_at - s.logged_at"
	stats.Tallies, err = sqliteRows(ctx, s, func(t *store.Tally) []any { return sqldb.TallyFields(t, q) }, c.Tallies(stretch), c.Args...)
	if err != nil {
		return store.Stats{}, err
	}
	err = sqldb.AskMeasures(&stats, q, c, stretch, span, func(fields func(*store.Interval) []any, query string) ([]store.Interval, error) {
		return sqliteRows(ctx, s, fields, query, c.Args...)
	})
	if err != nil {
		return store.Stats{}, err
	}
	if err := s.readers.QueryRowContext(ctx, c.Lost(words), c.Args...).Scan(&stats.Undelivered); err != nil {
		return store.Stats{}, store.Unavailable(sqliteCause(err))
	}
	return stats, nil
}

// Domains implements Statistics.
func (s *DB) Domains(ctx context.Context, q store.StatsQuery) ([]store.DomainTally, error) {
	q, err := q.Checked()
	if err != nil {
		return nil, err
	}
	query, args := sqldb.DomainsQuery(q, words)
	return sqliteRows(ctx, s, sqldb.DomainFields, query, args...)
}

// CountHours implements HourCounter.
func (s *DB) CountHours(ctx context.Context, age time.Duration, limit int) (int, error) {
	if err := store.CheckAge(age, limit); err != nil {
		return 0, err
	}
	return 0, s.write(ctx, func(context.Context, *sql.Tx, time.Time) error { return nil })
}
