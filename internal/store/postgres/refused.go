package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// maxRefusals is how many rows one statement writes.
const maxRefusals = 1000

// Refused implements Refusals.
func (p *DB) Refused(ctx context.Context, refusals []store.Send) error {
	rows, err := store.Merged(refusals)
	if err != nil || len(rows) == 0 {
		return err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return err
	}
	list := make([]*store.Send, len(rows))
	for i := range rows {
		rows[i].RefusedAt(now)
		list[i] = &rows[i]
	}
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch // one transaction
		for ; len(list) > 0; list = list[min(len(list), maxRefusals):] {
			b.Queue(sqldb.SendTable.InsertMany(sqldb.AsBlock)+sqldb.AddRefusalSQL, sqldb.SendTable.Arrays(sqldb.AsBlock, list[:min(len(list), maxRefusals)])...)
		}
		return conn.SendBatch(ctx, &b).Close()
	})
}
