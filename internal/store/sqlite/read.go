package sqlite

import (
	"context"
	"database/sql"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Refused implements Refusals.
func (s *DB) Refused(ctx context.Context, refusals []store.Send) error {
	rows, err := store.Merged(refusals)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		insert, err := tx.PrepareContext(ctx, sqldb.SendTable.InsertOne(sqldb.AsBlock)+sqldb.AddRefusalSQL)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range rows {
			rows[i].RefusedAt(now)
			if _, err := insert.ExecContext(ctx, sqldb.SendTable.Values(sqldb.AsBlock, &rows[i])...); err != nil {
				return err
			}
		}
		return nil
	})
}
