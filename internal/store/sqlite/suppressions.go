package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// sqliteBar is what Finish does of an outcome's Bar, in its transaction.
func sqliteBar(ctx context.Context, tx *sql.Tx, o store.Outcome, now time.Time) error {
	row, err := sqliteSend(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	_, err = sqliteTx(ctx, tx, now).Suppress(store.Suppression{
		ID: store.SuppressionID(row.ID, o.Suppress.Cause), App: row.App, Channel: row.Channel, Address: o.Suppress.Address,
		Recipient: row.Recipient,
		To:        row.To, Cause: o.Suppress.Cause, Detail: o.ProviderCode, Send: row.ID, Since: now, Until: now.Add(o.Suppress.For),
	})
	return err
}

// sqliteSuppressing is the suppression that an intent meets, the one that lasts longest; Nil: none.
func sqliteSuppressing(ctx context.Context, tx *sql.Tx, in store.Intent, now time.Time) (uuid.UUID, error) {
	id, err := first(ctx, tx, func(id *uuid.UUID) []any { return []any{id} }, `
SELECT id FROM suppressions
WHERE lifted_at IS NULL AND address = $1 AND channel = $2 AND until > $3 AND app IN ('', $4) ORDER BY until DESC, id DESC LIMIT 1`,
		in.Address[:], in.Send.Channel, sqldb.Micros(now), in.Send.App)
	if errors.Is(err, store.ErrNotFound) {
		return uuid.Nil, nil
	}
	return id, err
}
