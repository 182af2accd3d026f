package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

const refusalsPerInsert = 1000 // rows

// RecordRefusals implements sqldb.PerDatabase.
func (db *DB) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	defer db.Observe(&ctx, "refused", "refused")()
	rows := store.MergeRefusals(refusals)
	if len(rows) == 0 {
		return nil
	}
	return db.Write(ctx, "RecordRefusals", sqldb.InOrder, func(q sqldb.Tx) error {
		if err := q.MaskErased(rows); err != nil {
			return err
		}
		var list []*store.SendOrRefusal
		for i := range rows {
			rows[i].SetRefusedAt(q.Now)
			list = append(list, &rows[i])
		}
		for some := range slices.Chunk(list, refusalsPerInsert) {
			if _, err := q.Conn.(pgConn).Exec(ctx, insertRefusalsSQL, pgx.NamedArgs(refusalRows.Args(some))); err != nil {
				return err
			}
		}
		return nil
	})
}

var (
	refusalRows       = sqldb.RefusalTable.List(store.InsertedByRefusal)
	insertRefusalsSQL = refusalRows.InsertSQL() + sqldb.OnConflictAddRefusalSQL
)
