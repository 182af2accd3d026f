package audit

import (
	"context"
	"database/sql"
	"time"
)

// Refused implements Refusals.
func (s *SQLite) Refused(ctx context.Context, refusals []Send) error {
	rows, err := merged(refusals)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		insert, err := tx.PrepareContext(ctx, sendTable.insertOne(asBlock)+addRefusalSQL)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range rows {
			rows[i].refusedAt(now)
			if _, err := insert.ExecContext(ctx, sendTable.values(asBlock, &rows[i])...); err != nil {
				return err
			}
		}
		return nil
	})
}

func sqliteRows[T any](ctx context.Context, s *SQLite, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, unavailable(sqliteCause(err))
	}
	list, err := collect(rows, fields)
	return list, unavailable(sqliteCause(err))
}
