package audit

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqliteAct writes a checked act in the transaction of its effect.
func sqliteAct(ctx context.Context, tx *sql.Tx, a Act, now time.Time) error {
	return Tx{liteConn{ctx, tx}, &sqliteWords, now}.addAct(a)
}

// addAct writes a checked act in the transaction of its effect.
func (p *Postgres) addAct(ctx context.Context, tx pgx.Tx, a Act) error {
	return Tx{pgConn{ctx, tx}, &p.DB.dialect, time.Time{}}.addAct(a)
}
