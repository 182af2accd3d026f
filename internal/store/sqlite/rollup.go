package sqlite

import (
	"context"
	"database/sql"
	"time"

	"sendcode/internal/store"
)

// CountHours implements Counter.
func (s *DB) CountHours(ctx context.Context, age time.Duration, limit int) (int, error) {
	if err := store.CheckAge(age, limit); err != nil {
		return 0, err
	}
	return 0, s.write(ctx, func(context.Context, *sql.Tx, time.Time) error { return nil })
}
